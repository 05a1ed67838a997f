"""Reports of pressure, for groups that are driven by queue lengths, and what is kept of them."""

from penstock.model.units import Count, Moment
from penstock.model.value import Value


class PressureReport(Value):
    """What a controller that knows only queue lengths says of a group."""

    queued: Count = 0
    """Tasks that wait."""
    running: Count = 0
    """Tasks that run."""
    capacity: Count = 0
    """Tasks that can run at a time on the slices that it sees."""
    slices: Count = 0
    """Slices of the group that it sees."""


class PressureState(Value):
    """The last report on a group, and what followed from the reports so far."""

    report: PressureReport | None = None
    at: Moment
    """When the report was received."""
    stale_at: Moment | None = None
    """From when the report is stale, unless its source is heard of again."""
    desired: Count | None = None
    """Slices that the group should have, by the reports so far."""
    acted_at: Moment | None = None
    """When `desired` changed last: the cooldowns count from then."""
    idle_from: Moment | None = None
    """Since when reports have said that nothing runs and nothing waits."""
