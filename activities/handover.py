"""States that workflows hand over to the activities of their own process, instead of being queried for them."""

from penstock.core.state.state import AutoscalerState

KEPT_RUNS = 100
"""Runs whose state is kept until an activity takes it. The oldest is forgotten first: its activity runs elsewhere and queries."""


class HandedOver:
    """The newest state of each run that was handed over and not taken yet, with the activity that is to take it.

    Run and activity determine the state: whichever worker scheduled the activity, live or in a replay, it had the same.
    """

    def __init__(self) -> None:
        self._states: dict[str, tuple[str, AutoscalerState]] = {}

    def put(self, run_id: str, activity_id: str, state: AutoscalerState) -> None:
        """Hand a state over to an activity. Called in the threads of workflows."""
        self._states.pop(run_id, None)
        self._states[run_id] = (activity_id, state)
        for oldest in list(self._states)[:-KEPT_RUNS]:
            self._states.pop(oldest, None)

    def take(self, run_id: str, activity_id: str) -> AutoscalerState | None:
        """The state for an activity, if this process has it."""
        taker, state = self._states.pop(run_id, ("", None))
        return state if taker == activity_id else None
