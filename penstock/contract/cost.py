"""What slices cost: money per hour by use, and what idle slices have cost."""

from enum import StrEnum

from penstock.model.value import Value


class Use(StrEnum):
    """What a slice is paid for."""

    BUSY = "busy"
    """READY, and usage says that one of its hosts works or is degraded."""
    IDLE = "idle"
    """READY, and the last word of every source that named it is that all its hosts are idle."""
    ON_THE_WAY = "on_the_way"
    """The cloud has made it, and it is not READY yet."""
    DRAINING = "draining"
    """Draining, or being deleted, until the cloud confirms that it is gone."""
    UNREPORTED = "unreported"
    """READY, and no source says anything about it."""
    REQUESTED = "requested"
    """The cloud was asked for it and has not shown it: it costs nothing yet."""


class CostByUse(Value):
    """Money per hour by use of the slices, as far as prices are known. What is `requested` costs nothing yet."""

    busy: float = 0.0
    idle: float = 0.0
    on_the_way: float = 0.0
    draining: float = 0.0
    unreported: float = 0.0
    requested: float = 0.0

    def of(self, use: Use) -> float:
        """The cost of one use."""
        found: float = getattr(self, use)
        return found

    @property
    def total(self) -> float:
        """What all slices cost an hour now."""
        return round(sum(self.of(use) for use in Use if use is not Use.REQUESTED), 6)
