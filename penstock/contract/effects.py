"""The effects of a configuration that is not applied yet, as `penstock config diff` tells them."""

from pydantic import Field

from penstock.contract.answers import DrainSummary
from penstock.model.units import Moment
from penstock.model.value import Value


class LaunchEffect(Value):
    """Slices that a group would launch at once, with the present configuration and with the wanted one."""

    group: str
    before: int
    after: int


class BlockEffect(Value):
    """A group that could add no slice any more, or a launch limit that would defer slices of it, and why."""

    group: str
    reason: str


class UnmetEffect(Value):
    """Tasks that would be unmet, with the present configuration and with the wanted one."""

    before: int
    after: int


class Effects(Value):
    """What the next decision would do otherwise if a configuration were applied; what it does anyway is left out."""

    at: Moment
    held: str | None = None
    """Why nothing of it would be carried out now: a pause, a recovery."""
    launches: tuple[LaunchEffect, ...] = ()
    drains: tuple[DrainSummary, ...] = ()
    called_off: tuple[DrainSummary, ...] = ()
    """Slices on their way that would be drained before they are READY."""
    spared: tuple[DrainSummary, ...] = ()
    """Slices that the present configuration would drain or call off now, and the wanted one would not."""
    cancelled: tuple[DrainSummary, ...] = ()
    """Slices whose drains under way would be cancelled."""
    blocked: tuple[BlockEffect, ...] = ()
    unmet: UnmetEffect
    cost_per_hour_before: float = 0.0
    cost_per_hour_after: float = 0.0
    """Once all launches are READY."""
    removed: dict[str, int] = Field(default_factory=dict)
    """Slices of groups that the wanted configuration does not have: they go once they are idle."""

    @property
    def differ(self) -> bool:
        """Whether anything would happen otherwise."""
        lists = (self.launches, self.drains, self.called_off, self.spared, self.cancelled, self.blocked, self.removed)
        return any(lists) or self.unmet.before != self.unmet.after
