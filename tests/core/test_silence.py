"""Laws of silence: what nobody says never buys, over any simulated time, and demand that is held changes nothing for others."""

from datetime import timedelta
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.answers.evaluate import evaluate
from penstock.core.decision.decide import decide
from penstock.core.state.apply import apply
from penstock.core.state.events import Decided, SlicesReported, SlicesStarted
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import Cause
from penstock.model.demand import Workload
from penstock.model.runs import Run
from penstock.model.slices import SliceState
from penstock.model.snapshot import Snapshot, SourceTerms
from tests.core.decision.generators import SOURCES, snapshots
from tests.core.decision.test_laws import law
from tests.core.state.ledgers import cluster, later, report
from tests.core.state.test_sources import GRACE, wants


def of_one_shape(snapshot: Snapshot) -> Snapshot:
    """The snapshot with single tasks of its first shape only, so that fitting one task cannot keep out a larger one."""
    shapes = tuple(shape.model_copy(update={"gang": None}) for shape in snapshot.workload.shapes[:1])
    entries = sum(run.entries for run in snapshot.workload.runs if run.shape == 0)
    workload = Workload(shapes=shapes, runs=(Run(0, entries),) if entries else ())
    return snapshot.model_copy(update={"workload": workload, "standing": (), "sources": {}})


def bought(snapshot: Snapshot) -> int:
    """Slices that a decision launches for demand."""
    return sum(launch.slices for launch in decide(snapshot).launches if launch.cause is Cause.DEMAND)


@law
@given(snapshots())
def test_removing_all_usage_reports_never_launches_more_for_demand(snapshot: Snapshot) -> None:
    known = of_one_shape(snapshot)
    slices = tuple(piece.model_copy(update={"unclaimed": None}) for piece in known.slices)
    known = known.model_copy(update={"slices": slices})
    assert bought(known.model_copy(update={"usage": {}})) <= bought(known)


@law
@given(snapshots(), st.sampled_from(SOURCES), st.booleans())
def test_demand_that_may_buy_nothing_new_changes_nothing_of_what_is_launched(
    snapshot: Snapshot, source: str, restarted: bool
) -> None:
    """It is placed on what is left, so the launches are those without it, spares and all."""
    later_on, before = snapshot.now + timedelta(minutes=1), snapshot.now
    terms = SourceTerms(usage_due=later_on) if restarted else SourceTerms(lease_ends=before)
    held = snapshot.model_copy(update={"sources": snapshot.sources | {source: terms}})
    others = tuple(run for run in snapshot.workload.runs if run.source != source)
    without = held.model_copy(update={"workload": snapshot.workload.model_copy(update={"runs": others})})
    assert decide(held).launches == decide(without).launches


def carried_out(state: AutoscalerState, at: float, names: "count[int]") -> AutoscalerState:
    """The state after an evaluation at that moment, with every launched slice READY a second later."""
    orders = evaluate(state, now=later(at), chance=lambda: f"{next(names):08x}").orders
    state = apply(state, Decided(at=later(at), orders=orders))
    ids = tuple(launch.slice_id for launch in orders.launches)
    state = apply(state, SlicesStarted(at=later(at), slice_ids=ids))
    reports = tuple(report(i, SliceState.READY, 1, group=state.by_id[i].group, at=later(at + 1)) for i in ids)
    return apply(state, SlicesReported(at=later(at + 1), reports=reports))


@law
@given(
    st.integers(0, 3),
    st.integers(0, 3),
    st.none() | st.sampled_from((34, 50, 100)),
    st.integers(0, 8),
    st.sampled_from(("priority", "packing", "cost")),
    st.none() | st.sampled_from((60.0, 600.0)),
    st.lists(st.floats(1, 20 * GRACE), max_size=8),
)
def test_a_silent_controller_never_makes_the_number_of_slices_grow(
    least: int, warm: int, watermark: int | None, tasks: int, placement: str, lease: float | None, pauses: list[float]
) -> None:
    """What is bought at once for the demand, the minimum and the spares is all that there ever will be."""
    group = {"min_slices": least, "warm_slices": warm, "watermark": watermark, "max_slices": 50, "price_per_hour": 1.0}
    state = cluster(
        {"name": "g"} | group, {"name": "h", "priority": 200, "max_slices": 50, "price_per_hour": 2.0}, placement=placement
    )
    state = apply(state, wants(*(f"t{i}" for i in range(tasks)), lease=lease))
    names, at = count(), 0.0
    state = carried_out(state, at, names)
    first = len(state.slices)
    for pause in pauses:
        at += pause + 2
        state = carried_out(state, at, names)
        assert len(state.slices) == first


@pytest.mark.parametrize("graces", [1, 10, 1000])
def test_one_task_and_no_usage_buys_exactly_one_slice(graces: int) -> None:
    state, names = apply(cluster(), wants("t")), count()
    for number in range(graces):
        state = carried_out(state, number * GRACE, names)
    assert len(state.slices) == 1
