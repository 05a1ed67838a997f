"""Messages between the autoscaler and slice workflows, and the state that a slice workflow carries."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from penstock.model.cluster import Timeouts
from penstock.model.failures import Failure, Notice
from penstock.model.location import Location
from penstock.model.sightings import HostAddress
from penstock.model.slices import DrainTerms, SliceState
from penstock.model.units import Count, Moment, Positive
from penstock.model.value import Value, WireMessage

Name = Annotated[str, Field(min_length=1)]


class SliceSpec(Value):
    """One slice as ordered: everything its lifecycle needs. Later changes of the configuration do not affect it."""

    cluster: str
    group: str
    slice_id: str
    location: Location
    hosts: Positive = 1
    variant: str | None = None
    preemptible: bool = False
    queued: bool = False
    timeouts: Timeouts = Timeouts()
    cause: str = ""
    """Why it was launched: demand, minimum, warm, …; `adopted` if an audit found it in the cloud."""
    source: str = ""
    """The source for whose demand it was launched."""
    fingerprint: str = ""
    """What it is made with, as a digest."""
    replaces: str = ""
    """The slice that it takes the place of."""
    home: str = ""
    """The group that its demand prefers."""


class Transition(Value):
    """One line of a slice's timeline: the state it entered, when, and why."""

    state: SliceState
    at: Moment
    why: str = ""


class DrainEnding(StrEnum):
    """How a drain ended after which the slice serves again."""

    CANCELLED = "cancelled"
    EXPIRED = "expired"


class EndedDrain(WireMessage):
    """A drain that ended, and how."""

    number: Count
    how: DrainEnding


class SliceLifecycle(Value):
    """The whole state of a slice workflow, carried from run to run."""

    spec: SliceSpec
    state: SliceState = SliceState.REQUESTING
    since: Moment
    ordered_at: Moment
    created_at: Moment | None = None
    """When the cloud first listed the slice, which may be days after the order."""
    create_accepted: bool = False
    """Whether the cloud accepted the create call."""
    queued: bool = False
    hosts: tuple[HostAddress, ...] = ()
    drain: DrainTerms | None = None
    ended_drain: EndedDrain | None = None
    """The last of its drains that ended with the slice in service."""
    idle: bool = False
    """Whether usage says that it is idle since its drain began."""
    failure: Failure | None = None
    """Set if the slice is deleted because of a failure."""
    cause: str = ""
    """Why the slice is deleted, as text."""
    deletion_overdue: bool = False
    notice: Notice | None = None
    """What the cloud announces for it; None once it has ended."""
    sequence: Count = 0
    """Number of changes so far."""
    reported: Count = 0
    """Number of the last change that the autoscaler received."""
    transitions: tuple[Transition, ...] = ()


class DrainCommand(WireMessage):
    """Take no new work; delete the slice once it is empty."""

    kind: Literal["drain"] = "drain"
    slice_id: str
    terms: DrainTerms


class CancelDrainCommand(WireMessage):
    """Take work again: the drain with this number is over, and every one before it. Without a number, whichever it is."""

    kind: Literal["cancel_drain"] = "cancel_drain"
    slice_id: str
    number: Count | None = None


class ConfirmEmptyCommand(WireMessage):
    """The controller confirmed, in the drain with this number, that no work is left on the slice."""

    kind: Literal["empty"] = "empty"
    slice_id: str
    number: Count | None = None


class IdleCommand(WireMessage):
    """Usage says that the draining slice is idle, or that it is not any more: at the deadline an idle slice is deleted."""

    kind: Literal["idle"] = "idle"
    slice_id: str
    idle: bool
    number: Count | None = None


class DeleteCommand(WireMessage):
    """Delete the slice now, even if work still runs on it."""

    kind: Literal["delete"] = "delete"
    slice_id: str
    cause: str


class ReportCommand(WireMessage):
    """Report the current state once more."""

    kind: Literal["report"] = "report"
    slice_id: str


SliceCommand = Annotated[
    DrainCommand | CancelDrainCommand | ConfirmEmptyCommand | IdleCommand | DeleteCommand | ReportCommand,
    Field(discriminator="kind"),
]
"""A command of the autoscaler to a slice: the payload of the signal `command`."""


class SliceReport(WireMessage):
    """The current state of a slice. An ended slice leaves the ledger. A `failure` counts once for the health of the group."""

    slice_id: Name
    group: Name
    state: SliceState
    since: Moment
    ordered_at: Moment
    created_at: Moment | None = None
    sequence: Count
    queued: bool = False
    cause: str = ""
    """Why it is deleted."""
    launched_for: str = ""
    """Why it was launched."""
    source: str = ""
    """For whose demand."""
    fingerprint: str = ""
    replaces: str = ""
    home: str = ""
    drain: DrainTerms | None = None
    """Set while it drains."""
    ended_drain: EndedDrain | None = None
    """The last of its drains that ended with the slice in service, so that a newer one is not taken for it."""
    location: Location | None = None
    """Its location, without settings."""
    hosts: tuple[HostAddress, ...] = ()
    failure: Failure | None = None
    notice: Notice | None = None
    """What the cloud announces for it."""


class SliceReports(WireMessage):
    """Payload of the signal `slices_reported`."""

    reports: tuple[SliceReport, ...]


class CreateResult(Value):
    """Result of a create call: `created`, `adopted`, `queued`, or `refused` with a failure."""

    outcome: Literal["created", "adopted", "queued", "refused"]
    failure: Failure | None = None


class DeleteResult(Value):
    """Result of a delete call: whether the resource is gone, and whether the autoscaler has the slice's last report."""

    gone: bool
    reported: bool = False
