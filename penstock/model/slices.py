"""Slices and their states, usage of hosts, health of groups, standing requests, recent launches."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, TypedDict, Unpack

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from penstock.model.failures import Notice
from penstock.model.left_behind import LeftBehind
from penstock.model.location import Location
from penstock.model.resources import Resources
from penstock.model.shape import MOST_TASKS, Shape
from penstock.model.sightings import HostAddress
from penstock.model.units import Count, Moment, Positive
from penstock.model.value import JsonSchema, Value


class SliceState(StrEnum):
    """The states of a slice's lifecycle. Use these properties instead of listing states elsewhere."""

    REQUESTING = "REQUESTING"
    BOOTING = "BOOTING"
    INITIALIZING = "INITIALIZING"
    READY = "READY"
    DRAINING = "DRAINING"
    DELETING = "DELETING"
    TERMINATED = "TERMINATED"
    FAILED = "FAILED"

    @property
    def in_flight(self) -> bool:
        """REQUESTING, BOOTING or INITIALIZING."""
        return self in (SliceState.REQUESTING, SliceState.BOOTING, SliceState.INITIALIZING)

    @property
    def serves(self) -> bool:
        """In flight or READY: capacity that demand may use."""
        return self.in_flight or self is SliceState.READY

    @property
    def live(self) -> bool:
        """In any state before DELETING."""
        return self.serves or self is SliceState.DRAINING

    @property
    def has_resource(self) -> bool:
        """The cloud has shown a resource, and no deletion was requested."""
        return self.live and self is not SliceState.REQUESTING

    @property
    def has_hosts(self) -> bool:
        """Every host has an address."""
        return self.has_resource and self is not SliceState.BOOTING

    @property
    def was_ready(self) -> bool:
        """Its hosts were all healthy once: READY, or DRAINING, which follows READY."""
        return self in (SliceState.READY, SliceState.DRAINING)

    @property
    def ended(self) -> bool:
        """Confirmed gone by the cloud: the slice leaves the ledger."""
        return self in (SliceState.TERMINATED, SliceState.FAILED)


class DrainCause(StrEnum):
    """Why a decision drains a slice. Drains that operators order have the operator's own words."""

    IDLE = "idle"
    NOT_NEEDED = "not needed"
    ABOVE_MAXIMUM = "above maximum"
    GROUP_REMOVED = "group removed"
    UNCLAIMED = "no controller has named it"
    PRESSURE = "pressure"
    DEGRADED = "degraded"
    NOTICE = "notice"
    EXPIRY = "expiry"
    DRIFT = "drift"
    RETURN_HOME = "return home"
    CONSOLIDATION = "consolidation"

    @property
    def cancellable(self) -> bool:
        """Whether demand, floors, spares and desired counts take a slice back that drains for it."""
        return self in _CANCELLABLE

    @property
    def voluntary(self) -> bool:
        """Whether it counts in the disruption budget: the slice could go on working, or be replaced at another time."""
        return self in _BY_RANK

    @property
    def waits_for_budget(self) -> bool:
        """Whether it begins only within the disruption budget and inside the window."""
        return self.voluntary and self is not DrainCause.NOTICE

    @property
    def rank(self) -> int:
        """Its place in the order in which voluntary drains use the disruption budget; others are last."""
        return _BY_RANK.index(self) if self in _BY_RANK else len(_BY_RANK)


_CANCELLABLE = (
    DrainCause.IDLE,
    DrainCause.NOT_NEEDED,
    DrainCause.ABOVE_MAXIMUM,
    DrainCause.PRESSURE,
    DrainCause.RETURN_HOME,
    DrainCause.CONSOLIDATION,
)
_BY_RANK = (
    DrainCause.NOTICE,
    DrainCause.DEGRADED,
    DrainCause.EXPIRY,
    DrainCause.DRIFT,
    DrainCause.RETURN_HOME,
    DrainCause.CONSOLIDATION,
)
_KNOWN = {str(cause): cause for cause in DrainCause}


class DrainTerms(Value):
    """Why a slice drains, and until when; with `force` it is deleted at the deadline even if work still runs there.

    A drain for a notice of the cloud is always forced: work that is still there at the deadline is lost anyway. `number` tells
    the drains of a cluster apart, so that a late confirmation of an earlier drain does not count.
    """

    cause: str
    detail: str = ""
    """What the cause does not say: the money that is saved, the kind of a notice."""
    force: bool = False
    number: Count = 0
    deadline: Moment | None = None

    @model_validator(mode="before")
    @classmethod
    def _force_a_drain_for_a_notice(cls, data: Any) -> Any:
        return data | {"force": True} if isinstance(data, dict) and data.get("cause") == DrainCause.NOTICE else data

    @property
    def known_cause(self) -> DrainCause | None:
        """The cause, if a decision ordered the drain; None for the words of an operator."""
        return _KNOWN.get(self.cause)

    @property
    def cancellable(self) -> bool:
        """Whether a decision may cancel the drain."""
        cause = self.known_cause
        return not self.force and cause is not None and cause.cancellable

    @property
    def needs_confirmation(self) -> bool:
        """Whether only the controller can say that the slice is empty: it knows queues, and usage may not name the slice."""
        return not self.force and self.known_cause is DrainCause.PRESSURE


