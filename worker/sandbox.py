"""The two runners of workflows: one for production, one that trusts nothing of ours."""

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
    "workflows.ui.slice_timeline",
)
"""Imported once for all workflows instead of once for each: values and functions without a state of their own. The strict runner
checks them in tests.

Modules that define workflows are never passed through: what they keep would be shared between workflows.
"""


class _Instance(WorkflowInstance):
    """A sandboxed workflow whose payloads are converted alike, whatever they are part of.

    The library asks for that context seven times for each payload, inside the sandbox, to give it to converters and codecs that
    want it. There are none here, and asking took as long as most tasks do otherwise.
    """

    def __init__(self, sandboxed: WorkflowInstance) -> None:
        self._sandboxed = sandboxed

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        return self._sandboxed.activate(act)

    def get_serialization_context(self, command_info: object) -> None:  # noqa: ARG002 - it is the same for all
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
    """Leave the bytecode of workflow modules where imports find it, if the location can be written.

    The sandbox imports them anew for every workflow, and compiling takes most of that time. Python leaves it by itself, unless it
    was told not to, as it often is in containers.
    """
    compileall.compile_dir(Path(workflows.__file__).parent, quiet=2, maxlevels=0)


def production_runner() -> SandboxedWorkflowRunner:
    """The library is passed through, for speed; what it does is not watched."""
    _compile_workflows()
    return _Runner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))


def strict_runner() -> SandboxedWorkflowRunner:
    """Everything of ours is imported under the sandbox's eyes: a clock read deep in the core fails."""
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default)
