"""Hand a workflow's state over to an activity in the same process. Never affects the history."""

from collections.abc import Callable

from temporalio import workflow

from penstock.core.state.state import AutoscalerState

HAND_OVER = "penstock_hand_over"
"""The external function that keeps the state for the activity."""
LARGEST_HANDED_OVER = 2000
"""Slices plus runs of demand. Beyond it an evaluation takes far longer than the query, and would compete for the interpreter with
the message that the workflow reads next, which has two seconds; the query waits for its turn."""


def hand_over(state: AutoscalerState, activity_id: str) -> None:
    """Hand the state over to an activity that is about to be scheduled; one that runs elsewhere queries it."""
    runs = sum(len(source.demand.workload.runs) for source in state.demand.values())
    if runs + len(state.slices) > LARGEST_HANDED_OVER:
        return
    put: Callable[[str, str, AutoscalerState], None] | None = workflow.extern_functions().get(HAND_OVER)
    if put is not None and not workflow.unsafe.is_replaying():
        put(workflow.info().run_id, activity_id, state)
