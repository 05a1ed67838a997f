"""The autoscaler's state: one value, small enough to carry at a hundred thousand tasks and five thousand slices."""

from datetime import UTC, datetime

from pydantic import Field

from penstock.model.cluster import ClusterConfig
from penstock.model.demand import Demand
from penstock.model.ledger import Ledger, UsageTable
from penstock.model.slices import Health, Launched, StandingRequest
from penstock.model.units import Moment
from penstock.model.value import Value

BEFORE_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of a state to which nothing has happened yet."""


class PartialDemand(Value):
    """Parts of a snapshot that have come so far."""

    epoch: int
    revision: int
    parts: int
    received: dict[int, Demand]

    @property
    def stamp(self) -> tuple[int, int]:
        """(epoch, revision) of the snapshot."""
        return (self.epoch, self.revision)


class SourceDemand(Value):
    """One source's demand at (epoch, revision).

    `resync_needed` says why a snapshot must come; until one at least as new as all that was `heard` of has come, this stands.
    """

    epoch: int = -1
    revision: int = -1
    demand: Demand = Demand()
    heard: tuple[int, int] = (-1, -1)
    resync_needed: str | None = None
    partial: PartialDemand | None = None

    @property
    def stamp(self) -> tuple[int, int]:
        """(epoch, revision) of the demand."""
        return (self.epoch, self.revision)


class AutoscalerState(Value):
    """What was told, ordered and seen, folded into what holds now."""

    now: Moment = BEFORE_TIME
    config: ClusterConfig | None = None
    config_revision: int = 0
    slices: Ledger = ()
    usage: UsageTable = Field(default_factory=dict)
    demand: dict[str, SourceDemand] = Field(default_factory=dict)
    health: dict[str, Health] = Field(default_factory=dict)
    standing: dict[str, StandingRequest] = Field(default_factory=dict)
    launched: tuple[Launched, ...] = ()

    @property
    def resync_needed(self) -> dict[str, str]:
        """Why each source must send a snapshot, for sources that must."""
        return {name: source.resync_needed for name, source in sorted(self.demand.items()) if source.resync_needed}
