"""The autoscaler's state: one value, small enough to carry at a hundred thousand tasks and five thousand slices."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal, Self, TypedDict

from pydantic import Field

from penstock.contract.answers import LocationProblem, RecentFailure, Rejection, Undecided
from penstock.contract.orders import Orders
from penstock.contract.slices import SliceCommand
from penstock.core.state.spending import IdleCost, idle_in, idle_rate
from penstock.model.cluster import ClusterConfig
from penstock.model.demand import Demand
from penstock.model.demand_builder import joined, without
from penstock.model.elasticity import Setback
from penstock.model.failures import FailureKind
from penstock.model.ledger import Ledger, UsageTable
from penstock.model.packed import Ids, pack_ids
from penstock.model.pressure import PressureState
from penstock.model.protection import Protection
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
    a snapshot at least as new as `latest` arrives. `at` is the time of its last message about demand.

    A few changed tasks among a hundred thousand leave `base` as it is: they are kept beside it, as `removed` and `added`, so that
    a delta costs what it changes. No gang has tasks in both `base` and `added`.
    """

    epoch: int = -1
    revision: int = -1
    base: Demand = Field(default=Demand(), alias="demand")
    """The demand without the changes beside it."""
    removed: Ids = ()
    added: Demand = Demand()
    latest: tuple[int, int] = (-1, -1)
    resync_needed: str | None = None
    partial: PartialDemand | None = None
    lease_seconds: float | None = None
    """How long its demand buys new slices without another message of the source; None for ever."""
    at: Moment = BEFORE_TIME

    @property
    def stamp(self) -> tuple[int, int]:
        """(epoch, revision) of the demand."""
        return (self.epoch, self.revision)

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return len(self.base.task_ids) - len(self.removed) + len(self.added.task_ids)

    @property
    def packed_size(self) -> int:
        """Bytes of the demand as JSON."""
        beside = len(pack_ids(self.removed)) if self.removed else 0
        return self.base.packed_size + beside + (self.added.packed_size if self.added.task_ids else 0)

    def has(self, task_id: str) -> bool:
        """Whether the task is demand."""
        return task_id in self.added.members or (task_id in self.base.members and task_id not in self.gone)

    @cached_property
    def gone(self) -> frozenset[str]:
        """The removed tasks of the base."""
        return frozenset(self.removed)

    @cached_property
    def demand(self) -> Demand:
        """All of the demand, in order."""
        left = without(self.base, self.gone)
        return joined([left, self.added]) if self.added.task_ids else left

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields replaced; what is derived from the demand is kept only if the demand is."""
        copied = super().model_copy(update=update, deep=deep)
        if update and not update.keys().isdisjoint(("base", "removed", "added")):
            for derived in ("gone", "demand"):
                vars(copied).pop(derived, None)
        return copied


class UsageSource(Value):
    """One source of usage: the stamp and time of its last message, and the slices that it has named.

    `words` are its own words on those slices that other sources have named too; on all others the usage of the state is its own.
    """

    epoch: int = -1
    revision: int = -1
    at: Moment = BEFORE_TIME
    named: Ids = ()
    words: UsageTable = Field(default_factory=dict)
    reported: bool = False
    """Whether it has ever reported usage. A heartbeat reports none."""
    groups: tuple[str, ...] = ()
    """Groups of which it has named slices."""
    began: Moment | None = None
    """Since when it reports without a gap: since its first message, its last epoch, a silence or a resync."""
    outdated: Ids = ()
    """Slices on which its last word is of an older epoch: tasks named there no longer count as running."""
    restarted: Moment | None = None
    """When it began a new epoch, until it reports usage in it."""
    resync_needed: str | None = None
    """Why it must send all its usage again, in a new epoch or marked `complete`."""

    @property
    def stamp(self) -> tuple[int, int]:
        """(epoch, revision) of its last numbered message."""
        return (self.epoch, self.revision)

    @property
    def has_reported(self) -> bool:
        """Whether it has ever reported usage."""
        return self.reported or bool(self.named)

    def without(self, slice_ids: AbstractSet[str]) -> "UsageSource":
        """The source after some slices are gone."""
        if slice_ids.isdisjoint(self.named):
            return self
        named = tuple(slice_id for slice_id in self.named if slice_id not in slice_ids)
        words = {slice_id: word for slice_id, word in self.words.items() if slice_id not in slice_ids}
        outdated = tuple(slice_id for slice_id in self.outdated if slice_id not in slice_ids)
        return self.model_copy(update={"named": named, "words": words, "outdated": outdated})


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
    silent: dict[str, str] = Field(default_factory=dict)
    """Groups of slices whose workflows run and have not answered, by slice id."""
    asked: bool = False
    """Whether every running slice workflow was asked once, answered or not."""
    goes_on: bool = False
    """Whether it has waited long enough, so that only the groups it waits for, and what they share, are held."""
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
    usage_sources: dict[str, UsageSource] = Field(default_factory=dict)
    demand: dict[str, SourceDemand] = Field(default_factory=dict)
    standing: dict[str, StandingRequest] = Field(default_factory=dict)
    protections: dict[str, Protection] = Field(default_factory=dict)
    """What operators ordered for single slices, by slice id. It outlives the ledger until a recovery has found them again."""
    stockouts: dict[str, Moment] = Field(default_factory=dict)
    """When each group was last out of stock."""
    setbacks: dict[str, Setback] = Field(default_factory=dict)
    """When each group last lost a slice or failed to create one, since slices may return home."""
    pressure: dict[str, PressureState] = Field(default_factory=dict)
    """What reports of pressure said, by the group that they drive."""
    used_old_config: tuple[str, ...] = ()
    """Who has named an older revision of the configuration since the newest was applied: a second time is refused."""
    launched: tuple[RecentLaunch, ...] = ()
    blocks: tuple[Block, ...] = ()
    outbox: tuple[SliceCommand, ...] = ()
    orders: Orders | None = None
    """Orders of the last decision, without its launches."""
    evaluations: int = 0
    drains_ordered: int = 0
    """The number of the last drain: they are numbered from 1, and go on from the time of a loss if drains may be forgotten."""
    idle_cost: IdleCost = ()
    """What idle slices have cost until `now`, by the hour of the last day."""
    undecided: Undecided | None = None
    """Since when evaluations fail, if the last one did."""
    version: int = 0
    input_version: int = 0
    paused: str | None = None
    closing: bool = False
    closing_by_force: bool = False
    """Whether slices that turn up while the cluster is deleted are deleted at once, like the others."""
    verified: bool = False
    """Whether every location was listed without a resource of the cluster after the ledger had become empty."""
    recovery: Recovery | None = None
    location_problems: dict[str, LocationProblem] = Field(default_factory=dict)
    """Locations that cannot be watched, by key."""
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

    @cached_property
    def idle_slices(self) -> frozenset[str]:
        """Slices that are idle by the last word on them, in any state."""
        return idle_in(self.usage)

    @cached_property
    def idle_rate(self) -> float:
        """What idle slices cost an hour."""
        return idle_rate(self.by_id, self.idle_slices, self.config)

    @property
    def is_held(self) -> bool:
        """Whether a recovery keeps everything from being ordered."""
        return self.recovery is not None and not self.recovery.goes_on

    @property
    def draining(self) -> tuple[Slice, ...]:
        """Slices with a drain ordered."""
        return tuple(piece for piece in self.slices if piece.drain is not None)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields replaced. What is derived from a replaced field is not copied."""
        copied = super().model_copy(update=update, deep=deep)
        replaced = update.keys() if update else ()
        for derived, fields in _DERIVED_FROM.items():
            if not fields.isdisjoint(replaced):
                copied.__dict__.pop(derived, None)
        return copied

    @property
    def resync_needed(self) -> dict[str, str]:
        """Why each source must send a snapshot, for sources that must."""
        return {name: source.resync_needed for name, source in sorted(self.demand.items()) if source.resync_needed}


