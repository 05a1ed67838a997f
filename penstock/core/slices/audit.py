"""Compare ledger, slice workflows and cloud resources: findings for audits, differences for `penstock verify`."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.contract.answers import Difference
from penstock.contract.slices import SliceLifecycle
from penstock.model.failures import Phase
from penstock.model.sightings import Sighting
from penstock.model.slices import Slice, SliceState

NO_WORKFLOW = "no_workflow"
NO_RESOURCE = "no_resource"
NOT_IN_LEDGER = "not_in_ledger"
NOWHERE = "nowhere"
STATE = "state"
DOUBLED = "doubled"
LOST = "lost"
FOREIGN = "foreign"

_WITHOUT_RESOURCE = {LOST: NO_RESOURCE, NO_WORKFLOW: NOWHERE}
"""The kind that a difference turns into when its resource disappears; both count as the same difference."""


class AuditFindings(NamedTuple):
    """The result of an audit of one location."""

    orphans: tuple[Sighting, ...] = ()
    """Resources without a workflow."""
    missing: tuple[str, ...] = ()
    """Slices of the ledger with neither a resource nor a workflow."""
    unreported: tuple[Sighting, ...] = ()
    """Resources whose workflows run, and whose slices are not in the ledger."""


class RunningSlice(NamedTuple):
    """What the workflow of a slice says of it; without a location, it is where the ledger has it."""

    state: SliceState
    group: str
    location: str | None = None

    @classmethod
    def of(cls, lifecycle: SliceLifecycle) -> "RunningSlice":
        """As the workflow itself answers."""
        return cls(lifecycle.state, lifecycle.spec.group, lifecycle.spec.location.key)


def audit_findings(
    sightings: Iterable[Sighting], *, ledger: Iterable[Slice], running: Collection[str], complete: bool
) -> AuditFindings:
    """Reconcile one location. `ledger` holds this location's slices, and any that a resource here belongs to.

    `running` are the slices whose workflows run; a slice about to be started counts as running. If the listing was not
    `complete`, no slice is reported as missing.
    """
    here = [sighting for sighting in sightings if sighting.phase is not Phase.GONE]
    slices = {piece.id: piece for piece in ledger}
    present = {sighting.slice_id for sighting in here}
    starting = {piece.id for piece in slices.values() if not piece.started}
    ownerless = {slice_id for slice_id in {*present, *slices} if slice_id not in running and slice_id not in starting}
    return AuditFindings(
        orphans=tuple(sighting for sighting in here if sighting.slice_id in ownerless),
        missing=tuple(sorted((slices.keys() - present) & ownerless)) if complete else (),
        unreported=tuple(one for one in here if one.slice_id in running and one.slice_id not in slices),
    )


def differences(
    ledger: Sequence[Slice],
    *,
    workflows: Mapping[str, RunningSlice],
    listed: Mapping[str, Sequence[Sighting]],
    locations: Mapping[str, str],
    unlisted: Collection[str],
) -> tuple[Difference, ...]:
    """Every difference between ledger, workflows and cloud, by slice.

    `listed` holds the resources by location key, `locations` the location key of each configured group. A location that could not
    be listed is no evidence of absence. A slice that is starting or leaving is no difference by itself.
    """
    slices = {piece.id: piece for piece in ledger}
    resources = [
        _Resource(location, sighting)
        for location, sightings in listed.items()
        for sighting in sightings
        if sighting.phase is not Phase.GONE
    ]
    present: dict[str, list[_Resource]] = {}
    for resource in resources:
        if resource.sighting.is_ours:
            present.setdefault(resource.sighting.slice_id, []).append(resource)
    found = [_foreign(resource) for resource in resources if not resource.sighting.is_ours]
    for slice_id in sorted({*slices, *workflows, *present}):
        piece = slices.get(slice_id)
        one = _Slice(slice_id, piece, workflows.get(slice_id), tuple(present.get(slice_id, ())))
        if piece is None or piece.started:
            found += one.differences(locations, unlisted)
    return tuple(found)


class _Resource(NamedTuple):
    """A listed resource and the key of its location."""

    location: str
    sighting: Sighting

    @property
    def name(self) -> str:
        return self.sighting.ref.name

    @property
    def phase(self) -> Phase:
        return self.sighting.phase


def _foreign(resource: _Resource) -> Difference:
    """A resource with copied labels. It is not ours, so it is never deleted."""
    labels = resource.sighting.labels
    message = (
        f"resource {resource.name} ({resource.phase}) in {resource.location} carries the labels of slice {labels.slice}, "
        "but Penstock did not create it and never touches it: remove the labels, or delete it, in the cloud"
    )
    return Difference(slice_id=labels.slice, group=labels.group, location=resource.location, kind=FOREIGN, message=message)


def settled(first: Iterable[Difference], second: Iterable[Difference]) -> tuple[Difference, ...]:
    """Differences in both readings, as the second shows them: what only one reading shows is a transition in progress."""
    before = {_identity(difference) for difference in first}
    return tuple(difference for difference in second if _identity(difference) in before)


def _identity(difference: Difference) -> tuple[str, ...]:
    """The identity of a difference across two readings.

    A resource without a workflow moves from phase to phase and disappears at last: still the same difference. Ledger and workflow
    that disagree on another state than before are a new difference.
    """
    if difference.kind == STATE:
        return difference.slice_id, STATE, difference.message
    return difference.slice_id, _WITHOUT_RESOURCE.get(difference.kind, difference.kind)


class _Slice(NamedTuple):
    """One slice in ledger, workflows and cloud."""

    id: str
    entry: Slice | None
    workflow: RunningSlice | None
    resources: tuple[_Resource, ...]

    def differences(self, locations: Mapping[str, str], unlisted: Collection[str]) -> list[Difference]:
        location = self._location(locations)
        found = [
            self._states_differ(location),
            self._without_workflow(location, unlisted),
            self._without_resource(location, unlisted),
            self._lost(location),
            self._doubled(location),
        ]
        return [difference for difference in found if difference is not None]

    def _location(self, locations: Mapping[str, str]) -> str:
        if self.resources:
            return self.resources[0].location
        if self.workflow is not None and self.workflow.location is not None:
            return self.workflow.location
        if self.entry is None:
            return ""
        return self.entry.location.key if self.entry.location is not None else locations.get(self.entry.group, "")

    def _group(self) -> str:
        if self.entry is not None:
            return self.entry.group
        return self.workflow.group if self.workflow is not None else self.resources[0].sighting.group

    def _difference(self, kind: str, location: str, message: str) -> Difference:
        return Difference(slice_id=self.id, group=self._group(), location=location, kind=kind, message=message)

    def _states_differ(self, location: str) -> Difference | None:
        """Ledger and workflow disagree."""
        if self.workflow is None:
            return None
        if self.entry is None:
            message = f"slice {self.id} has a workflow ({self.workflow.state}), but is not in the ledger"
            return self._difference(NOT_IN_LEDGER, location, message)
        if self.entry.state is not self.workflow.state:
            message = f"the ledger has slice {self.id} as {self.entry.state}, its workflow as {self.workflow.state}"
            return self._difference(STATE, location, message)
        return None

    def _without_workflow(self, location: str, unlisted: Collection[str]) -> Difference | None:
        """A resource, or an entry of the ledger, without a workflow."""
        if self.workflow is not None:
            return None
        if self.resources:
            first = self.resources[0]
            message = f"resource {first.name} ({first.phase}) in {location} is ours, but slice {self.id} has no workflow"
            return self._difference(NO_WORKFLOW, location, message)
        assert self.entry is not None
        message = f"slice {self.id} is {self.entry.state} in the ledger, but has no workflow"
        if location in unlisted:
            return self._difference(NO_WORKFLOW, location, message)
        return self._difference(NOWHERE, location, f"{message} and the cloud does not have it")

    def _without_resource(self, location: str, unlisted: Collection[str]) -> Difference | None:
        """Ledger and workflow expect a resource that the cloud does not have."""
        if self.entry is None or self.workflow is None or self.resources or location in unlisted:
            return None
        if not self.entry.state.has_resource:
            return None
        message = f"slice {self.id} is {self.entry.state} in the ledger, but the cloud does not have it in {location}"
        return self._difference(NO_RESOURCE, location, message)

    def _lost(self, location: str) -> Difference | None:
        """The resource is preempted, failed or being deleted, and neither ledger nor workflow shows that."""
        if self.entry is None or self.workflow is None or not self.entry.state.live or not self.resources:
            return None
        phases = {resource.phase for resource in self.resources}
        if not phases <= {Phase.PREEMPTED, Phase.FAILED, Phase.DELETING}:
            return None
        message = f"slice {self.id} is {self.entry.state} in the ledger, but {self.resources[0].phase} in the cloud"
        return self._difference(LOST, location, message)

    def _doubled(self, location: str) -> Difference | None:
        if len(self.resources) < 2:
            return None
        named = ", ".join(sorted(f"{resource.name} in {resource.location}" for resource in self.resources))
        return self._difference(DOUBLED, location, f"slice {self.id} has {len(self.resources)} resources: {named}")
