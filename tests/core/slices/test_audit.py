"""Cloud, ledger and slice workflows compared: what an audit acts on, and what `verify` calls a difference."""

from collections.abc import Collection
from typing import Any

import pytest

from penstock.core.slices.audit import Claim, Findings, Resource, differences, findings, settled
from penstock.model.failures import Phase
from penstock.model.slices import Slice, SliceState

HERE = "sim/zone-a"


def piece(slice_id: str = "s1", state: SliceState = SliceState.READY) -> Slice:
    return Slice(id=slice_id, group="small", state=state)


def resource(slice_id: str = "s1", phase: Phase = Phase.RUNNING, name: str = "") -> Resource:
    return Resource(slice_id, "small", HERE, name or f"{slice_id}-name", phase)


def found(
    *resources: Resource,
    ledger: Collection[Slice] = (),
    running: Collection[str] = (),
    starting: Collection[str] = (),
    complete: bool = True,
) -> Findings:
    return findings(resources, ledger=ledger, running=running, starting=starting, complete=complete)


def test_what_all_three_know_needs_nothing() -> None:
    assert found(resource(), ledger=[piece()], running=["s1"]) == Findings()


def test_a_resource_that_no_workflow_looks_after_is_unowned_whether_the_ledger_has_it_or_not() -> None:
    assert found(resource(), ledger=[piece()]).orphans == (resource(),)
    assert found(resource()).orphans == (resource(),)


def test_a_slice_that_is_about_to_be_started_is_neither_unowned_nor_missing() -> None:
    assert found(resource(), ledger=[piece()], starting=["s1"]) == Findings()
    assert found(ledger=[piece()], starting=["s1"]) == Findings()


def test_what_is_nowhere_is_missing_if_the_list_was_complete() -> None:
    assert found(ledger=[piece()]).missing == ("s1",)
    assert found(ledger=[piece()], complete=False) == Findings()
    assert found(ledger=[piece()], running=["s1"]) == Findings()
    assert found(resource(phase=Phase.GONE), ledger=[piece()]).missing == ("s1",)


def test_a_running_slice_unknown_to_the_ledger_is_unreported() -> None:
    assert found(resource(), running=["s1"]) == Findings(unreported=(resource(),))


def compared(
    *resources: Resource,
    ledger: Collection[Slice] = (),
    workflows: dict[str, SliceState] | None = None,
    **rest: Any,
) -> list[tuple[str, str]]:
    claims = {slice_id: Claim("small", state, HERE) for slice_id, state in (workflows or {}).items()}
    given = {"starting": (), "unlisted": (), "locations": {"small": HERE}} | rest
    told = differences(tuple(ledger), workflows=claims, resources=resources, **given)
    return [(one.kind, one.message) for one in told]


def test_agreement_has_no_differences() -> None:
    assert compared(resource(), ledger=[piece()], workflows={"s1": SliceState.READY}) == []


@pytest.mark.parametrize("state", [SliceState.REQUESTING, SliceState.DELETING])
def test_a_slice_on_its_way_or_leaving_is_no_difference(state: SliceState) -> None:
    assert compared(ledger=[piece(state=state)], workflows={"s1": state}) == []


def test_a_resource_that_is_being_deleted_by_its_slice_is_no_difference() -> None:
    leaving = SliceState.DELETING
    assert compared(resource(phase=Phase.DELETING), ledger=[piece(state=leaving)], workflows={"s1": leaving}) == []


def test_a_resource_without_a_workflow() -> None:
    assert compared(resource(), ledger=[piece()]) == [
        ("no_workflow", "resource s1-name (running) in sim/zone-a is ours, but no workflow looks after slice s1")
    ]


@pytest.mark.parametrize("state", [SliceState.BOOTING, SliceState.INITIALIZING, SliceState.READY, SliceState.DRAINING])
def test_a_slice_without_a_resource(state: SliceState) -> None:
    told = f"slice s1 is {state} in the ledger, but the cloud does not have it in sim/zone-a"
    assert compared(ledger=[piece(state=state)], workflows={"s1": state}) == [("no_resource", told)]


