"""Everything that can change an autoscaler's state: what was told, ordered, and seen."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from penstock.model.cluster import ClusterConfig
from penstock.model.demand import Demand, TaskId
from penstock.model.slices import Health, Slice, SliceState, SliceUsage, StandingRequest
from penstock.model.units import Moment
from penstock.model.value import Value

Revision = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class Event(Value):
    """Something that happened at a moment."""

    at: Moment


class ConfigApplied(Event):
    """An operator's new configuration, validated and versioned."""

    kind: Literal["config_applied"] = "config_applied"
    config: ClusterConfig


class DemandSnapshot(Event):
    """All of a source's demand at a revision, or one part of it; an epoch begins with one."""

    kind: Literal["demand_snapshot"] = "demand_snapshot"
    source: str = "default"
    epoch: Revision
    revision: Revision
    part: Positive = 1
    parts: Positive = 1
    demand: Demand


class DemandDelta(Event):
    """What changed in a source's demand since a base revision: tasks gone, then tasks added at the end.

    A task of a gang that is waiting joins it at the gang's place.
    """

    kind: Literal["demand_delta"] = "demand_delta"
    source: str = "default"
    epoch: Revision
    base: Revision
    revision: Revision
    removed: tuple[TaskId, ...] = ()
    added: Demand = Demand()


class UsageReported(Event):
    """What the controller says is running where; slices it does not name keep what was said before."""

    kind: Literal["usage_reported"] = "usage_reported"
    usage: dict[str, SliceUsage]


class SlicesOrdered(Event):
    """Slices that were ordered, in order."""

    kind: Literal["slices_ordered"] = "slices_ordered"
    slices: tuple[Slice, ...]


class SliceMoved(Event):
    """A slice is in another state, or queued, or no longer."""

    kind: Literal["slice_moved"] = "slice_moved"
    slice_id: str
    state: SliceState
    queued: bool = False


class SliceGone(Event):
    """The cloud confirmed that a slice no longer exists."""

    kind: Literal["slice_gone"] = "slice_gone"
    slice_id: str


class HealthChanged(Event):
    """A group's cloud can or cannot be asked for more."""

    kind: Literal["health_changed"] = "health_changed"
    group: str
    health: Health


class CapacityRequested(Event):
    """An owner's standing request, in place of the one it had."""

    kind: Literal["capacity_requested"] = "capacity_requested"
    request: StandingRequest


class CapacityReleased(Event):
    """An owner's standing request is withdrawn."""

    kind: Literal["capacity_released"] = "capacity_released"
    owner: str


class TimePassed(Event):
    """Nothing happened; it is later."""

    kind: Literal["time_passed"] = "time_passed"


AnyEvent: TypeAlias = Annotated[
    ConfigApplied
    | DemandSnapshot
    | DemandDelta
    | UsageReported
    | SlicesOrdered
    | SliceMoved
    | SliceGone
    | HealthChanged
    | CapacityRequested
    | CapacityReleased
    | TimePassed,
    Field(discriminator="kind"),
]
