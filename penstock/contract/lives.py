"""What slices, inventories and the autoscaler say to each other, and what a slice workflow carries."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from penstock.model.cluster import InventoryRules, Timeouts
from penstock.model.failures import Failure, Phase
from penstock.model.slices import SliceState
from penstock.model.units import Count, Moment, Positive
from penstock.model.value import Value

Name = Annotated[str, Field(min_length=1)]


class Exchanged(Value):
    """What workers of two versions may say to each other while one replaces the other: what is new to one is passed over."""

    model_config = Value.model_config | {"extra": "ignore"}


class SliceSpec(Value):
    """One slice as ordered: everything its life needs, fixed at the order, whatever the configuration says later."""

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


class DrainTerms(Value):
    """Why a slice is to be emptied; `force` deletes it at the deadline even with work on it."""

    cause: str
    force: bool = False


class Move(Value):
    """A slice came into a state, and why: one line of its timeline."""

    state: SliceState
    at: Moment
    why: str = ""


class SliceLife(Value):
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


class Sighting(Exchanged):
    """What an inventory or a look tells a slice about itself: the cloud's phase, and how its hosts are.

    `silent_hosts` are hosts that were asked often enough for long enough and never answered; `hosts` is how many it has.
    """

    at: Moment
    phase: Phase
    addressed: bool = False
    healthy: bool = False
    hosts: Count | None = None
    silent_hosts: tuple[int, ...] = ()
    failure: Failure | None = None


class DrainLetter(Exchanged):
    """Stop taking work, let it empty, then delete."""

    kind: Literal["drain"] = "drain"
    slice_id: str
    terms: DrainTerms


class CancelDrainLetter(Exchanged):
    """Serve again."""

    kind: Literal["cancel_drain"] = "cancel_drain"
    slice_id: str


class EmptyLetter(Exchanged):
    """The controller confirmed that nothing runs there any more."""

    kind: Literal["empty"] = "empty"
    slice_id: str


class DeleteLetter(Exchanged):
    """Delete now, work or not."""

    kind: Literal["delete"] = "delete"
    slice_id: str
    cause: str


class ReportLetter(Exchanged):
    """Say again where you are."""

    kind: Literal["report"] = "report"
    slice_id: str


Letter = Annotated[
    DrainLetter | CancelDrainLetter | EmptyLetter | DeleteLetter | ReportLetter,
    Field(discriminator="kind"),
]
"""What the autoscaler tells a slice, as the payload of the signal `letter`."""


class SliceReport(Exchanged):
    """Where a slice is. `ended` states leave the ledger; a `failure` counts once for its group's health.

    `drain` are the terms on which it drains, if it does; `place` is where it is, as `account/location`.
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
    place: str | None = None
    failure: Failure | None = None


class SliceReports(Exchanged):
    """Payload of `slices_reported`."""

    reports: tuple[SliceReport, ...]


class Unowned(Exchanged):
    """A resource labelled ours that no slice workflow looks after, and how its cloud is reached."""

    group: Name
    slice_id: Name
    phase: Phase
    location: str
    provider: str
    account: str = ""
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    created_at: Moment | None = None
    hosts: Positive = 1


class LocationReport(Exchanged):
    """What an audit of one location found. `asked` names the recovery that asked for it, if one did.

    `missing` are slices of the ledger that neither the cloud has nor a workflow looks after. Unless `complete`, it is empty.
    `failure` says why it could not be looked at, where that is for people to mend; `orders_too`, that orders which were refused
    for the same reason are to be tried again once it can be.
    """

    account: str
    location: str
    at: Moment
    complete: bool
    asked: str | None = None
    unowned: tuple[Unowned, ...] = ()
    missing: tuple[str, ...] = ()
    failure: Failure | None = None
    orders_too: bool = False


def place_key(account: str, location: str) -> str:
    """The name of a location among those of a cluster."""
    return f"{account}/{location}"


class Place(Value):
    """A location of a provider, as an inventory looks at it."""

    cluster: str
    provider: str
    account: str
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    location: str
    rules: InventoryRules = InventoryRules()

    @property
    def key(self) -> str:
        """Its name among the cluster's locations."""
        return place_key(self.account, self.location)


class Asked(Value):
    """What became of a create call: `created`, `adopted`, `queued`, or `refused` with a failure."""

    outcome: Literal["created", "adopted", "queued", "refused"]
    failure: Failure | None = None


class Dismissed(Value):
    """What became of a delete call."""

    gone: bool
