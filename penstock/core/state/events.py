"""Everything that can change an autoscaler's state: what was told, ordered, and seen."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from penstock.contract.inventories import LocationReport
from penstock.contract.orders import Orders
from penstock.contract.slices import SliceCommand, SliceReport
from penstock.model.cluster import ClusterConfig
from penstock.model.demand import Demand, TaskId
from penstock.model.slices import DrainTerms, Health, Slice, SliceState, SliceUsage, StandingRequest
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


class DemandRefused(Event):
    """Demand came that is more than can be carried; what its source had stands, and is known to be old."""

    kind: Literal["demand_refused"] = "demand_refused"
    source: str = "default"
    epoch: Revision
    revision: Revision
    message: str
    problem: str


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


class SlicesReported(Event):
    """What slices said of themselves: moves, failures, ends; slices that are not in the ledger enter it."""

    kind: Literal["slices_reported"] = "slices_reported"
    reports: tuple[SliceReport, ...]


class LocationReported(Event):
    """What an audit of one location found: resources and ledger entries that nobody looks after."""

    kind: Literal["location_reported"] = "location_reported"
    report: LocationReport


class RecoveryBegan(Event):
    """The ledger cannot be trusted: nothing is ordered until the roll is called and every location is audited.

    Before a cluster is `closing` for good, its empty ledger is not trusted either: every location is to show nothing of it.
    """

    kind: Literal["recovery_began"] = "recovery_began"
    id: str
    reason: str
    run_id: str = ""
    closing: bool = False


class ReportsCollected(Event):
    """Every running slice workflow has been asked, and its report sent, for a recovery."""

    kind: Literal["reports_collected"] = "reports_collected"
    id: str


class Decided(Event):
    """A decision's orders were taken over: launches enter the ledger, drains begin."""

    kind: Literal["decided"] = "decided"
    orders: Orders


class SlicesStarted(Event):
    """Workflows of ordered or adopted slices run."""

    kind: Literal["slices_started"] = "slices_started"
    slice_ids: tuple[str, ...]


class LaunchesDropped(Event):
    """Slices that were ordered are not started after all: the cluster was given up or paused, or is configured otherwise."""

    kind: Literal["launches_dropped"] = "launches_dropped"
    slice_ids: tuple[str, ...]


class CommandsSent(Event):
    """Commands were delivered, or their slices are no longer there."""

    kind: Literal["commands_sent"] = "commands_sent"
    commands: tuple[SliceCommand, ...]


class DrainOrdered(Event):
    """A slice is to be emptied and given back."""

    kind: Literal["drain_ordered"] = "drain_ordered"
    slice_id: str
    terms: DrainTerms


class DrainCancelled(Event):
    """A draining slice is to serve again."""

    kind: Literal["drain_cancelled"] = "drain_cancelled"
    slice_id: str


class DrainsConfirmed(Event):
    """The controller has emptied slices."""

    kind: Literal["drains_confirmed"] = "drains_confirmed"
    slice_ids: tuple[str, ...]


class BlockCleared(Event):
    """An operator says: ask the cloud again, for one group or for all."""

    kind: Literal["block_cleared"] = "block_cleared"
    group: str | None = None


class Paused(Event):
    """An operator stops launches and drains."""

    kind: Literal["paused"] = "paused"
    reason: str


class Resumed(Event):
    """An operator lets decisions go on."""

    kind: Literal["resumed"] = "resumed"


class Closed(Event):
    """An operator gives the cluster up: every slice is drained and deleted, and nothing is ordered any more."""

    kind: Literal["closed"] = "closed"
    force: bool = False


class MessageRejected(Event):
    """A message could not be used."""

    kind: Literal["message_rejected"] = "message_rejected"
    message: str
    problem: str


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
    | DemandRefused
    | UsageReported
    | SlicesOrdered
    | SliceMoved
    | SlicesReported
    | LocationReported
    | RecoveryBegan
    | ReportsCollected
    | Decided
    | SlicesStarted
    | LaunchesDropped
    | CommandsSent
    | DrainOrdered
    | DrainCancelled
    | DrainsConfirmed
    | BlockCleared
    | Paused
    | Resumed
    | Closed
    | MessageRejected
    | SliceGone
    | HealthChanged
    | CapacityRequested
    | CapacityReleased
    | TimePassed,
    Field(discriminator="kind"),
]
