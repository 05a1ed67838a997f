"""What the status says about pools, pressure and standing requests, as of the last decision."""

from typing import NamedTuple

from penstock.model.decision import Code, Pressure
from penstock.model.units import Moment
from penstock.model.value import Value


class GroupFigures(NamedTuple):
    """Figures of a decision for one group, in slices, which the state keeps for the status.

    `spare` are slices beyond the group's target. The others are its pressure: `capacity`, `logical` and `accounted_for`.
    """

    spare: int = 0
    capacity: int = 0
    logical: int = 0
    accounted_for: int = 0

    @property
    def pressure(self) -> Pressure:
        """The pressure on the group."""
        return Pressure(capacity=self.capacity, logical=self.logical, accounted_for=self.accounted_for)


class PoolStatus(Value):
    """One pool, in chips: total, reserved for other users, charged by slices now, and the pressure of the last decision."""

    name: str
    chips: int
    system: int
    charged: int
    pressure: Pressure = Pressure()


class StandingStatus(Value):
    """A standing request, and whether the last decision met it; None if it did not judge it.

    An unmet one has the reason, as a code and a sentence.
    """

    owner: str
    met: bool | None = None
    code: Code | None = None
    message: str = ""
    expires: Moment | None = None
