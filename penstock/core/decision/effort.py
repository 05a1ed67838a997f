"""The work of one evaluation: counted in steps, bounded, and stopped when nobody waits for it any more."""

from collections.abc import Callable

SHORT_FROM = 20_000_000
"""Steps after which cheaper methods are used, some seconds: one plan instead of several, slices bought first fit."""
MOST_STEPS = 60_000_000
"""Steps after which nothing more is placed: what is left stays unmet, and says why."""
SHAPE_STEPS = 40
"""Steps of preparing one shape for one plan."""
LOOK_EVERY = 100_000
"""Steps between two looks at whether the evaluation was given up, some hundredths of a second."""


class GivenUp(Exception):
    """Nobody waits for this evaluation any more, or it did all the work that it may do."""


def _never() -> bool:
    return False


class Effort:
    """Steps of about a quarter of a microsecond: counted, not timed, so that the same snapshot gives the same decision."""

    __slots__ = ("_is_given_up", "_look_at", "_most", "_short_from", "_stop_at", "spent", "was_short")

    def __init__(
        self,
        is_given_up: Callable[[], bool] | None = None,
        *,
        short_from: int | None = None,
        most: int | None = None,
        stop_at: int | None = None,
    ) -> None:
        """`is_given_up` is asked now and then; once it says so, or `stop_at` steps are counted, `GivenUp` is raised."""
        self._is_given_up = is_given_up or _never
        self._short_from = SHORT_FROM if short_from is None else short_from
        self._most = MOST_STEPS if most is None else most
        self._stop_at = stop_at
        self._look_at = LOOK_EVERY if stop_at is None else min(stop_at, LOOK_EVERY)
        self.spent = 0
        self.was_short = False
        """Whether a cheaper method was used anywhere."""

    def spend(self, steps: int) -> None:
        """Count steps."""
        self.spent += steps
        if self.spent >= self._look_at:
            self._look_at = self.spent + LOOK_EVERY
            if self._stop_at is not None:
                self._look_at = min(self._look_at, max(self._stop_at, self.spent + 1))
            if self._is_given_up() or (self._stop_at is not None and self.spent >= self._stop_at):
                raise GivenUp

    def look(self) -> None:
        """Count one step that the bounds do not concern: explanations have an effort of their own."""
        self._look_at -= 1
        self.spend(0)

    def is_short(self) -> bool:
        """Whether to use a cheaper method here, which the decision then says."""
        self.was_short = self.was_short or self.spent >= self._short_from
        return self.spent >= self._short_from

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is to be placed."""
        self.was_short = self.was_short or self.spent >= self._most
        return self.spent >= self._most
