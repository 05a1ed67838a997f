"""Messages of inventory workflows: the watched location, and the report of an audit."""

from penstock.contract.answers import LocationProblem
from penstock.model.cluster import InventoryRules
from penstock.model.failures import Failure
from penstock.model.location import Location
from penstock.model.sightings import Sighting
from penstock.model.units import Moment
from penstock.model.value import WireMessage


class WatchedLocation(Location):
    """A location as the inventory of one cluster watches it."""

    cluster: str
    rules: InventoryRules = InventoryRules()

    @classmethod
    def of(cls, location: Location, *, cluster: str, rules: InventoryRules = InventoryRules()) -> "WatchedLocation":  # noqa: B008 - it is frozen
        """The location, watched for a cluster."""
        return cls(**{field: getattr(location, field) for field in Location.model_fields}, cluster=cluster, rules=rules)

    @property
    def location(self) -> Location:
        """The location alone."""
        return Location(**{field: getattr(self, field) for field in Location.model_fields})


class LocationReport(WireMessage):
    """Result of an audit of one location."""

    location: Location
    at: Moment
    complete: bool
    """Whether the listing was complete; without it, nothing is `missing`."""
    asked: str | None = None
    """The recovery that requested the audit, if one did."""
    orphans: tuple[Sighting, ...] = ()
    """Resources with our labels that have no slice workflow."""
    missing: tuple[str, ...] = ()
    """Slices of the ledger that have neither a resource nor a workflow."""
    failure: Failure | None = None
    """Why the location cannot be listed, if only an operator can fix that."""
    problem: LocationProblem | None = None
    """Since when the cloud does not answer, if it does not."""
