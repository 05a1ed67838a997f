"""What slices, inventories and the autoscaler say to each other, and what a slice workflow carries."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from penstock.model.cluster import Timeouts
from penstock.model.failures import Failure
from penstock.model.slices import DrainTerms, SliceState
from penstock.model.units import Count, Moment, Positive
from penstock.model.value import Value

Name = Annotated[str, Field(min_length=1)]


class WireMessage(Value):
    """What workers of two versions may say to each other while one replaces the other: what is new to one is passed over."""

    model_config = Value.model_config | {"extra": "ignore"}


class SliceSpec(Value):
    """One slice as ordered: everything its lifecycle needs, fixed at the order, whatever the configuration says later."""

    cluster: str
    group: str
    slice_id: str
    provider: str
    """Its kind; `settings` is what the group's provider says beside it."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    location: str
    hosts: Positive = 1
    variant: str | None = None
    preemptible: bool = False
    queued: bool = False
    timeouts: Timeouts = Timeouts()
    cause: str = ""
    """Why it was ordered: demand, minimum, warm, …; `adopted` for one that was found."""


class Move(Value):
    """A slice came into a state, and why: one line of its timeline."""

    state: SliceState
    at: Moment
    why: str = ""


class SliceLifecycle(Value):
    """A slice workflow's whole state, carried from run to run.

    `created` once the cloud took the order; `born_at` is when it first showed the slice, which may be days later. `failure` and
    `cause` say why it leaves. `sequence` counts its moves; `reported` is the last one that its autoscaler was told. `confirmed`
    once the controller confirmed that a draining slice is empty.
    """

    spec: SliceSpec
    state: SliceState = SliceState.REQUESTING
    since: Moment
    ordered_at: Moment
    born_at: Moment | None = None
    created: bool = False
    queued: bool = False
    drain: DrainTerms | None = None
    confirmed: bool = False
    failure: Failure | None = None
    cause: str = ""
    sequence: Count = 0
    reported: Count = 0
    moves: tuple[Move, ...] = ()


class DrainCommand(WireMessage):
    """Stop taking work, let it empty, then delete."""

    kind: Literal["drain"] = "drain"
    slice_id: str
    terms: DrainTerms


class CancelDrainCommand(WireMessage):
    """Serve again."""

    kind: Literal["cancel_drain"] = "cancel_drain"
    slice_id: str


class ConfirmEmptyCommand(WireMessage):
    """The controller confirmed that nothing runs there any more."""

    kind: Literal["empty"] = "empty"
    slice_id: str


class DeleteCommand(WireMessage):
    """Delete now, work or not."""

    kind: Literal["delete"] = "delete"
    slice_id: str
    cause: str


class ReportCommand(WireMessage):
    """Say again where you are."""

    kind: Literal["report"] = "report"
    slice_id: str


SliceCommand = Annotated[
    DrainCommand | CancelDrainCommand | ConfirmEmptyCommand | DeleteCommand | ReportCommand,
    Field(discriminator="kind"),
]
"""What the autoscaler tells a slice, as the payload of the signal `command`."""


class SliceReport(WireMessage):
    """Where a slice is. `ended` states leave the ledger; a `failure` counts once for its group's health.

    `drain` are the terms on which it drains, if it does; `location` is where it is, as `account/location`.
    """

    slice_id: Name
    group: Name
    state: SliceState
    since: Moment
    ordered_at: Moment
    born_at: Moment | None = None
    sequence: Count
    queued: bool = False
    cause: str = ""
    drain: DrainTerms | None = None
    location: str | None = None
    failure: Failure | None = None


class SliceReports(WireMessage):
    """Payload of `slices_reported`."""

    reports: tuple[SliceReport, ...]


class CreateResult(Value):
    """What became of a create call: `created`, `adopted`, `queued`, or `refused` with a failure."""

    outcome: Literal["created", "adopted", "queued", "refused"]
    failure: Failure | None = None


class DeleteResult(Value):
    """What became of a delete call."""

    gone: bool
