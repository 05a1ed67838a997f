"""The two runners of workflows: one for production, one that trusts nothing of ours."""

import compileall
from pathlib import Path

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

import workflows

PASSED_THROUGH = (
    "penstock",
    "yaml",
    "workflows.answering",
    "workflows.details",
    "workflows.moves",
    "workflows.policies",
    "workflows.timelines",
)
"""Imported once for all workflows instead of once for each: values and functions without a state of their own. The strict runner
checks them in tests.

Modules that define workflows are never passed through: what they keep would be shared between workflows.
"""


def _compile_workflows() -> None:
    """Leave the bytecode of workflow modules where imports find it, if the place can be written.

    The sandbox imports them anew for every workflow, and compiling takes most of that time. Python leaves it by itself, unless it
    was told not to, as it often is in containers.
    """
    compileall.compile_dir(Path(workflows.__file__).parent, quiet=2, maxlevels=0)


def production_runner() -> SandboxedWorkflowRunner:
    """The library is passed through, for speed; what it does is not watched."""
    _compile_workflows()
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))


def strict_runner() -> SandboxedWorkflowRunner:
    """Everything of ours is imported under the sandbox's eyes: a clock read deep in the core fails."""
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default)
