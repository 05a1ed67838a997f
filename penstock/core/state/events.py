"""The events that change an autoscaler's state: inputs, orders and observations."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from penstock.contract.inventories import LocationReport
from penstock.contract.messages import Confirmation
from penstock.contract.orders import Orders
from penstock.contract.slices import SliceCommand, SliceReport
from penstock.model.cluster import ClusterConfig
from penstock.model.demand import Demand, TaskId
from penstock.model.pressure import PressureReport
from penstock.model.slices import DrainTerms, SliceUsage, StandingRequest
from penstock.model.units import Moment
from penstock.model.value import Value

Revision = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class Event(Value):
    """Base of all events."""

    at: Moment


class ConfigApplied(Event):
    """An operator's new configuration, validated and versioned."""

    kind: Literal["config_applied"] = "config_applied"
    config: ClusterConfig


class DemandSnapshot(Event):
    """All demand of a source at a revision, or one part of it. Every epoch begins with a snapshot."""

    kind: Literal["demand_snapshot"] = "demand_snapshot"
    source: str = "default"
    epoch: Revision
    revision: Revision
    part: Positive = 1
    parts: Positive = 1
    demand: Demand
    lease_seconds: float | None = None


class DemandDelta(Event):
    """Changes of a source's demand since a base revision: tasks removed, then tasks added at the end, or at `positions`.

    An added task of a waiting gang joins the gang where it stands in the order.
    """

    kind: Literal["demand_delta"] = "demand_delta"
    source: str = "default"
    epoch: Revision
    base: Revision
    revision: Revision
    removed: tuple[TaskId, ...] = ()
    added: Demand = Demand()
    lease_seconds: float | None = None
    positions: tuple[int, ...] = ()


class DemandRefused(Event):
    """Demand arrived that exceeds the size limits. The source keeps its old demand, marked as out of date."""

    kind: Literal["demand_refused"] = "demand_refused"
    source: str = "default"
    epoch: Revision
    revision: Revision
    message: str
    problem: str


class SourceForgotten(Event):
    """A source is gone: its demand ends, and what it reported is withdrawn."""

    kind: Literal["source_forgotten"] = "source_forgotten"
    source: str


class UsageReported(Event):
    """Usage of slices, from one source; without any slice, a sign that the source still means what it said.

    Slices that it does not name keep their last usage, unless it is `complete`.
    """

    kind: Literal["usage_reported"] = "usage_reported"
    source: str = "default"
    epoch: Revision | None = None
    revision: Revision | None = None
    complete: bool = False
    usage: dict[str, SliceUsage]


class PressureReported(Event):
    """Queue lengths of groups that are driven by them, from one source.

    `from_old_config` if the source named an older revision of the configuration, which counts once.
    """

    kind: Literal["pressure_reported"] = "pressure_reported"
    source: str = "default"
    epoch: Revision | None = None
    revision: Revision | None = None
    pressure: dict[str, PressureReport]
    from_old_config: bool = False


class SlicesReported(Event):
    """Reports of slice workflows: transitions, failures, ends. A slice that is not in the ledger enters it."""

    kind: Literal["slices_reported"] = "slices_reported"
    reports: tuple[SliceReport, ...]


class LocationReported(Event):
    """The report of an audit: orphaned resources and missing slices of one location."""

    kind: Literal["location_reported"] = "location_reported"
    report: LocationReport


class LocationsUnwatched(Event):
    """The inventories of all locations were started, except the failed ones, each with its error."""

    kind: Literal["locations_unwatched"] = "locations_unwatched"
    failed: dict[str, str] = Field(default_factory=dict)


class RecoveryBegan(Event):
    """The ledger cannot be trusted: nothing is ordered until every slice has reported and every location is audited.

    Before a `closing` cluster ends, its empty ledger is checked the same way: every location must list no resource of it.
    """

    kind: Literal["recovery_began"] = "recovery_began"
    id: str
    reason: str
    run_id: str = ""
    closing: bool = False


class ReportsCollected(Event):
    """The reports of all running slice workflows were collected for a recovery, except those of `silent` slices."""

    kind: Literal["reports_collected"] = "reports_collected"
    id: str
    silent: dict[str, str] = Field(default_factory=dict)
    """Groups of slices whose workflows run and do not answer, by slice id."""


