"""What activities and short workflows are asked for, beside slices and places themselves."""

from penstock.contract.lives import Place
from penstock.model.value import Value


class RollRequest(Value):
    """Ask every running slice workflow of the cluster to report, for a recovery."""

    cluster: str
    recovery: str


class KeepRequest(Value):
    """See that an inventory runs for each place; with `recovery`, have each audit its place for it."""

    places: tuple[Place, ...]
    recovery: str | None = None


class WatchRequest(Value):
    """Watch a place for one round; `known` is what earlier rounds told its slices, packed."""

    place: Place
    seconds: float
    known: str = ""


class Watched(Value):
    """One round of watching. `place` if it is configured otherwise by now; `done` once there is nothing left to watch here."""

    known: str = ""
    resources: int = 0
    complete: bool = False
    place: Place | None = None
    done: bool = False


class AuditRequest(Value):
    """Audit a place until a complete listing could be compared and reported, for a recovery."""

    place: Place
    recovery: str


class VerifyRequest(Value):
    """Compare ledger, workflows and cloud now."""

    cluster: str
