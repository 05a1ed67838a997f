"""Reconcile a cluster: the ledger against the running slice workflows against the cloud's resources."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.contract.answers import Difference
from penstock.model.failures import Phase
from penstock.model.slices import IN_FLIGHT, Slice, SliceState
from penstock.model.units import Moment

NO_WORKFLOW = "no_workflow"
NO_RESOURCE = "no_resource"
NOT_IN_LEDGER = "not_in_ledger"
NOWHERE = "nowhere"
STATE = "state"
DOUBLED = "doubled"
LOST = "lost"
FOREIGN = "foreign"

_WITHOUT_RESOURCE = {LOST: NO_RESOURCE, NO_WORKFLOW: NOWHERE}
"""What a difference becomes when the resource goes away: the slice is as wrong as before."""
_NEEDS_RESOURCE = (SliceState.BOOTING, SliceState.INITIALIZING, SliceState.READY, SliceState.DRAINING)
"""States in which the cloud must have the slice; before them it is asked for, after them given back."""
_STANDING = (*IN_FLIGHT, SliceState.READY, SliceState.DRAINING)
"""States of a slice that is not leaving."""


class Resource(NamedTuple):
    """One resource labelled ours; `location` names the location as `account/location`."""

    slice_id: str
    group: str
    location: str
    name: str
    phase: Phase
    created_at: Moment | None = None
    hosts: int = 1
    made: bool = True
    """Whether an order of ours made it; else somebody copied our labels."""


class Claim(NamedTuple):
    """What a running slice workflow claims of its slice, and where that is."""

    group: str
    state: SliceState
    location: str


class Findings(NamedTuple):
    """What an audit of one location has to act on.

    `orphans`: resources that no workflow looks after. `missing`: slices of the ledger that are nowhere. `unreported`: resources
    here whose workflows run, and whose slices the ledger does not have.
    """

    orphans: tuple[Resource, ...] = ()
    missing: tuple[str, ...] = ()
    unreported: tuple[Resource, ...] = ()


def findings(
    resources: Iterable[Resource], *, ledger: Iterable[Slice], running: Collection[str], starting: Collection[str], complete: bool
) -> Findings:
    """What is nobody's here. `ledger` holds this location's slices, and any that a resource here belongs to.

    `running` are slices whose workflows run, `starting` those whose workflows are about to. Unless the list was `complete`,
    nothing is missing.
    """
    here = [resource for resource in resources if resource.phase is not Phase.GONE]
    slices = {piece.id for piece in ledger}
    present = {resource.slice_id for resource in here}
    looked_after = {*running, *starting}
    return Findings(
        orphans=tuple(resource for resource in here if resource.slice_id not in looked_after),
        missing=tuple(sorted(slices - present - looked_after)) if complete else (),
        unreported=tuple(resource for resource in here if resource.slice_id in running and resource.slice_id not in slices),
    )


def differences(
    ledger: Sequence[Slice],
    *,
    starting: Collection[str],
    workflows: Mapping[str, Claim],
    resources: Sequence[Resource],
    locations: Mapping[str, str],
    unlisted: Collection[str],
) -> tuple[Difference, ...]:
    """Every difference between ledger, workflows and cloud, by slice.

    `locations` maps each configured group to its location key. A location that could not be listed is no evidence of absence, and
    slices on their way or leaving are no difference by themselves.
    """
    slices = {piece.id: piece for piece in ledger}
    here = [resource for resource in resources if resource.phase is not Phase.GONE]
    present: dict[str, list[Resource]] = {}
    for resource in here:
        if resource.made:
            present.setdefault(resource.slice_id, []).append(resource)
    found = [_foreign(resource) for resource in here if not resource.made]
    for slice_id in sorted({*slices, *workflows, *present}):
        one = _Slice(slice_id, slices.get(slice_id), workflows.get(slice_id), tuple(present.get(slice_id, ())))
        if slice_id not in starting:
            found += one.differences(locations, unlisted)
    return tuple(found)


def _foreign(resource: Resource) -> Difference:
    """Not ours to delete, whatever its labels say."""
    told = (
        f"resource {resource.name} ({resource.phase}) in {resource.location} carries the labels of slice {resource.slice_id}, "
        "but Penstock did not make it and never touches it: take the labels off, or delete it, in the cloud"
    )
    return Difference(slice_id=resource.slice_id, group=resource.group, location=resource.location, kind=FOREIGN, message=told)


def settled(first: Iterable[Difference], second: Iterable[Difference]) -> tuple[Difference, ...]:
    """Differences that two looks agree on, as the second saw them: what was in motion at one of them does not count."""
    before = {_what(difference) for difference in first}
    return tuple(difference for difference in second if _what(difference) in before)


def _what(difference: Difference) -> tuple[str, ...]:
    """What makes a difference the same at two looks.

    A resource goes on from phase to phase and at last goes away while nobody looks after it. Two reading that disagree on a
    state disagree on another one as soon as one of them moves.
    """
    if difference.kind == STATE:
        return difference.slice_id, STATE, difference.message
    return difference.slice_id, _WITHOUT_RESOURCE.get(difference.kind, difference.kind)


class _Slice(NamedTuple):
    """One slice in ledger, workflows and cloud."""

    id: str
    entry: Slice | None
    workflow: Claim | None
    resources: tuple[Resource, ...]

    def differences(self, locations: Mapping[str, str], unlisted: Collection[str]) -> list[Difference]:
        location = self._location(locations)
        found = [
            self._unlike(location),
            self._unkept(location, unlisted),
            self._unheld(location, unlisted),
            self._lost(location),
            self._doubled(location),
        ]
        return [difference for difference in found if difference is not None]

    def _location(self, locations: Mapping[str, str]) -> str:
        if self.resources:
            return self.resources[0].location
        if self.workflow is not None:
            return self.workflow.location
        return locations.get(self.entry.group, "") if self.entry is not None else ""

    def _group(self) -> str:
        known = (self.entry, self.workflow, *self.resources)
        return next(one.group for one in known if one is not None)

    def _difference(self, kind: str, location: str, message: str) -> Difference:
        return Difference(slice_id=self.id, group=self._group(), location=location, kind=kind, message=message)

    def _unlike(self, location: str) -> Difference | None:
        """Ledger and workflow against each other."""
        if self.workflow is None:
            return None
        if self.entry is None:
            told = f"a workflow looks after slice {self.id} ({self.workflow.state}), but it is not in the ledger"
            return self._difference(NOT_IN_LEDGER, location, told)
        if self.entry.state is not self.workflow.state:
            told = f"the ledger has slice {self.id} as {self.entry.state}, its workflow as {self.workflow.state}"
            return self._difference(STATE, location, told)
        return None

    def _unkept(self, location: str, unlisted: Collection[str]) -> Difference | None:
        """Something exists, in the cloud or in the ledger, that no workflow looks after."""
        if self.workflow is not None:
            return None
        if self.resources:
            first = self.resources[0]
            told = f"resource {first.name} ({first.phase}) in {location} is ours, but no workflow looks after slice {self.id}"
            return self._difference(NO_WORKFLOW, location, told)
        assert self.entry is not None
        told = f"slice {self.id} is {self.entry.state} in the ledger, but no workflow looks after it"
        if location in unlisted:
            return self._difference(NO_WORKFLOW, location, told)
        return self._difference(NOWHERE, location, f"{told} and the cloud does not have it")

    def _unheld(self, location: str, unlisted: Collection[str]) -> Difference | None:
        """Both ledger and workflow count on a resource that the cloud does not have."""
        if self.entry is None or self.workflow is None or self.resources or location in unlisted:
            return None
        if self.entry.state not in _NEEDS_RESOURCE:
            return None
        told = f"slice {self.id} is {self.entry.state} in the ledger, but the cloud does not have it in {location}"
        return self._difference(NO_RESOURCE, location, told)

    def _lost(self, location: str) -> Difference | None:
        """The cloud took it away or gave it up, and nobody has noticed."""
        if self.entry is None or self.workflow is None or self.entry.state not in _STANDING or not self.resources:
            return None
        phases = {resource.phase for resource in self.resources}
        if not phases <= {Phase.PREEMPTED, Phase.FAILED, Phase.DELETING}:
            return None
        told = f"slice {self.id} is {self.entry.state} in the ledger, but {self.resources[0].phase} in the cloud"
        return self._difference(LOST, location, told)

    def _doubled(self, location: str) -> Difference | None:
        if len(self.resources) < 2:
            return None
        named = ", ".join(sorted(f"{resource.name} in {resource.location}" for resource in self.resources))
        return self._difference(DOUBLED, location, f"slice {self.id} has {len(self.resources)} resources: {named}")
