"""Reports of pressure, for groups that are driven by queue lengths, and what is kept of them."""

from datetime import datetime

from penstock.model.units import Count, Moment
from penstock.model.value import Value


class PressureReport(Value):
    """What a controller that knows only queue lengths says of a group."""

    queued: Count
    """Tasks that wait."""
    running: Count
    """Tasks that run."""
    capacity: Count
    """Tasks that can run at a time on the slices that it sees."""
    slices: Count
    """Slices of the group that it sees."""

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self.running and not self.queued


class PressureState(Value):
    """The last report on a group, and what followed from the reports so far."""

    report: PressureReport | None = None
    at: Moment
    """When the report was received."""
    source: str = ""
    """Who sent it; empty if that is not known, as in a file."""
    stamp: tuple[int, int] = (-1, -1)
    """(epoch, revision) of the message that brought it."""
    stale_at: Moment | None = None
    """From when the report is stale, unless its source is heard of again."""
    desired: Count | None = None
    """Slices that the group should have, by the reports so far."""
    acted_at: Moment | None = None
    """When reports last changed `desired`: the cooldowns count from then."""
    idle_from: Moment | None = None
    """Since when reports have said that nothing runs and nothing waits."""

    def is_fresh(self, now: datetime) -> bool:
        """Whether the report counts: there is one, and it is not stale."""
        return self.report is not None and (self.stale_at is None or now < self.stale_at)
