"""The state of an autoscaler workflow, changed only through `apply`; slice reports are applied in batches."""

from datetime import datetime

from temporalio import workflow

from penstock.contract.slices import SliceReport
from penstock.core.state.apply import apply
from penstock.core.state.events import AnyEvent, SlicesReported
from penstock.core.state.state import AutoscalerState


class StateCell:
    """The state, and reports that are not folded into it yet: thousands may arrive together and are applied in one batch.

    The result does not depend on the batches, because every report counts on its own. A query does not fold reports in: a replay
    runs no queries and must reach the same state.
    """

    def __init__(self, state: AutoscalerState) -> None:
        self._folded = state
        self._reports: list[SliceReport] = []
        self._received_at: datetime = state.now
        """When the last of the reports arrived."""
        self._previewed: AutoscalerState | None = None
        """The state with the reports, computed for a query."""

    @property
    def state(self) -> AutoscalerState:
        """The current state."""
        if not self._reports:
            return self._folded
        state = self._previewed
        if state is None:
            state = apply(self._folded, SlicesReported(at=self._received_at, reports=tuple(self._reports)))
        if workflow.unsafe.is_read_only():
            self._previewed = state
        else:
            self._folded, self._reports, self._previewed = state, [], None
        return state

    @property
    def without_reports(self) -> AutoscalerState:
        """The state without the latest reports: enough to parse further ones."""
        return self._folded

    def apply_event(self, event: AnyEvent) -> None:
        """Apply an event; a report waits for its batch."""
        if isinstance(event, SlicesReported):
            self._reports += event.reports
            self._received_at, self._previewed = event.at, None
        else:
            self._folded = apply(self.state, event)
