"""What an autoscaler remembers: one state, changed only through `apply`."""

from datetime import datetime

from temporalio import workflow

from penstock.contract.slices import SliceReport
from penstock.core.state.apply import apply
from penstock.core.state.events import AnyEvent, SlicesReported
from penstock.core.state.state import AutoscalerState


class StateCell:
    """The state, and reports of slices that are not folded in yet: thousands may come at once, and are taken in together.

    Reports count one by one, so that it does not matter with which others they are folded in. Who only asks leaves no trace:
    questions are not asked again in a replay, and the state must be the same after it.
    """

    def __init__(self, state: AutoscalerState) -> None:
        self._folded = state
        self._reports: list[SliceReport] = []
        self._heard_at: datetime = state.now
        """When the last of the reports came."""
        self._previewed: AutoscalerState | None = None
        """What the reports make of the state, worked out for somebody who only asked."""

    @property
    def state(self) -> AutoscalerState:
        """What holds now."""
        if not self._reports:
            return self._folded
        state = self._previewed
        if state is None:
            state = apply(self._folded, SlicesReported(at=self._heard_at, reports=tuple(self._reports)))
        if workflow.unsafe.is_read_only():
            self._previewed = state
        else:
            self._folded, self._reports, self._previewed = state, [], None
        return state

    @property
    def without_reports(self) -> AutoscalerState:
        """What held before the latest reports: enough to read further ones."""
        return self._folded

    def apply_event(self, event: AnyEvent) -> None:
        """Something happened."""
        if isinstance(event, SlicesReported):
            self._reports += event.reports
            self._heard_at, self._previewed = event.at, None
        else:
            self._folded = apply(self.state, event)
