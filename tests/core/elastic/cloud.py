"""A cloud in simulated time: the rules of the simulated cloud's server, asked as a provider asks it, without sockets."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from emulators.sim import cloud as rules
from emulators.sim.behaviour import Behaviour
from penstock.contract.slices import CreateResult, SliceSpec
from penstock.model.failures import Failure, FailureKind, Notice, Phase
from penstock.model.sightings import Host, Labels, Ref, Sighting
from tests.core.elastic.clock import Clock

REFUSALS = {"STOCKOUT": FailureKind.STOCKOUT, "QUOTA_EXCEEDED": FailureKind.QUOTA, "INVALID": FailureKind.INVALID}
"""The refusals that a create call answers with; whatever else goes wrong is repeated."""


class Unavailable(Exception):
    """A call without an answer: it may have done what it was asked for, or not."""


class Listing(NamedTuple):
    """What a list call shows."""

    items: tuple[Sighting, ...]
    complete: bool


class Cloud:
    """Every resource that was ever created, and the faults of each zone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._resources: dict[str, rules.Resource] = {}
        self._labels: dict[str, Labels] = {}
        """By the name of the resource."""
        self._behaviours: dict[str, Behaviour] = {}
        self._seen: dict[str, tuple[object, Sighting]] = {}
        """The last sighting of each resource, and the facts that it shows."""
        self.usual = Behaviour()
        """How zones behave that have no faults."""

    def behave(self, zone: str, **faults: object) -> None:
        """Give a zone these faults beside its usual behaviour, instead of those that it had."""
        self._behaviours[zone] = Behaviour.model_validate(self.usual.model_dump(by_alias=True) | faults)

    def heal(self) -> None:
        """End every fault."""
        self._behaviours.clear()

    @property
    def hides(self) -> bool:
        """Whether lists of some zone are incomplete, so that nobody can know what exists there."""
        return any(behaviour.partial_lists for behaviour in self._behaviours.values())

    # Calls of a provider.

    def create(self, spec: SliceSpec) -> CreateResult:
        """Create the resource of a slice, or find it; raises `Unavailable` if the reply is lost."""
        labels, zone = _labels_of(spec), spec.location.name
        behaviour = self._behaviour(zone)
        request = rules.Request(name=labels.resource_name, hosts=spec.hosts, variant=spec.variant, queued=spec.queued)
        try:
            made, left = rules.create(request, zone, behaviour=behaviour, existing=self._existing(), now=self._clock.now)
        except rules.ApiError as error:
            return self._refused(error, labels.resource_name)
        self._behaviours[zone] = left
        self._resources[made.name], self._labels[made.name] = made, labels
        if behaviour.lost_replies:
            raise Unavailable(f"the reply to the create of {made.name} was lost")
        return CreateResult(outcome="queued" if self._phase(made) is Phase.QUEUED else "created")

    def list_zone(self, zone: str) -> Listing:
        """The resources of a zone, with the health of their hosts unchecked."""
        if self._behaviour(zone).partial_lists:
            return Listing((), complete=False)
        self._admit(zone)
        here = [resource for name, resource in sorted(self._existing().items()) if resource.zone == zone]
        return Listing(tuple(self._sighting(resource, checked=False) for resource in here), complete=True)

    def observe(self, ref: Ref) -> Sighting:
        """One resource with the health of its hosts."""
        resource = self._existing().get(ref.name)
        return Sighting(ref=ref, phase=Phase.GONE) if resource is None else self._sighting(resource, checked=True)

    def delete(self, ref: Ref) -> bool:
        """Delete a resource; whether it is gone. Raises `Unavailable` if the zone refuses deletes."""
        resource = self._existing().get(ref.name)
        if resource is None:
            return True
        behaviour = self._behaviour(resource.zone)
        if behaviour.failing_deletes:
            self._behaviours[resource.zone] = behaviour.model_copy(update={"failing_deletes": behaviour.failing_deletes - 1})
            raise Unavailable(f"{resource.name} could not be deleted")
        deleted = self._resources[ref.name] = rules.delete(resource, behaviour=behaviour, now=self._clock.now)
        return self._phase(deleted) is Phase.GONE

    # What happens in it.

    def preempt(self, slice_id: str) -> None:
        """Take a slice back; it stays visible until it is deleted."""
        self._change(slice_id, lambda resource: rules.preempted(resource, self._clock.now))

    def vanish(self, slice_id: str) -> None:
        """Remove a slice without a trace."""
        self._change(slice_id, lambda resource: resource.model_copy(update={"gone_at": self._clock.now}))

    def kill_host(self, slice_id: str) -> None:
        """Silence the first host of a slice."""
        self._change(slice_id, lambda resource: rules.with_dead_host(resource, 0))

    def announce(self, slice_id: str, notice: Notice | None) -> None:
        """Announce something for a slice, which comes true by itself; or take that back, unless it is too late for it."""
        try:
            self._change(slice_id, lambda resource: rules.with_notice(resource, notice, self._clock.now))
        except rules.ApiError:
            return

    # The truth.

    def existing(self) -> dict[str, str]:
        """The groups of all slices that exist, leaving or not, by slice id."""
        owners = (self._labels[name] for name in sorted(self._existing()))
        return {labels.slice: labels.group for labels in owners}

    def runs(self, slice_id: str) -> bool:
        """Whether a slice's hosts all run, so that tasks on them do."""
        resource = self._named(slice_id)
        return resource is not None and all(resource.answers(host, self._clock.now) for host in range(resource.hosts))

    def losable(self) -> list[str]:
        """Slices that the cloud may take back."""
        names = [name for name, each in sorted(self._existing().items()) if rules.can_be_preempted(each, self._clock.now)]
        return [self._labels[name].slice for name in names]

    def _existing(self) -> dict[str, rules.Resource]:
        now = self._clock.now
        if any(each.ends_at is not None and each.ends_at <= now for each in self._resources.values()):
            self._resources = {name: each for name, each in self._resources.items() if each.ends_at is None or each.ends_at > now}
        return self._resources

    def _named(self, slice_id: str) -> rules.Resource | None:
        return next((each for name, each in self._existing().items() if self._labels[name].slice == slice_id), None)

    def _change(self, slice_id: str, change: Callable[[rules.Resource], rules.Resource]) -> None:
        resource = self._named(slice_id)
        assert resource is not None, f"the cloud has no {slice_id}"
        self._resources[resource.name] = change(resource)

    def _phase(self, resource: rules.Resource) -> Phase:
        return Phase(resource.phase(self._clock.now))

    def _behaviour(self, zone: str) -> Behaviour:
        return self._behaviours.get(zone, self.usual)

    def _admit(self, zone: str) -> None:
        """Admit the resources that wait in the queue of a zone, if there is capacity."""
        existing = self._existing()
        queued = [each for each in existing.values() if each.zone == zone and self._phase(each) is Phase.QUEUED]
        behaviour = self._behaviour(zone)
        while queued:
            admitted = rules.next_admitted(queued, behaviour=behaviour, existing=self._existing(), now=self._clock.now)
            if admitted is None:
                return
            self._resources[admitted.name] = admitted
            queued = [each for each in queued if each.name != admitted.name]

    def _refused(self, error: rules.ApiError, name: str) -> CreateResult:
        code = error.body["error"]["code"]
        if code == "ALREADY_EXISTS":
            queued = self._phase(self._resources[name]) is Phase.QUEUED
            return CreateResult(outcome="queued" if queued else "adopted")
        if code not in REFUSALS:
            raise Unavailable(str(error))
        return CreateResult(outcome="refused", failure=Failure(kind=REFUSALS[str(code)], message=str(error)))

    def _sighting(self, resource: rules.Resource, *, checked: bool) -> Sighting:
        now, labels = self._clock.now, self._labels[resource.name]
        answers = tuple(checked and resource.answers(host, now) for host in range(resource.hosts))
        phase, addressed = self._phase(resource), resource.running_at is not None and now >= resource.running_at
        facts = (phase, addressed, answers, checked, resource.notice)
        known = self._seen.get(resource.name)
        if known is None or known[0] != facts:
            hosts = (self._host(resource, i, answered=each, addressed=addressed) for i, each in enumerate(answers))
            ref = Ref(location=resource.zone, name=resource.name, labels=labels)
            shown = {"created_at": resource.created_at, "checked": checked, "notice": resource.notice}
            seen = Sighting(ref=ref, phase=phase, hosts=tuple(hosts), **shown)
            known = self._seen[resource.name] = (facts, seen)
        return known[1]

    def _host(self, resource: rules.Resource, i: int, *, answered: bool, addressed: bool) -> Host:
        slice_id = self._labels[resource.name].slice if answered else None
        address = f"10.0.0.{i}" if addressed else ""
        return Host(name=f"{resource.name}-{i}", address=address, asked=addressed, answered=slice_id)


def ref_of(spec: SliceSpec) -> Ref:
    """The reference of a slice's resource."""
    labels = _labels_of(spec)
    return Ref(location=spec.location.name, name=labels.resource_name, labels=labels)


def _labels_of(spec: SliceSpec) -> Labels:
    return Labels(cluster=spec.cluster, group=spec.group, slice=spec.slice_id)


def age_of(moment: datetime, now: datetime) -> float:
    """Seconds between two moments."""
    return (now - moment).total_seconds()