def _any_case(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


StateInAnyCase = Annotated[SliceState, BeforeValidator(_any_case, json_schema_input_type=str)]


class SliceChanges(TypedDict, total=False):
    """The fields of a slice that change, with their new values. A misspelt field is a type error."""

    state: SliceState
    since: datetime | None
    queued: bool
    drain: DrainTerms | None
    cause: str
    source: str
    joined: bool
    unnamed: datetime | None
    unclaimed: datetime | None
    started: bool
    adopted: bool
    created_at: datetime | None
    location: Location | None
    hosts: tuple[HostAddress, ...]
    left: LeftBehind | None
    fingerprint: str
    replaces: str
    home: str
    idle_since: datetime | None
    unneeded_since: datetime | None
    degraded_since: datetime | None
    received_at: datetime | None
    unconfirmed_at: datetime | None
    kept_until: datetime | None
    cordoned: bool
    notice: Notice | None
    confirmed_empty: bool
    returning: bool
    sequence: int


_OF_REMOVED_GROUPS = frozenset(("pool", "chips", "idle_timeout_seconds"))


class Slice(Value):
    """One slice in the ledger, where it stays from its order until the cloud confirms that it is gone."""

    id: Annotated[str, Field(min_length=1)]
    group: str
    state: StateInAnyCase
    since: Moment | None = None
    """When it entered its state. If unset, patience never ends and a READY slice has no grace."""
    queued: bool = False
    """Whether it waits in the cloud's queue."""
    drain: DrainTerms | None = None
    """Set from the moment a drain is ordered, before the slice itself reports DRAINING."""
    cause: str = ""
    """Why it was launched: demand, minimum, warm, …; `adopted` if an audit found it in the cloud."""
    source: str = ""
    """The source for whose demand it was launched."""
    joined: bool = False
    """Whether a usage report has ever named it."""
    unnamed: Moment | None = None
    """When a source that should know it first reported usage without it."""
    unclaimed: Moment | None = None
    """Since when it counts as not joined: a source that should have named it reported usage for long enough without it."""
    started: bool = True
    """Whether its workflow was started. A slice enters the ledger first."""
    adopted: bool = False
    """Whether an audit found its resource without a workflow."""
    created_at: Moment | None = None
    """When the cloud created the resource of an adopted slice."""
    location: Location | None = None
    """Its location, if that differs from the location of its group."""
    hosts: tuple[HostAddress, ...] = ()
    left: LeftBehind | None = None
    """What it keeps of its group after that was removed from the configuration."""
    fingerprint: str = ""
    """The fingerprint that its group had when it was ordered. If it is empty, how the slice was made is not known."""
    replaces: str = ""
    """The slice that drains once this one is READY."""
    home: str = ""
    """The group that the demand it was launched for prefers, if that group could not add slices then."""
    idle_since: Moment | None = None
    """Since when usage says that all its hosts are idle, counted from the first such report after it became READY."""
    unneeded_since: Moment | None = None
    """Since when decisions do not need it, while it is on its way."""
    degraded_since: Moment | None = None
    """Since when usage says that one of its hosts is degraded."""
    received_at: Moment | None = None
    """When it last received the load of a slice that was drained for consolidation."""
    unconfirmed_at: Moment | None = None
    """When a drain last ended because nobody confirmed that it is empty."""
    kept_until: Moment | None = None
    """Until when an operator protects it from voluntary drains."""
    cordoned: bool = False
    """Whether an operator took it out of placing."""
    notice: Notice | None = None
    """What the cloud has announced for it."""
    confirmed_empty: bool = False
    """Whether the controller confirmed that it is empty, so that its drain can no longer be cancelled."""
    returning: bool = False
    """Whether its drain was cancelled and it has not reported READY yet: it serves again in a moment."""
    sequence: Count = 0
    """Number of changes that it has reported: a late report must not overwrite a newer one."""

    @model_validator(mode="before")
    @classmethod
    def _accept_facts_of_a_removed_group(cls, data: Any) -> Any:
        """`pool`, `chips` and `idle_timeout_seconds`, which are also written without `left` around them."""
        if not isinstance(data, dict) or _OF_REMOVED_GROUPS.isdisjoint(data):
            return data
        facts = {key: value for key, value in data.items() if key in _OF_REMOVED_GROUPS and value not in (None, "")}
        rest = {key: value for key, value in data.items() if key not in _OF_REMOVED_GROUPS}
        return {"left": facts} | rest if facts and facts != {"chips": 0} else rest

    def changed(self, **changes: Unpack[SliceChanges]) -> "Slice":
        """The slice with some fields replaced."""
        return self.model_copy(update=changes)

    @property
    def is_launch(self) -> bool:
        """Ordered, with neither a workflow nor a resource yet."""
        return not self.started and not self.adopted

    @property
    def reclaimable(self) -> bool:
        """Draining, and a decision that needs a slice may cancel the drain."""
        drain = self.drain is not None and self.drain.cancellable and not self.confirmed_empty
        return drain and self.state.was_ready

    @property
    def notice_withdrawn(self) -> bool:
        """Whether it drains for a notice that the cloud has taken back: nothing happens to it any more."""
        drain = self.drain is not None and self.drain.known_cause is DrainCause.NOTICE and not self.confirmed_empty
        return drain and self.notice is None and self.state.was_ready

    @property
    def is_unclaimed(self) -> bool:
        """READY, and no source that should know it has named it: it has no room and is no spare."""
        return self.unclaimed is not None and self.state is SliceState.READY

    @property
    def drains(self) -> bool:
        """Draining, or ordered to drain."""
        return self.drain is not None or (self.state is SliceState.DRAINING and not self.returning)


class HostState(StrEnum):
    """The state of a host as the controller reports it."""

    IDLE = "idle"
    BUSY = "busy"
    DEGRADED = "degraded"


class HostUsage(Value):
    """Usage of one host as the controller reports it. A busy host without `reserved` is fully reserved.

    `do_not_disrupt` protects its slice from voluntary drains.
    """

    state: HostState | None = None
    reserved: Resources | None = None
    tasks: tuple[str, ...] = ()
    gangs: tuple[str, ...] = ()
    idle_since: Moment | None = None
    do_not_disrupt: bool = False

    @model_validator(mode="before")
    @classmethod
    def _accept_state_alone(cls, data: Any) -> Any:
        return {"state": data} if isinstance(data, str) else data

    @classmethod
    def _shorthand(cls, described: JsonSchema) -> JsonSchema:
        return {"enum": list(HostState)}

    @property
    def idle(self) -> bool:
        """Whether nothing runs here."""
        if self.state is not None:
            return self.state is HostState.IDLE
        return not self.tasks and not self.gangs and (self.reserved is None or not any(self.reserved.vector))

    @property
    def movable(self) -> bool:
        """Whether what runs here could run on another host: its tasks and reserved resources are named, and no gang."""
        named = self.idle or (bool(self.tasks) and self.reserved is not None)
        return named and not self.gangs and self.state is not HostState.DEGRADED


SliceUsage = tuple[HostUsage, ...]
"""One usage per host. A single one without `reserved` applies to every host of the slice."""


class Availability(StrEnum):
    """Whether a group can add slices; if not, the reason."""

    AVAILABLE = "available"
    AT_MAX = "at_max"
    BACKOFF = "backoff"
    QUOTA_EXCEEDED = "quota_exceeded"
    POOL_EXHAUSTED = "pool_exhausted"
    RATE_LIMITED = "rate_limited"
    DISABLED = "disabled"


class Health(Value):
    """Whether the cloud accepts create requests for a group; if not, until when and why."""

    availability: Availability = Availability.AVAILABLE
    until: Moment | None = None
    reason: str = ""

    @model_validator(mode="before")
    @classmethod
    def _accept_availability_alone(cls, data: Any) -> Any:
        return {"availability": data} if isinstance(data, str) else data

    @classmethod
    def _shorthand(cls, described: JsonSchema) -> JsonSchema:
        return {"enum": list(Availability)}

    @model_validator(mode="after")
    def _reject_derived_availability(self) -> "Health":
        if self.availability in (Availability.AT_MAX, Availability.POOL_EXHAUSTED):
            raise ValueError(f"{self.availability} follows from the configuration and the slices; it cannot be set as health")
        return self


class StandingItem(Shape):
    """A shape, and how many tasks or gangs of it a standing request needs capacity for."""

    count: Positive = 1


def _few_enough(wants: tuple[StandingItem, ...]) -> tuple[StandingItem, ...]:
    tasks = sum(item.count * (item.gang.size if item.gang else 1) for item in wants)
    if tasks > MOST_TASKS:
        raise ValueError(f"{tasks} tasks are more than the {MOST_TASKS} of one request; check count and gang.size")
    return wants


Wants = Annotated[tuple[StandingItem, ...], AfterValidator(_few_enough)]
"""The items of a standing request."""


class StandingRequest(Value):
    """Minimum capacity for a named owner, whether busy or idle. It is met whole or not at all."""

    owner: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
    wants: Wants
    expires: Moment | None = None


class RecentLaunch(NamedTuple):
    """Recently ordered slices, which `creates_per_minute` counts."""

    group: str
    slices: Positive
    at: Moment
