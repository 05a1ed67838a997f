"""Messages about locations: what a look at the cloud showed, what an audit found, what an inventory watches."""

from pydantic import Field, JsonValue

from penstock.contract.slices import Name, WireMessage
from penstock.model.cluster import InventoryRules
from penstock.model.failures import Failure, Phase
from penstock.model.location import Location
from penstock.model.units import Count, Moment, Positive


class WatchedLocation(Location):
    """A location as the inventory of one cluster watches it."""

    cluster: str
    rules: InventoryRules = InventoryRules()


class Sighting(WireMessage):
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


class Orphan(WireMessage):
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


class LocationReport(WireMessage):
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
    orphans: tuple[Orphan, ...] = ()
    missing: tuple[str, ...] = ()
    failure: Failure | None = None
    orders_too: bool = False
