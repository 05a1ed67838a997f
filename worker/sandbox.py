"""The two workflow runners: a fast one for production, and a strict one that sandboxes all of our code, for tests."""

import compileall
from pathlib import Path

from temporalio import workflow
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import StorageDriverStoreContext
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

import workflows

PASSED_THROUGH = (
    "penstock",
    "yaml",
    "workflows.queries",
    "workflows.ui.cluster_details",
    "workflows.state_cell",
    "workflows.slice_telemetry",
    "workflows.policies",
    "workflows.ui.markdown_tables",
    "workflows.ui.slice_details",
)
"""Modules imported once per process instead of once per workflow. They hold values and functions without state. Tests check them
with the strict runner.

Modules that define workflows are never passed through: their module state would be shared between workflows.
"""


class _Instance(WorkflowInstance):
    """A sandboxed workflow without serialization contexts.

    The SDK builds the context seven times per payload, inside the sandbox, for converters and codecs that use it. Penstock has
    none of those, and building the context doubled the time of most workflow tasks.
    """

    def __init__(self, sandboxed: WorkflowInstance) -> None:
        self._sandboxed = sandboxed

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        return self._sandboxed.activate(act)

    def get_serialization_context(self, command_info: object) -> None:  # noqa: ARG002 - the SDK passes it
        return None

    def get_external_store_context(self, command_info: object) -> StorageDriverStoreContext:  # noqa: ARG002
        return StorageDriverStoreContext()

    def get_info(self) -> workflow.Info:
        return self._sandboxed.get_info()

    def get_thread_id(self) -> int | None:
        return self._sandboxed.get_thread_id()


class _Runner(SandboxedWorkflowRunner):
    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _Instance(super().create_instance(det))


def _compile_workflows() -> None:
    """Write the bytecode of workflow modules, if their directory is writable.

    The sandbox imports these modules for every workflow, and compiling takes most of that time. Python writes bytecode by itself,
    except where PYTHONDONTWRITEBYTECODE is set, as in many containers.
    """
    compileall.compile_dir(Path(workflows.__file__).parent, quiet=2, maxlevels=0)


def production_runner() -> SandboxedWorkflowRunner:
    """Passes our library through, for speed; the sandbox does not check it."""
    _compile_workflows()
    return _Runner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))


def strict_runner() -> SandboxedWorkflowRunner:
    """Sandboxes all of our code: a clock read deep in the core fails."""
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default)