_DERIVED_FROM = {
    "by_id": frozenset(("slices",)),
    "unstarted": frozenset(("slices",)),
    "idle_slices": frozenset(("usage",)),
    "idle_rate": frozenset(("slices", "usage", "config")),
}
"""Cached properties of a state, and the fields that they are derived from."""


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
    usage_sources: dict[str, UsageSource]
    demand: dict[str, SourceDemand]
    standing: dict[str, StandingRequest]
    protections: dict[str, Protection]
    stockouts: dict[str, Moment]
    setbacks: dict[str, Setback]
    pressure: dict[str, PressureState]
    used_old_config: tuple[str, ...]
    launched: tuple[RecentLaunch, ...]
    blocks: tuple[Block, ...]
    outbox: tuple[SliceCommand, ...]
    orders: Orders | None
    evaluations: int
    drains_ordered: int
    idle_cost: IdleCost
    undecided: Undecided | None
    version: int
    input_version: int
    paused: str | None
    closing: bool
    closing_by_force: bool
    verified: bool
    recovery: Recovery | None
    location_problems: dict[str, LocationProblem]
    recovered_in: str
    recent_failures: tuple[RecentFailure, ...]
    rejected: tuple[Rejection, ...]
    rejected_in_all: int


def drains_after_loss(state: AutoscalerState, at: datetime) -> int:
    """Where the numbers of drains go on after some of them may be lost: at the milliseconds, which come faster than drains."""
    return max(state.drains_ordered, int(at.timestamp() * 1000))


MOST_ADDRESSES = 20_000
"""Hosts whose addresses the ledger holds: 230 kB, or 380 kB with external addresses. Slice workflows hold all addresses."""


def kept_addresses(hosts: tuple[HostAddress, ...], held: int) -> tuple[HostAddress, ...]:
    """The addresses of a slice's hosts; none if the ledger, which holds `held`, would exceed its limit."""
    return hosts if held + len(hosts) <= MOST_ADDRESSES else ()


def forget(state: AutoscalerState, ids: AbstractSet[str]) -> Changes:
    """Remove slices from the ledger, with their usage, their protections and the commands to them."""
    return {
        "slices": tuple(piece for piece in state.slices if piece.id not in ids),
        "usage": {slice_id: usage for slice_id, usage in state.usage.items() if slice_id not in ids},
        "usage_sources": {name: source.without(ids) for name, source in state.usage_sources.items()},
        "outbox": tuple(command for command in state.outbox if command.slice_id not in ids),
        "protections": {slice_id: found for slice_id, found in state.protections.items() if slice_id not in ids},
    }
