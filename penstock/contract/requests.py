"""What activities and short workflows are asked for, beside slices and locations themselves."""

from penstock.contract.inventories import WatchedLocation
from penstock.model.value import Value


class CollectReportsRequest(Value):
    """Ask every running slice workflow of the cluster to report, for a recovery."""

    cluster: str
    recovery: str


class KeepInventoriesRequest(Value):
    """See that an inventory runs for each location; with `recovery`, have each audit its location for it."""

    locations: tuple[WatchedLocation, ...]
    recovery: str | None = None


class WatchRequest(Value):
    """Watch a location for one round; `known` is what earlier rounds told its slices, packed."""

    location: WatchedLocation
    seconds: float
    known: str = ""


class WatchResult(Value):
    """One round of watching. `location` if it is configured otherwise by now; `done` once there is nothing left to watch here."""

    known: str = ""
    resources: int = 0
    complete: bool = False
    location: WatchedLocation | None = None
    done: bool = False


class AuditRequest(Value):
    """Audit a location until a complete listing could be compared and reported, for a recovery."""

    location: WatchedLocation
    recovery: str


class VerifyRequest(Value):
    """Compare ledger, workflows and cloud now."""

    cluster: str
