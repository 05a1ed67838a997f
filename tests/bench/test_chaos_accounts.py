"""The accounting at the end of `make chaos`: each kind of fault is found on facts made by hand, and nothing else is."""

import pytest

from bench.chaos.accounts import Facts, Fault, Held, Made, beyond_maximum, findings, is_clean, orders

ONE = Made("small-1", "small", "c-small-1", exists=True)
GONE = ONE._replace(exists=False)
CLEAN = Facts(
    made=(ONE, Made("small-0", "small", "c-small-0", exists=False)),
    ledger={"small-1": "READY"},
    workflows={"small-1": "READY"},
    ordered=frozenset({"small-0", "small-1", "small-2"}),
    demand={"default": Held(frozenset({"t1"}), frozenset({"t1"}))},
)


def faults(facts: Facts, *, stolen: tuple[str, ...] = ()) -> list[tuple[Fault, str]]:
    return [(found.fault, found.subject) for found in findings(facts, stolen=stolen)]


def test_a_service_at_rest_has_no_fault_and_every_order_is_counted_once() -> None:
    assert findings(CLEAN) == ()
    assert is_clean(CLEAN)
    assert orders(CLEAN) == 3  # One of them never reached the cloud.


@pytest.mark.parametrize("first", [ONE, GONE])
def test_an_order_that_was_carried_out_twice_is_doubled(first: Made) -> None:
    assert faults(CLEAN._replace(made=(first, ONE))) == [(Fault.DOUBLED, "small-1")]


def test_a_resource_created_again_after_it_was_stolen_is_not_doubled_but_two_that_exist_are() -> None:
    assert faults(CLEAN._replace(made=(GONE, ONE)), stolen=(ONE.name,)) == []
    assert faults(CLEAN._replace(made=(ONE, ONE)), stolen=(ONE.name,)) == [(Fault.DOUBLED, "small-1")]


def test_a_group_beyond_its_maximum_is_doubled_and_resources_that_are_gone_do_not_count() -> None:
    assert beyond_maximum((ONE, GONE), {"small": 1}) == ()
    assert [found.fault for found in beyond_maximum((ONE, ONE), {"small": 1})] == [Fault.DOUBLED]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (CLEAN._replace(ledger={}, workflows={}), [(Fault.LEAKED, "small-1")]),
        (CLEAN._replace(ledger={}), [(Fault.LEAKED, "small-1"), (Fault.STUCK, "small-1")]),
        (CLEAN._replace(workflows={}), [(Fault.LEAKED, "small-1"), (Fault.LOST, "small-1")]),
        (CLEAN._replace(made=()), [(Fault.LOST, "small-1")]),
        (CLEAN._replace(demand={"default": Held(frozenset({"t1"}), frozenset())}), [(Fault.LOST, "demand of default")]),
        (CLEAN._replace(demand={"default": Held(frozenset(), frozenset({"t1"}))}), [(Fault.LOST, "demand of default")]),
        (CLEAN._replace(ledger={"small-1": "DELETING"}), [(Fault.STUCK, "small-1")]),
        (CLEAN._replace(workflows={"small-1": "DRAINING"}), [(Fault.STUCK, "small-1")]),
        (CLEAN._replace(waiting=2), [(Fault.STUCK, "demand")]),
        (CLEAN._replace(unlisted=("sim/a",)), [(Fault.STUCK, "sim/a")]),
        (CLEAN._replace(silent={"penstock/c": "no answer"}), [(Fault.WEDGED, "penstock/c")]),
        (CLEAN._replace(missing_foreign=("theirs",)), [(Fault.TOUCHED, "theirs")]),
        (CLEAN._replace(differences=(("nowhere", "small-9", "…"),)), [(Fault.LOST, "small-9")]),
        (CLEAN._replace(differences=(("not_in_ledger", "small-9", "…"),)), [(Fault.LEAKED, "small-9")]),
    ],
)
def test_each_fault_is_found_by_its_kind(facts: Facts, expected: list[tuple[Fault, str]]) -> None:
    assert faults(facts) == expected
    assert not is_clean(facts)


def test_what_verify_tells_of_a_slice_already_found_is_one_fault() -> None:
    facts = CLEAN._replace(made=(), differences=(("no_resource", "small-1", "…"),))
    assert faults(facts) == [(Fault.LOST, "small-1")]


def test_after_a_deletion_nothing_of_the_cluster_may_be_left() -> None:
    assert is_clean(Facts(made=(GONE,), ordered=frozenset({"small-1"})))
    assert faults(Facts(made=(ONE,))) == [(Fault.LEAKED, "small-1")]
    assert (Fault.STUCK, "small-1") in faults(Facts(workflows={"small-1": "READY"}))
