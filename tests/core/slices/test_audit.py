"""Cloud, ledger and slice workflows reconciled: the findings of an audit, and the differences that `verify` shows."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

import pytest

from penstock.contract.answers import Difference
from penstock.contract.slices import SliceLifecycle, SliceSpec
from penstock.core.slices.audit import AuditFindings, RunningSlice, audit_findings, differences, settled
from penstock.model.failures import Phase
from penstock.model.location import Location
from penstock.model.sightings import Sighting
from penstock.model.slices import Slice, SliceState
from tests.core.slices.looks import CLUSTER, GROUP, sighting

HERE, THERE = (Location(provider="sim", account="sim", name=zone) for zone in ("zone-a", "zone-b"))
NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAME = sighting().ref.name


def piece(slice_id: str = "s1", state: SliceState = SliceState.READY, *, started: bool = True) -> Slice:
    return Slice(id=slice_id, group=GROUP, state=state, started=started)


def found(
    *sightings: Sighting, ledger: Collection[Slice] = (), running: Collection[str] = (), complete: bool = True
) -> AuditFindings:
    return audit_findings(sightings, ledger=ledger, running=running, complete=complete)


def test_a_slice_that_ledger_workflows_and_cloud_agree_on_is_no_finding() -> None:
    assert found(sighting(), ledger=[piece()], running=["s1"]) == AuditFindings()


def test_a_resource_without_a_workflow_is_an_orphan_whether_the_ledger_has_it_or_not() -> None:
    assert found(sighting(), ledger=[piece()]).orphans == (sighting(),)
    assert found(sighting()).orphans == (sighting(),)


def test_a_slice_that_is_about_to_be_started_is_neither_an_orphan_nor_missing() -> None:
    unstarted = piece(started=False)
    assert found(sighting(), ledger=[unstarted]) == AuditFindings()
    assert found(ledger=[unstarted]) == AuditFindings()


def test_a_slice_without_a_resource_and_a_workflow_is_missing_if_the_listing_was_complete() -> None:
    assert found(ledger=[piece()]).missing == ("s1",)
    assert found(ledger=[piece()], complete=False) == AuditFindings()
    assert found(ledger=[piece()], running=["s1"]) == AuditFindings()
    assert found(sighting(phase=Phase.GONE), ledger=[piece()]).missing == ("s1",)


def test_a_running_slice_that_is_not_in_the_ledger_is_unreported() -> None:
    assert found(sighting(), running=["s1"]) == AuditFindings(unreported=(sighting(),))


def lifecycle(state: SliceState, slice_id: str = "s1") -> SliceLifecycle:
    spec = SliceSpec(cluster=CLUSTER, group=GROUP, slice_id=slice_id, location=HERE)
    return SliceLifecycle(spec=spec, state=state, since=NOW, ordered_at=NOW)


def compared(
    *here: Sighting,
    there: Sequence[Sighting] = (),
    ledger: Collection[Slice] = (),
    workflow: SliceState | None = None,
    unlisted: Collection[Location] = (),
) -> tuple[Difference, ...]:
    """The differences, with one workflow in the state, if one is given."""
    return differences(
        tuple(ledger),
        workflows={"s1": RunningSlice.of(lifecycle(workflow))} if workflow else {},
        listed={HERE.key: here, THERE.key: there},
        locations={GROUP: HERE.key},
        unlisted=[location.key for location in unlisted],
    )


def described(found: Sequence[Difference]) -> list[tuple[str, str]]:
    return [(difference.kind, difference.message) for difference in found]


def test_agreement_has_no_differences() -> None:
    assert not compared(sighting(), ledger=[piece()], workflow=SliceState.READY)


@pytest.mark.parametrize("state", [SliceState.REQUESTING, SliceState.DELETING])
def test_a_slice_that_is_starting_or_leaving_is_no_difference(state: SliceState) -> None:
    assert not compared(ledger=[piece(state=state)], workflow=state)


def test_a_resource_that_is_being_deleted_by_its_slice_is_no_difference() -> None:
    leaving = SliceState.DELETING
    assert not compared(sighting(phase=Phase.DELETING), ledger=[piece(state=leaving)], workflow=leaving)


def test_a_resource_without_a_workflow() -> None:
    assert described(compared(sighting(), ledger=[piece()])) == [
        ("no_workflow", f"resource {NAME} (running) in sim/zone-a is ours, but slice s1 has no workflow")
    ]


@pytest.mark.parametrize("state", [SliceState.BOOTING, SliceState.INITIALIZING, SliceState.READY, SliceState.DRAINING])
def test_a_slice_without_a_resource(state: SliceState) -> None:
    message = f"slice s1 is {state} in the ledger, but the cloud does not have it in sim/zone-a"
    assert described(compared(ledger=[piece(state=state)], workflow=state)) == [("no_resource", message)]


def test_slices_of_a_location_that_could_not_be_listed_are_not_missing() -> None:
    assert not compared(ledger=[piece()], workflow=SliceState.READY, unlisted=[HERE])
    assert described(compared(ledger=[piece()], unlisted=[HERE])) == [
        ("no_workflow", "slice s1 is READY in the ledger, but has no workflow")
    ]


def test_a_slice_that_only_the_ledger_has() -> None:
    assert described(compared(ledger=[piece()])) == [
        ("nowhere", "slice s1 is READY in the ledger, but has no workflow and the cloud does not have it")
    ]
    assert not compared(ledger=[piece(started=False)])


def test_a_slice_whose_group_has_moved_is_looked_for_where_the_ledger_has_it() -> None:
    moved = piece().model_copy(update={"location": THERE})
    (difference,) = compared(ledger=[moved], unlisted=[THERE])
    assert (difference.kind, difference.location) == ("no_workflow", THERE.key)


def test_a_workflow_whose_slice_is_not_in_the_ledger() -> None:
    assert described(compared(sighting(), workflow=SliceState.READY)) == [
        ("not_in_ledger", "slice s1 has a workflow (READY), but is not in the ledger")
    ]


def test_a_workflow_and_the_ledger_that_disagree() -> None:
    assert described(compared(sighting(), ledger=[piece()], workflow=SliceState.INITIALIZING)) == [
        ("state", "the ledger has slice s1 as READY, its workflow as INITIALIZING")
    ]


def test_a_slice_that_the_cloud_preempted() -> None:
    assert described(compared(sighting(phase=Phase.PREEMPTED), ledger=[piece()], workflow=SliceState.READY)) == [
        ("lost", "slice s1 is READY in the ledger, but preempted in the cloud")
    ]


def test_two_resources_of_one_slice() -> None:
    doubled = compared(sighting(), there=[sighting()], ledger=[piece()], workflow=SliceState.READY)
    assert described(doubled) == [("doubled", f"slice s1 has 2 resources: {NAME} in sim/zone-a, {NAME} in sim/zone-b")]


@pytest.mark.parametrize("known", [True, False])
def test_a_resource_that_only_carries_our_labels_is_foreign_and_no_evidence_of_the_slice(*, known: bool) -> None:
    copied = sighting(name="copy")
    assert not copied.is_ours
    seen = compared(sighting(), copied, ledger=[piece()], workflow=SliceState.READY) if known else compared(copied)
    assert described(seen) == [
        (
            "foreign",
            "resource copy (running) in sim/zone-a carries the labels of slice s1, but Penstock did not create it and never "
            "touches it: remove the labels, or delete it, in the cloud",
        )
    ]


def test_only_differences_that_two_readings_agree_on_count() -> None:
    first = compared(sighting(), ledger=[piece(state=SliceState.BOOTING)], workflow=SliceState.READY)
    second = compared(sighting(), ledger=[piece(state=SliceState.INITIALIZING)], workflow=SliceState.READY)
    assert settled(first, second) == ()
    assert settled(first, first) == first


@pytest.mark.parametrize(
    ("second", "kind"), [([], "no_resource"), ([sighting(phase=Phase.DELETING)], "lost")], ids=["absent", "being deleted"]
)
def test_a_preempted_slice_is_a_difference_whatever_its_resource_does_next(second: list[Sighting], kind: str) -> None:
    before = compared(sighting(phase=Phase.PREEMPTED), ledger=[piece()], workflow=SliceState.READY)
    after = compared(*second, ledger=[piece()], workflow=SliceState.READY)
    assert settled(before, after) == after
    assert [difference.kind for difference in after] == [kind]


@pytest.mark.parametrize(("second", "kind"), [([sighting(phase=Phase.BOOTING)], "no_workflow"), ([], "nowhere")])
def test_a_slice_without_a_workflow_is_a_difference_whatever_its_resource_does(second: list[Sighting], kind: str) -> None:
    before = compared(sighting(phase=Phase.CREATING), ledger=[piece()])
    after = compared(*second, ledger=[piece()])
    assert settled(before, after) == after
    assert [difference.kind for difference in after] == [kind]
