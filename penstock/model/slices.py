"""What exists and what is known of it: slices, usage, group health, standing requests."""

from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, model_validator

from penstock.model.location import Location
from penstock.model.resources import Resources
from penstock.model.shape import Shape
from penstock.model.sightings import HostAddress
from penstock.model.units import Count, Moment, Positive
from penstock.model.value import JsonSchema, Value


class SliceState(StrEnum):
    """The states of a slice's lifecycle. What follows from a state is asked here, and nowhere listed by hand."""

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
        """On its way to READY."""
        return self in (SliceState.REQUESTING, SliceState.BOOTING, SliceState.INITIALIZING)

    @property
    def serves(self) -> bool:
        """Wanted: on its way, or READY. A slice that drains, is deleted or has ended is not."""
        return self.in_flight or self is SliceState.READY

    @property
    def live(self) -> bool:
        """Not yet given back: everything before DELETING."""
        return self.serves or self is SliceState.DRAINING

    @property
    def has_resource(self) -> bool:
        """The cloud has shown a resource, and was not asked to delete it."""
        return self.live and self is not SliceState.REQUESTING

    @property
    def has_hosts(self) -> bool:
        """Every host has an address."""
        return self.has_resource and self is not SliceState.BOOTING

    @property
    def ended(self) -> bool:
        """Confirmed gone by the cloud: the slice leaves the ledger."""
        return self in (SliceState.TERMINATED, SliceState.FAILED)


class DrainTerms(Value):
    """Why a slice drains; with `force` it is deleted at the deadline even if work still runs there."""

    cause: str
    force: bool = False


def _any_case(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


class Slice(Value):
    """One slice and all the autoscaler knows of it, in the ledger from its order until the cloud confirms that it is gone."""

    id: Annotated[str, Field(min_length=1)]
    group: str
    state: Annotated[SliceState, BeforeValidator(_any_case, json_schema_input_type=str)]
    since: Moment | None = None
    """When it entered its state; without it patience never ends and a READY slice has no grace."""
    queued: bool = False
    """Whether it waits in the cloud's queue."""
    drain: DrainTerms | None = None
    """Set from the moment a drain is ordered, before the slice itself reports DRAINING."""
    cause: str = ""
    """Why it was launched: demand, minimum, warm, …; `adopted` if an audit found it in the cloud."""
    started: bool = True
    """Whether its workflow was started. A slice enters the ledger first."""
    adopted: bool = False
    """Whether an audit found its resource without a workflow."""
    created_at: Moment | None = None
    """When the cloud created the resource of an adopted slice."""
    location: Location | None = None
    """Where it is, if that is not where its group is configured."""
    hosts: tuple[HostAddress, ...] = ()
    pool: str | None = None
    """The pool that it charges `chips` to once its group is no longer configured."""
    chips: Count = 0
    sequence: Count = 0
    """How many changes it has reported, so that a late report never undoes a newer one."""

    @property
    def is_launch(self) -> bool:
        """Ordered and not started yet: nothing of it exists."""
        return not self.started and not self.adopted

    @property
    def drains(self) -> bool:
        """Draining, or ordered to drain."""
        return self.drain is not None or self.state is SliceState.DRAINING


class HostState(StrEnum):
    """What the controller says of a host."""

    IDLE = "idle"
    BUSY = "busy"
    DEGRADED = "degraded"


class HostUsage(Value):
    """What runs on one host, as the controller reports it; `reserved` unset means all of a busy host."""

    state: HostState | None = None
    reserved: Resources | None = None
    tasks: tuple[str, ...] = ()
    gangs: tuple[str, ...] = ()
    idle_since: Moment | None = None

    @model_validator(mode="before")
    @classmethod
    def _a_state_alone_will_do(cls, data: Any) -> Any:
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


SliceUsage = tuple[HostUsage, ...]
"""One usage per host; a single one stands for a slice of any size when it only says idle, busy or degraded."""


class Availability(StrEnum):
    """Whether a group may be asked for more slices."""

    AVAILABLE = "available"
    AT_MAX = "at_max"
    BACKOFF = "backoff"
    QUOTA_EXCEEDED = "quota_exceeded"
    POOL_EXHAUSTED = "pool_exhausted"
    RATE_LIMITED = "rate_limited"
    DISABLED = "disabled"


class Health(Value):
    """Whether a group's cloud can be asked, until when not, and why."""

    availability: Availability = Availability.AVAILABLE
    until: Moment | None = None
    reason: str = ""

    @model_validator(mode="before")
    @classmethod
    def _an_availability_alone_will_do(cls, data: Any) -> Any:
        return {"availability": data} if isinstance(data, str) else data

    @classmethod
    def _shorthand(cls, described: JsonSchema) -> JsonSchema:
        return {"enum": list(Availability)}

    @model_validator(mode="after")
    def _only_what_a_cloud_can_say(self) -> "Health":
        if self.availability in (Availability.AT_MAX, Availability.POOL_EXHAUSTED):
            raise ValueError(f"{self.availability} follows from the configuration and the slices; it cannot be set as health")
        return self


class StandingItem(Shape):
    """A shape of which a standing request wants room for `count`."""

    count: Positive = 1


class StandingRequest(Value):
    """A named owner's floor of capacity, busy or not, met whole or not at all."""

    owner: Annotated[str, Field(min_length=1)]
    wants: tuple[StandingItem, ...]
    expires: Moment | None = None


class Launched(NamedTuple):
    """Slices ordered a moment ago: what `creates_per_minute` counts."""

    group: str
    slices: Positive
    at: Moment
