"""The effects of a configuration that is not applied yet, as `penstock config diff` tells them."""

from pydantic import Field

from penstock.contract.answers import DrainSummary
from penstock.model.slices import DrainCause
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


class OutdatedEffect(Value):
    """READY slices of a group that are to be replaced for one cause, with the present configuration and with the wanted one.

    They are replaced bit by bit: at most `at_once` of them are disrupted at a time, none of them before `opens_at`.
    """

    group: str
    cause: DrainCause
    before: int
    after: int
    at_once: int
    opens_at: Moment | None = None
    """When the window opens in which replacing may begin, if it is closed."""


class Effects(Value):
    """What the next decision would do otherwise if a configuration were applied; what it does anyway is left out.

    `outdated` goes beyond the next decision: it has all slices that are to be replaced in the end.
    """

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
    outdated: tuple[OutdatedEffect, ...] = ()
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
        actions = (self.launches, self.drains, self.called_off, self.spared, self.cancelled)
        lists = (*actions, self.outdated, self.blocked, self.removed)
        return any(lists) or self.unmet.before != self.unmet.after
