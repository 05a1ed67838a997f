"""The autoscaler's state: one value, small enough to carry at a hundred thousand tasks and five thousand slices."""

from datetime import UTC, datetime
from typing import Literal, TypedDict, TypeVar

from pydantic import Field

from penstock.contract.answers import RecentFailure, Rejection
from penstock.contract.inventories import Orphan
from penstock.contract.orders import Orders
from penstock.contract.slices import SliceCommand
from penstock.model.cluster import ClusterConfig
from penstock.model.demand import Demand
from penstock.model.failures import FailureKind
from penstock.model.ledger import Ledger, UsageTable
from penstock.model.slices import DrainTerms, Health, Launched, StandingRequest
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


BlockScope = Literal["group", "zone", "region", "project"]
"""How far a block reaches."""


class Block(Value):
    """Why a group, or everything a quota, permission or rate limit covers, cannot be asked, and until when.

    `subject` is a group, or a zone or region of the provider `account`, or all of that account. `failures` in a row make it
    longer; it is kept for a while after its end, so that they can be counted. One that came of `looking` ends with the first look
    that succeeds.
    """

    scope: BlockScope
    subject: str
    account: str
    health: Health
    kind: FailureKind
    failures: int = 1
    at: Moment
    looking: bool = False


class Recovery(Value):
    """The ledger is not trusted yet: who has been heard, and who is waited for."""

    id: str
    reason: str
    since: Moment
    reports_collected: bool = False
    waiting: tuple[str, ...] = ()
    """Locations (`account/location`) that have not given a complete listing."""
    closing: bool = False
    """Whether the cluster ends after it: a listing then counts only if it shows nothing of the cluster."""


class AutoscalerState(Value):
    """What was told, ordered and seen, folded into what holds now.

    `version` counts events, `input_version` those that may change a decision. `starting` are slices whose workflows
    are to be started, `adopted` those of them that exist in the cloud already. `outbox` holds commands to be delivered to slices.
    """

    now: Moment = BEFORE_TIME
    config: ClusterConfig | None = None
    config_revision: int = 0
    slices: Ledger = ()
    usage: UsageTable = Field(default_factory=dict)
    demand: dict[str, SourceDemand] = Field(default_factory=dict)
    health: dict[str, Health] = Field(default_factory=dict)
    standing: dict[str, StandingRequest] = Field(default_factory=dict)
    launched: tuple[Launched, ...] = ()
    blocks: tuple[Block, ...] = ()
    drains: dict[str, DrainTerms] = Field(default_factory=dict)
    starting: tuple[str, ...] = ()
    adopted: dict[str, Orphan] = Field(default_factory=dict)
    outbox: tuple[SliceCommand, ...] = ()
    orders: Orders | None = None
    """The last decision's, without its launches."""
    launch_causes: dict[str, str] = Field(default_factory=dict)
    """Why each slice that is still to be started was ordered."""
    evaluations: int = 0
    version: int = 0
    input_version: int = 0
    paused: str | None = None
    closing: bool = False
    verified: bool = False
    """Whether every location showed nothing of the cluster after its ledger had become empty."""
    recovery: Recovery | None = None
    recovered_in: str = ""
    """The run that last recovered: a run that was reset finds another one here."""
    recent_failures: tuple[RecentFailure, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    rejected_in_all: int = 0

    @property
    def resync_needed(self) -> dict[str, str]:
        """Why each source must send a snapshot, for sources that must."""
        return {name: source.resync_needed for name, source in sorted(self.demand.items()) if source.resync_needed}


class Changes(TypedDict, total=False):
    """The fields of a state that an event changes, with their new values. A misspelt field is a type error.

    `matters` is no field: it counts what may change a decision, where the type of the event alone does not say.
    """

    matters: int
    now: Moment
    config: ClusterConfig | None
    config_revision: int
    slices: Ledger
    usage: UsageTable
    demand: dict[str, SourceDemand]
    health: dict[str, Health]
    standing: dict[str, StandingRequest]
    launched: tuple[Launched, ...]
    blocks: tuple[Block, ...]
    drains: dict[str, DrainTerms]
    starting: tuple[str, ...]
    adopted: dict[str, Orphan]
    outbox: tuple[SliceCommand, ...]
    orders: Orders | None
    launch_causes: dict[str, str]
    evaluations: int
    version: int
    input_version: int
    paused: str | None
    closing: bool
    verified: bool
    recovery: Recovery | None
    recovered_in: str
    recent_failures: tuple[RecentFailure, ...]
    rejected: tuple[Rejection, ...]
    rejected_in_all: int


T = TypeVar("T")


def without(table: dict[str, T], ids: set[str]) -> dict[str, T]:
    """The table without some slices; the same table if it has none of them."""
    return table if ids.isdisjoint(table) else {key: value for key, value in table.items() if key not in ids}