def test_slices_of_a_place_that_could_not_be_listed_are_not_missed() -> None:
    assert compared(ledger=[piece()], workflows={"s1": SliceState.READY}, unlisted=[HERE]) == []
    assert compared(ledger=[piece()], unlisted=[HERE]) == [
        ("no_workflow", "slice s1 is READY in the ledger, but no workflow looks after it")
    ]


def test_a_slice_that_only_the_ledger_knows() -> None:
    assert compared(ledger=[piece()]) == [
        ("nowhere", "slice s1 is READY in the ledger, but no workflow looks after it and the cloud does not have it")
    ]
    assert compared(ledger=[piece()], starting=["s1"]) == []


def test_a_workflow_that_the_ledger_does_not_know() -> None:
    assert compared(resource(), workflows={"s1": SliceState.READY}) == [
        ("not_in_ledger", "a workflow looks after slice s1 (READY), but it is not in the ledger")
    ]


def test_a_workflow_and_the_ledger_that_disagree() -> None:
    assert compared(resource(), ledger=[piece()], workflows={"s1": SliceState.INITIALIZING}) == [
        ("state", "the ledger has slice s1 as READY, its workflow as INITIALIZING")
    ]


def test_a_slice_that_the_cloud_took_away() -> None:
    assert compared(resource(phase=Phase.PREEMPTED), ledger=[piece()], workflows={"s1": SliceState.READY}) == [
        ("lost", "slice s1 is READY in the ledger, but preempted in the cloud")
    ]


def test_two_resources_of_one_slice() -> None:
    there = resource()._replace(location="sim/zone-b")
    told = compared(resource(), there, ledger=[piece()], workflows={"s1": SliceState.READY})
    assert told == [("doubled", "slice s1 has 2 resources: s1-name in sim/zone-a, s1-name in sim/zone-b")]


@pytest.mark.parametrize("known", [True, False])
def test_a_resource_that_only_carries_our_labels_is_foreign_and_says_nothing_of_the_slice(*, known: bool) -> None:
    copied = resource(name="copy")._replace(made=False)
    ours: dict[str, Any] = {"ledger": [piece()], "workflows": {"s1": SliceState.READY}}
    told = compared(resource(), copied, **ours) if known else compared(copied)
    assert told == [
        (
            "foreign",
            "resource copy (running) in sim/zone-a carries the labels of slice s1, but Penstock did not make it and never "
            "touches it: take the labels off, or delete it, in the cloud",
        )
    ]


def test_only_what_two_looks_agree_on_counts() -> None:
    claims = {"s1": Claim("small", SliceState.READY, HERE)}
    rest: dict[str, Any] = {"starting": (), "unlisted": (), "locations": {}, "workflows": claims}
    first = differences((piece(state=SliceState.BOOTING),), resources=[resource()], **rest)
    second = differences((piece(state=SliceState.INITIALIZING),), resources=[resource()], **rest)
    assert settled(first, second) == ()
    assert settled(first, first) == first


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ([resource(phase=Phase.PREEMPTED)], [], "no_resource"),
        ([resource(phase=Phase.PREEMPTED)], [resource(phase=Phase.DELETING)], "lost"),
    ],
)
def test_a_slice_that_the_cloud_took_away_is_a_difference_however_far_its_resource_is_gone(
    first: list[Resource], second: list[Resource], kind: str
) -> None:
    claims = {"s1": Claim("small", SliceState.READY, HERE)}
    rest: dict[str, Any] = {"starting": (), "unlisted": (), "locations": {}, "workflows": claims}
    before, after = (differences((piece(),), resources=resources, **rest) for resources in (first, second))
    assert settled(before, after) == after
    assert [one.kind for one in after] == [kind]


@pytest.mark.parametrize(("second", "kind"), [([resource(phase=Phase.BOOTING)], "no_workflow"), ([], "nowhere")])
def test_a_slice_that_nobody_looks_after_is_a_difference_whatever_its_resource_does(second: list[Resource], kind: str) -> None:
    rest: dict[str, Any] = {"starting": (), "unlisted": (), "locations": {}, "workflows": {}}
    first = [resource(phase=Phase.CREATING)]
    before, after = (differences((piece(),), resources=resources, **rest) for resources in (first, second))
    assert settled(before, after) == after
    assert [one.kind for one in after] == [kind]
