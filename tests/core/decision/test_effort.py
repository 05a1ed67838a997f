"""The work of one decision is bounded for any input, and it stops when nobody waits for it any more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.adversarial import CASES, Scale
from penstock.core.decision.decide import decide
from penstock.core.decision.effort import LOOK_EVERY, Effort, GivenUp
from penstock.core.decision.floors import STANDING_STEPS
from penstock.core.decision.group_bits import GroupBits
from penstock.core.decision.match import Matcher, exclusion, in_rank_order, requirement_exclusion, soft_satisfied
from penstock.model.cluster import Placement, ScaleGroup
from penstock.model.constraints import Constraint
from penstock.model.decision import Code
from penstock.model.shape import Shape
from penstock.model.snapshot import Snapshot
from tests.core.decision.generators import snapshots
from tests.core.decision.test_laws import carried_out, keys, law, opened

SMALL = Scale(tasks=200, slices=40, groups=12)
OWNERS = 100
"""Of standing requests that are all refused: each is tried on what the others left, which takes the longest of all."""
PLACEMENTS = tuple(Placement)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("case", CASES)
def test_a_decision_whose_work_is_used_up_places_or_explains_every_entry_all_the_same(case: str, placement: Placement) -> None:
    snapshot = CASES[case](SMALL._replace(tasks=OWNERS) if case == "standing/refused" else SMALL, placement)
    steps = Effort()
    full = decide(snapshot, steps)
    short = decide(snapshot, Effort(short_from=steps.spent // 3, most=steps.spent // 2))
    assert not short.thorough
    assert full.thorough
    told = [key for placed in short.placed for key in keys([placed.span])]
    told += [key for unmet in short.unmet for key in keys(unmet.spans)]
    assert sorted(told) == [(run, entry) for run, each in enumerate(snapshot.workload.runs) for entry in range(each.entries)]
    assert decide(snapshot, Effort(short_from=steps.spent // 3, most=steps.spent // 2)) == short


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("case", CASES)
def test_the_steps_bound_the_work_of_every_case(case: str, placement: Placement) -> None:
    """Whatever the input, a decision ends soon after its steps are used up: what follows grows with the input only."""
    snapshot = CASES[case](SMALL, placement)
    effort = Effort(short_from=0, most=0)
    decide(snapshot, effort)
    linear = len(snapshot.workload.shapes) + len(snapshot.workload.runs) + len(snapshot.slices)
    linear += sum(group.min_slices * group.hosts_per_slice for group in snapshot.config.groups)
    linear += len(snapshot.slices) * max(group.hosts_per_slice for group in snapshot.config.groups)
    constraints = sum(len(c.values) + 10 for shape in snapshot.workload.shapes for c in shape.constraints)
    standing = 2 * STANDING_STEPS if snapshot.standing else 0
    assert effort.spent < 500 * (linear + constraints) + standing


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("case", CASES)
def test_a_decision_that_nobody_waits_for_stops(case: str, placement: Placement) -> None:
    snapshot = CASES[case](SMALL._replace(tasks=2000), placement)
    effort = Effort(lambda: True)
    try:
        decide(snapshot, effort)
    except GivenUp:
        assert effort.spent < 10 * LOOK_EVERY
    else:
        assert effort.spent < LOOK_EVERY, "it was not asked whether anybody waits"


def test_entries_that_were_not_tried_say_so() -> None:
    snapshot, steps = CASES["gangs/pack/ready"](SMALL, Placement.PRIORITY), Effort()
    decide(snapshot, steps)
    decision = decide(snapshot, Effort(most=steps.spent // 2))
    assert Code.EFFORT_SPENT in {unmet.code for unmet in decision.unmet}
    assert all("as much work as one may do" in unmet.message for unmet in decision.unmet if unmet.code is Code.EFFORT_SPENT)


@law
@given(snapshots(), st.integers(0, 3))
def test_once_carried_out_a_decision_by_cheaper_methods_launches_nothing_more(snapshot: Snapshot, thousands: int) -> None:
    first = decide(snapshot, Effort(short_from=1000 * thousands))
    assert not opened(decide(carried_out(snapshot, first), Effort(short_from=1000 * thousands)))


VALUES = st.sampled_from(("a", "b", "1", 1, 2, 2.0, 1.5, True, "nan", "1e400", 10**400, -3))
OPERATORS = st.sampled_from(("eq", "ne", "in", "not_in", "exists", "not_exists", "gt", "ge", "lt", "le"))


@st.composite
def constraints(draw: st.DrawFn) -> Constraint:
    op = draw(OPERATORS)
    count = 0 if "exists" in op else draw(st.integers(1, 3)) if op in ("in", "not_in") else 1
    number = st.sampled_from((1, 1.5, "2", -3, "nan", "1e400", 10**400))
    values = draw(st.lists(number if op in ("gt", "ge", "lt", "le") else VALUES, min_size=count, max_size=count))
    return Constraint(attribute=draw(st.sampled_from(("x", "y", "zone", "none"))), op=op, values=values, soft=draw(st.booleans()))


@st.composite
def fleets(draw: st.DrawFn) -> list[ScaleGroup]:
    attributes = st.dictionaries(st.sampled_from(("x", "y")), VALUES)
    found = []
    for i in range(draw(st.integers(1, 6))):
        hosts, cpu, zone = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.sampled_from((None, "us-a", "us-b")))
        spot = draw(st.booleans())
        fields = {
            "attributes": draw(attributes),
            "hosts_per_slice": hosts,
            "host": {"cpu": cpu},
            "zone": zone,
            "preemptible": spot,
        }
        found.append(ScaleGroup(name=f"g{i}", max_slices=1, **fields))
    return in_rank_order(found)


@law
@given(fleets(), st.lists(constraints(), max_size=4), st.sampled_from((None, True, False)), st.integers(1, 6), st.integers(0, 4))
def test_groups_are_matched_as_a_set_as_each_of_them_would_be(
    groups: list[ScaleGroup], constraints: list[Constraint], preemptible: bool | None, cpu: int, gang: int
) -> None:
    fields = {"gang": {"size": gang}} if gang else {}
    shape = Shape(resources={"cpu": cpu}, constraints=tuple(constraints), preemptible=preemptible, **fields)
    matching = [g for g, group in enumerate(groups) if requirement_exclusion(shape, group) is None]
    assert GroupBits(groups).matching(shape) == sum(1 << g for g in matching)
    able = [g for g, group in enumerate(groups) if exclusion(shape, group) is None]
    assert Matcher(groups).candidates(shape).order == tuple(sorted(able, key=lambda g: (-soft_satisfied(shape, groups[g]), g)))