class RecoveryWaited(Event):
    """A recovery has waited long enough for its last locations and slices: the others go on."""

    kind: Literal["recovery_waited"] = "recovery_waited"
    id: str


class Decided(Event):
    """The orders of a decision: launches enter the ledger, drains begin."""

    kind: Literal["decided"] = "decided"
    orders: Orders


class EvaluationFailed(Event):
    """An evaluation failed or took too long, in every attempt."""

    kind: Literal["evaluation_failed"] = "evaluation_failed"
    problem: str
    again_at: Moment | None = None


class SlicesStarted(Event):
    """The workflows of launched or adopted slices were started."""

    kind: Literal["slices_started"] = "slices_started"
    slice_ids: tuple[str, ...]


class LaunchesDropped(Event):
    """Launches that are not started after all: the cluster was deleted, paused or reconfigured."""

    kind: Literal["launches_dropped"] = "launches_dropped"
    slice_ids: tuple[str, ...]


class CommandsSent(Event):
    """Commands were delivered, or their slices no longer exist."""

    kind: Literal["commands_sent"] = "commands_sent"
    commands: tuple[SliceCommand, ...]


class DrainOrdered(Event):
    """Drain a slice: empty it, then delete it."""

    kind: Literal["drain_ordered"] = "drain_ordered"
    slice_id: str
    terms: DrainTerms


class DrainCancelled(Event):
    """Let a draining slice serve again."""

    kind: Literal["drain_cancelled"] = "drain_cancelled"
    slice_id: str


class DrainsConfirmed(Event):
    """The controller confirmed that draining slices are empty."""

    kind: Literal["drains_confirmed"] = "drains_confirmed"
    confirmed: tuple[Confirmation, ...]


class SliceKept(Event):
    """An operator protects a slice from voluntary drains until a moment; without one, no longer."""

    kind: Literal["slice_kept"] = "slice_kept"
    slice_id: str
    until: Moment | None = None


class SliceCordoned(Event):
    """An operator took a slice out of placing, or put it back."""

    kind: Literal["slice_cordoned"] = "slice_cordoned"
    slice_id: str
    cordoned: bool


class BlockCleared(Event):
    """An operator lifted the blocks of one group, or of all groups."""

    kind: Literal["block_cleared"] = "block_cleared"
    group: str | None = None


class Paused(Event):
    """An operator stopped launches and drains."""

    kind: Literal["paused"] = "paused"
    reason: str


class Resumed(Event):
    """An operator resumed launches and drains."""

    kind: Literal["resumed"] = "resumed"


class Closed(Event):
    """An operator deletes the cluster: every slice is drained and deleted, and nothing is launched any more."""

    kind: Literal["closed"] = "closed"
    force: bool = False


class MessageRejected(Event):
    """A message was rejected."""

    kind: Literal["message_rejected"] = "message_rejected"
    message: str
    problem: str


class CapacityRequested(Event):
    """The standing request of an owner, replacing its last one."""

    kind: Literal["capacity_requested"] = "capacity_requested"
    request: StandingRequest
    from_old_config: bool = False
    """Whether the owner named an older revision of the configuration, which counts once."""


class CapacityReleased(Event):
    """An owner withdrew its standing request."""

    kind: Literal["capacity_released"] = "capacity_released"
    owner: str


class TimePassed(Event):
    """Only time passed."""

    kind: Literal["time_passed"] = "time_passed"


AnyEvent: TypeAlias = Annotated[
    ConfigApplied
    | DemandSnapshot
    | DemandDelta
    | DemandRefused
    | SourceForgotten
    | UsageReported
    | PressureReported
    | SlicesReported
    | LocationReported
    | LocationsUnwatched
    | RecoveryBegan
    | RecoveryWaited
    | ReportsCollected
    | Decided
    | EvaluationFailed
    | SlicesStarted
    | LaunchesDropped
    | CommandsSent
    | DrainOrdered
    | DrainCancelled
    | DrainsConfirmed
    | SliceKept
    | SliceCordoned
    | BlockCleared
    | Paused
    | Resumed
    | Closed
    | MessageRejected
    | CapacityRequested
    | CapacityReleased
    | TimePassed,
    Field(discriminator="kind"),
]
