"""The two runners of workflows: one for production, one that trusts nothing of ours."""

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

PASSED_THROUGH = ("penstock", "yaml")
"""Imported once for all workflows instead of once for each: pure values and functions, checked by the strict runner in tests.

Workflow modules themselves are never passed through: their own state would be shared between workflows.
"""


def production_runner() -> SandboxedWorkflowRunner:
    """The library is passed through, for speed; what it does is not watched."""
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))


def strict_runner() -> SandboxedWorkflowRunner:
    """Everything of ours is imported under the sandbox's eyes: a clock read deep in the core fails."""
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default)
