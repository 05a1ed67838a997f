"""Arguments and results of activities: watch, audit, verify, collect reports, keep inventories."""

from pydantic import Field

from penstock.contract.inventories import WatchedLocation
from penstock.contract.slices import SliceCommand
from penstock.model.value import Value


class CollectReportsRequest(Value):
    """Request a report from every running slice workflow of the cluster, for a recovery."""

    cluster: str
    recovery: str


class SendCommandsRequest(Value):
    """Send commands to slices of the cluster, at most one to each. `groups` are theirs, by slice id."""

    cluster: str
    commands: tuple[SliceCommand, ...]
    groups: dict[str, str]


class SendCommandsResult(Value):
    """The slices that could not be reached: their commands are sent again later."""

    failed: tuple[str, ...] = ()


class KeepInventoriesRequest(Value):
    """Start an inventory for each location that has none. With `recovery`, every inventory audits its location for it."""

    locations: tuple[WatchedLocation, ...]
    recovery: str | None = None


class CollectReportsResult(Value):
    """How many slices were asked, and the groups of those whose workflows run and do not answer, by slice id."""

    slices: int = 0
    silent: dict[str, str] = Field(default_factory=dict)


class KeepInventoriesResult(Value):
    """The errors of inventories that could not be started, by location key."""

    failed: dict[str, str] = Field(default_factory=dict)


class WatchRequest(Value):
    """Watch a location for one round. `known` is the packed record of the last notification of every slice."""

    location: WatchedLocation
    seconds: float
    known: str = ""


class WatchResult(Value):
    """Result of one round. `location` is set if its settings changed; `done` if nothing is left to watch there."""

    known: str = ""
    resources: int = 0
    complete: bool = False
    location: WatchedLocation | None = None
    done: bool = False


class AuditRequest(Value):
    """Audit a location for a recovery, until a complete listing was compared and reported."""

    location: WatchedLocation
    recovery: str


class VerifyRequest(Value):
    """Compare ledger, workflows and cloud once."""

    cluster: str
