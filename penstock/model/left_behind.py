"""What a slice keeps of its group once the group is removed from the configuration."""

from penstock.model.cluster import DEFAULT_CANCEL_SECONDS, DEFAULT_IDLE_SECONDS, ScaleGroup
from penstock.model.units import Count, Seconds
from penstock.model.value import Value


class LeftBehind(Value):
    """The facts of a removed group that its slices still go by: what they are charged for, and when they are given back.

    A slice of a configured group has them only if the group's idle timeout is not the one that it was made under any more.
    """

    pool: str | None = None
    """The pool that the slice charges `chips` to."""
    chips: Count = 0
    idle_timeout_seconds: Seconds = DEFAULT_IDLE_SECONDS
    cancel_after_seconds: Seconds = DEFAULT_CANCEL_SECONDS
    keep_queued: bool = False
    price_per_hour: float | None = None

    @classmethod
    def of(cls, group: ScaleGroup) -> "LeftBehind":
        """What slices of the group keep."""
        return cls(
            pool=group.pool,
            chips=group.chips_per_slice if group.pool is not None else 0,
            idle_timeout_seconds=group.idle_timeout_seconds,
            cancel_after_seconds=group.cancel_after_seconds,
            keep_queued=group.keep_queued,
            price_per_hour=group.price_per_hour,
        )
