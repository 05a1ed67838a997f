"""Money per hour by use and by group: every slice counts once, as what it is paid for now."""

from hypothesis import given

from penstock.contract.cost import CostByUse, Use
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.answers.status import status_of
from penstock.core.decision.decide import decide
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import ConfigApplied, DrainOrdered, UsageReported
from penstock.core.state.spending import idle_in, use_of
from penstock.core.state.state import AutoscalerState
from penstock.model.slices import DrainTerms, HostState, HostUsage, SliceState
from penstock.model.snapshot import Snapshot
from tests.core.decision.generators import snapshots
from tests.core.decision.test_laws import law
from tests.core.state.ledgers import NOW, after_reports, cluster, config, later, ordered, ready, report

IDLE, BUSY, DEGRADED = ((HostUsage(state=state),) for state in (HostState.IDLE, HostState.BUSY, HostState.DEGRADED))


def fleet() -> AutoscalerState:
    """One slice of each use, at ten an hour: a busy, b idle, c booting, d draining, e never reported, f requested."""
    state = cluster({"name": "g", "price_per_hour": 10})
    for slice_id in "abde":
        state = ready(state, slice_id)
    state = after_reports(ordered(state, "c", "f"), report("c", SliceState.BOOTING, 2))
    usage = {"a": BUSY, "b": IDLE, "d": IDLE}
    drained = DrainOrdered(at=NOW, slice_id="d", terms=DrainTerms(cause="idle"))
    return replay([UsageReported(at=NOW, usage=usage), drained], state)


def test_every_use_of_a_slice_is_told_apart_and_what_is_only_requested_costs_nothing_yet() -> None:
    status = status_of(fleet())
    assert status.cost == CostByUse(busy=10, idle=10, on_the_way=10, draining=10, unreported=10, requested=10)
    assert (status.cost.total, status.groups[0].cost, status.unpriced) == (50, status.cost, ())


def test_a_slice_with_a_degraded_host_is_busy_and_one_that_a_source_withdrew_is_unreported() -> None:
    state = ready(ready(cluster({"name": "g", "price_per_hour": 1}), "a"), "b")
    state = apply(state, UsageReported(at=NOW, usage={"a": DEGRADED, "b": IDLE}))
    assert status_of(state).cost == CostByUse(busy=1, idle=1)
    state = apply(state, UsageReported(at=NOW, usage={"a": DEGRADED}, complete=True))
    assert status_of(state).cost == CostByUse(busy=1, unreported=1)


def test_groups_are_told_apart_and_those_without_a_price_are_named() -> None:
    state = cluster({"name": "g", "price_per_hour": 3}, {"name": "free", "price_per_hour": 0}, {"name": "unknown"})
    state = after_reports(state, *(report(name, SliceState.READY, 1, group=name) for name in ("g", "free", "unknown")))
    status = status_of(state)
    assert {group.name: group.cost.total for group in status.groups} == {"g": 3, "free": 0, "unknown": 0}
    assert (status.cost.total, status.unpriced) == (3, ("unknown",))


def test_slices_of_a_removed_group_keep_its_last_price_also_in_a_decision() -> None:
    state = apply(fleet(), ConfigApplied(at=later(1), config=config({"name": "other"})))
    status, decided = status_of(state), decide(snapshot_of(state).snapshot).cost_per_hour
    (other, removed) = status.groups
    assert (other.cost.total, removed.cost.total, removed.configured) == (0, 50, False)
    assert (decided.before, decided.after, decided.unpriced) == (50, 60, ())


def test_never_reported_slices_and_those_that_did_not_join_cost_apart() -> None:
    state = ready(ready(ready(cluster({"name": "g", "price_per_hour": 2}), "a"), "b"), "c")
    state = apply(state, UsageReported(at=NOW, usage={"a": BUSY}))
    (unnamed, named, _) = (state.by_id[slice_id] for slice_id in "bca")
    lost = unnamed.changed(unclaimed=later(9))
    state = state.model_copy(update={"slices": (lost, named, state.by_id["a"])})
    (group,) = status_of(state).groups
    assert (group.unreported, group.unreported_cost_per_hour) == (1, 2)
    assert (group.unclaimed, group.unclaimed_cost_per_hour) == (1, 2)
    assert group.cost == CostByUse(busy=2, unreported=4)


@law
@given(snapshot=snapshots())
def test_law_the_uses_share_what_a_decision_says_the_existing_slices_cost(snapshot: Snapshot) -> None:
    idle = idle_in(snapshot.usage)
    uses = {piece.id: use_of(piece, snapshot.usage, idle) for piece in snapshot.slices}
    state = AutoscalerState(config=snapshot.config, slices=snapshot.slices, usage=snapshot.usage)
    cost, decided = status_of(state).cost, decide(snapshot).cost_per_hour
    assert abs(cost.total - decided.before) < 1e-4
    assert (Use.REQUESTED in uses.values()) >= (cost.requested > 0)
