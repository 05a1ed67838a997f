"""Looks at one slice's resource: sightings as a provider gives them, and a watch that reconciles them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.core.slices.watch import LastNotified, Notification, NotifiedTable, reconcile
from penstock.model.cluster import InventoryRules
from penstock.model.failures import Phase
from penstock.model.sightings import Host, Labels, Ref, Sighting, addresses_digest

CLUSTER, GROUP, ZONE = "c", "small", "zone-a"


def sighting(
    slice_id: str = "s1", phase: Phase = Phase.RUNNING, hosts: tuple[Host, ...] = (), *, name: str | None = None, **rest: Any
) -> Sighting:
    """A resource of the slice; with another `name` than our create call gives, one that only carries its labels."""
    labels = Labels(cluster=CLUSTER, group=GROUP, slice=slice_id)
    ref = Ref(location=ZONE, name=name or labels.resource_name, labels=labels)
    return Sighting(ref=ref, phase=phase, hosts=hosts, **rest)


def hosts(*answered: str | None, first: int = 1) -> tuple[Host, ...]:
    """A host with an address for each answer to a health check; None for a host that did not answer."""
    return tuple(
        Host(name=f"host-{i}", address=f"10.0.0.{first + i}", asked=answer is not None, answered=answer)
        for i, answer in enumerate(answered)
    )


def changed(seen: Sighting, **changes: Any) -> Sighting:
    return seen.model_copy(update=changes)


RULES = InventoryRules.model_validate({"look": "2s", "rest": "15s", "lost_misses": 3, "lost_after": "30s"})
START = datetime(2026, 1, 1, tzinfo=UTC)
RUNNING = sighting(hosts=hosts(None, None))
HEALTHY = sighting(hosts=hosts("s1", "s1"), checked=True)
SILENT = sighting(hosts=hosts("s1", None), checked=True)
UNADDRESSED = (*hosts(None), Host(name="host-1"))
WELL = LastNotified("small", Phase.RUNNING, addressed=True, healthy=True, addresses=addresses_digest(RUNNING.hosts))


class Watch:
    """Looks one after another; every notification is delivered."""

    def __init__(self, **known: LastNotified) -> None:
        self.known: NotifiedTable = dict(known)
        self.at = START

    def notifications(self, *seen: Sighting, seconds: float = 10, complete: bool = True) -> Sequence[Notification]:
        self.at += timedelta(seconds=seconds)
        self.known, sent = reconcile(self.known, seen, complete=complete, at=self.at, rules=RULES)
        return sent

    def look(self, *seen: Sighting, seconds: float = 10, complete: bool = True) -> Sequence[Sighting]:
        """The sightings that slices are notified of; none of them is no longer listed."""
        sent = [one.sighting for one in self.notifications(*seen, seconds=seconds, complete=complete)]
        assert None not in sent
        return [one for one in sent if one is not None]

    def lost(self, *, seconds: float = 10, complete: bool = True) -> Sequence[str]:
        """The slices that count as lost at a look that shows nothing."""
        sent = self.notifications(seconds=seconds, complete=complete)
        assert all(one.sighting is None for one in sent)
        return [one.slice_id for one in sent]
