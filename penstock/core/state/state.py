"""The autoscaler's state: one value, small enough to carry at a hundred thousand tasks and five thousand slices."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal, Self, TypedDict

from pydantic import Field

from penstock.contract.answers import RecentFailure, Rejection
from penstock.contract.orders import Orders
from penstock.contract.slices import SliceCommand
from penstock.model.cluster import ClusterConfig
from penstock.model.demand import Demand
from penstock.model.failures import FailureKind
from penstock.model.ledger import Ledger, UsageTable
from penstock.model.sightings import HostAddress
from penstock.model.slices import Health, RecentLaunch, Slice, StandingRequest
from penstock.model.units import Moment
from penstock.model.value import Value

BEFORE_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of a new state."""


class PartialDemand(Value):
    """The parts of a demand snapshot received so far."""

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

    `latest` is the newest stamp that any message named. `resync_needed` says why the source must send a snapshot; it stands until
    a snapshot at least as new as `latest` arrives.
    """

    epoch: int = -1
    revision: int = -1
    demand: Demand = Demand()
    latest: tuple[int, int] = (-1, -1)
    resync_needed: str | None = None
    partial: PartialDemand | None = None

    @property
    def stamp(self) -> tuple[int, int]:
        """(epoch, revision) of the demand."""
        return (self.epoch, self.revision)


BlockScope = Literal["group", "zone", "region", "project"]
"""How far a block reaches."""


class Block(Value):
    """Why nothing is created for a group, or for all that a quota, permission or rate limit covers, and until when.

    `subject` is a group, or a zone or region of the provider `account`, or all of that account. Consecutive `failures` make it
    longer; it is kept for a while after its end, so that they can be counted. `looking` marks a block
    caused by a failed listing; it ends with the first listing that succeeds.
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
    """The ledger is not trusted yet: which reports and listings have arrived, and which are awaited."""

    id: str
    reason: str
    since: Moment
    reports_collected: bool = False
    waiting: tuple[str, ...] = ()
    """Keys of locations that have not given a complete listing."""
    closing: bool = False
    """Whether the cluster ends after it: a listing then counts only if it shows no resource of the cluster."""


class AutoscalerState(Value):
    """All inputs, orders and observations, folded into one value.

    `version` counts events, `input_version` those that may change a decision. `outbox` holds commands to be sent to slices.
    """

    now: Moment = BEFORE_TIME
    config: ClusterConfig | None = None
    config_revision: int = 0
    slices: Ledger = ()
    usage: UsageTable = Field(default_factory=dict)
    demand: dict[str, SourceDemand] = Field(default_factory=dict)
    standing: dict[str, StandingRequest] = Field(default_factory=dict)
    launched: tuple[RecentLaunch, ...] = ()
    blocks: tuple[Block, ...] = ()
    outbox: tuple[SliceCommand, ...] = ()
    orders: Orders | None = None
    """Orders of the last decision, without its launches."""
    evaluations: int = 0
    version: int = 0
    input_version: int = 0
    paused: str | None = None
    closing: bool = False
    verified: bool = False
    """Whether every location was listed without a resource of the cluster after the ledger had become empty."""
    recovery: Recovery | None = None
    recovered_in: str = ""
    """The run that last recovered. A run that was reset finds another run's id here."""
    recent_failures: tuple[RecentFailure, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    rejected_in_all: int = 0

    @cached_property
    def by_id(self) -> dict[str, Slice]:
        """The ledger by slice id."""
        return {piece.id: piece for piece in self.slices}

    @cached_property
    def unstarted(self) -> tuple[Slice, ...]:
        """Slices whose workflows are to be started: launches, and slices that an audit found."""
        return tuple(piece for piece in self.slices if not piece.started)

    @property
    def draining(self) -> tuple[Slice, ...]:
        """Slices with a drain ordered."""
        return tuple(piece for piece in self.slices if piece.drain is not None)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields replaced. Cached properties of the ledger are not copied if the ledger is replaced."""
        copied = super().model_copy(update=update, deep=deep)
        if update and "slices" in update:
            for derived in ("by_id", "unstarted"):
                copied.__dict__.pop(derived, None)
        return copied

    @property
    def resync_needed(self) -> dict[str, str]:
        """Why each source must send a snapshot, for sources that must."""
        return {name: source.resync_needed for name, source in sorted(self.demand.items()) if source.resync_needed}


class Changes(TypedDict, total=False):
    """The fields of a state that an event changes, with their new values. A misspelt field is a type error.

    `matters` is not a state field: it counts changes that may affect a decision, if the type of the event does not say.
    """

    matters: int
    now: Moment
    config: ClusterConfig | None
    config_revision: int
    slices: Ledger
    usage: UsageTable
    demand: dict[str, SourceDemand]
    standing: dict[str, StandingRequest]
    launched: tuple[RecentLaunch, ...]
    blocks: tuple[Block, ...]
    outbox: tuple[SliceCommand, ...]
    orders: Orders | None
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


MOST_ADDRESSES = 20_000
"""Hosts whose addresses the ledger holds: 230 kB, or 380 kB with external addresses. Slice workflows hold all addresses."""


def kept_addresses(hosts: tuple[HostAddress, ...], held: int) -> tuple[HostAddress, ...]:
    """The addresses of a slice's hosts; none if the ledger, which holds `held`, would exceed its limit."""
    return hosts if held + len(hosts) <= MOST_ADDRESSES else ()


def forget(state: AutoscalerState, ids: AbstractSet[str]) -> Changes:
    """Remove slices from the ledger, with their usage and the commands to them."""
    return {
        "slices": tuple(piece for piece in state.slices if piece.id not in ids),
        "usage": {slice_id: usage for slice_id, usage in state.usage.items() if slice_id not in ids},
        "outbox": tuple(command for command in state.outbox if command.slice_id not in ids),
    }
