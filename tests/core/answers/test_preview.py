"""What a configuration would do if it were applied, as the difference between two decisions."""

from penstock.contract.answers import DrainSummary
from penstock.contract.effects import BlockEffect, Effects, LaunchEffect, OutdatedEffect, UnmetEffect
from penstock.core.answers.evaluate import evaluate
from penstock.core.answers.preview import preview
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import ConfigApplied, Decided, DemandSnapshot, Paused, TimePassed, UsageReported
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.demand import Task
from penstock.model.demand_builder import build_demand
from penstock.model.slices import DrainCause, HostState, HostUsage
from tests.core.state.ledgers import NOW, cluster, config, later, ordered, ready

IDLE = (HostUsage(state=HostState.IDLE),)
BUSY = (HostUsage(state=HostState.BUSY),)


def effects(state: AutoscalerState, wanted: ClusterConfig, seconds: float = 0) -> Effects:
    return preview(apply(state, TimePassed(at=later(seconds))), wanted, later(seconds))


def demanding(state: AutoscalerState, tasks: int) -> AutoscalerState:
    """A state with demand of whole hosts."""
    demand = build_demand([Task.model_validate({"id": f"t{n}", "resources": {"cpu": 4}}) for n in range(tasks)])
    return apply(state, DemandSnapshot(at=NOW, epoch=1, revision=1, demand=demand))


def idle(*slice_ids: str) -> AutoscalerState:
    state = cluster()
    for slice_id in slice_ids:
        state = ready(state, slice_id)
    return apply(state, UsageReported(at=NOW, usage=dict.fromkeys(slice_ids, IDLE)))


def named(found: tuple[DrainSummary, ...]) -> list[str]:
    return [each.slice for each in found]


def test_what_happens_anyway_is_no_effect() -> None:
    state = demanding(cluster(), 2)
    found = effects(state, config({"name": "g", "patience": "5m"}))
    assert not found.differ
    assert found.unmet == UnmetEffect(before=0, after=0)


def test_launches_are_those_of_the_first_decision_with_it() -> None:
    found = effects(demanding(cluster(), 2), config({"name": "g", "warm_slices": 1, "price_per_hour": 2}))
    assert found.launches == (LaunchEffect(group="g", before=2, after=3),)
    assert (found.cost_per_hour_before, found.cost_per_hour_after) == (0, 6)


def test_demand_that_it_could_not_place_is_counted_and_its_groups_are_blocked() -> None:
    found = effects(demanding(cluster(), 2), config({"name": "g", "max_slices": 1}))
    assert found.launches == (LaunchEffect(group="g", before=2, after=1),)
    assert found.unmet == UnmetEffect(before=0, after=1)
    assert [item.group for item in found.blocked] == ["g"]
    assert found.blocked[0].reason.startswith("at_max")


def test_launches_that_a_limit_would_defer_are_told_with_the_reason() -> None:
    found = effects(demanding(cluster(), 3), config({"name": "g", "price_per_hour": 4}, max_cost_per_hour=5))
    assert found.launches == (LaunchEffect(group="g", before=3, after=1),)
    (blocked,) = found.blocked
    assert blocked == BlockEffect(group="g", reason=blocked.reason)
    assert "2 deferred: the cluster limits its cost per hour to 5.00" in blocked.reason


def test_slices_above_a_lower_maximum_drain_and_those_on_their_way_are_called_off() -> None:
    state = ordered(idle("a", "b"), "c")
    found = effects(state, config({"name": "g", "max_slices": 1}))
    assert (named(found.drains), named(found.called_off)) == (["a"], ["c"])
    assert found.drains[0].cause == "above maximum"


def test_a_shorter_idle_timeout_drains_and_a_minimum_spares() -> None:
    state = idle("a", "b")
    shorter = config({"name": "g", "idle_timeout": "1m"})
    assert named(effects(state, shorter, 120).drains) == ["a", "b"]
    spared = effects(state, config({"name": "g", "min_slices": 1}), 700)
    assert (len(spared.spared), spared.drains) == (1, ())


def test_observing_spares_what_would_drain() -> None:
    assert named(effects(idle("a"), config(scale_down="observe"), 700).spared) == ["a"]


def test_a_drain_that_its_decision_takes_back_is_cancelled() -> None:
    state = apply(idle("a"), TimePassed(at=later(700)))
    orders = evaluate(state, now=later(700), chance=lambda: "0" * 8).orders
    state = replay([Decided(at=later(700), orders=orders), UsageReported(at=later(701), usage={"a": IDLE})], state)
    assert [piece.id for piece in state.draining] == ["a"]
    found = effects(state, config({"name": "g", "min_slices": 1}), 702)
    assert (named(found.cancelled), found.launches) == (["a"], ())


def test_slices_of_a_removed_group_are_counted() -> None:
    found = effects(idle("a", "b"), config({"name": "other"}))
    assert (found.removed, found.drains) == ({"g": 2}, ())


def busy(*slice_ids: str) -> AutoscalerState:
    """Slices that are READY and busy, as their group makes them."""
    return apply(idle(*slice_ids), UsageReported(at=NOW, usage=dict.fromkeys(slice_ids, BUSY)))


def test_slices_that_it_makes_outdated_are_counted_in_all_with_how_many_go_at_a_time_and_when() -> None:
    made = {piece.id: config().groups[0].fingerprint for piece in busy("a", "b", "c").slices}
    state = busy("a", "b", "c")
    state = state.model_copy(update={"slices": tuple(piece.changed(fingerprint=made[piece.id]) for piece in state.slices)})
    renewed = {"name": "g", "provider": {"kind": "sim", "image": "new"}, "max_unavailable": 2}
    found = effects(state, config(renewed))
    assert found.differ
    drift = OutdatedEffect(group="g", cause=DrainCause.DRIFT, before=0, after=3, at_once=1)
    assert found.outdated == (drift,), "the cluster's max_unavailable is 1"
    (half,) = effects(state, config(renewed, max_unavailable="50%", window={"hours": "02:00-04:00"})).outdated
    assert half == drift.model_copy(update={"at_once": 2, "opens_at": later(2 * 3600)})
    assert effects(state, config(renewed, replace_drifted=False)).outdated == ()
    drifted = apply(state, ConfigApplied(at=NOW, config=config(renewed)))
    assert effects(drifted, config(renewed | {"priority": 7})).outdated == (), "they are outdated anyway"
    (settled,) = effects(drifted, config()).outdated
    assert (settled.before, settled.after) == (3, 0)


def test_a_paused_cluster_says_that_nothing_is_carried_out() -> None:
    state = apply(demanding(cluster(), 1), Paused(at=NOW, reason="moving"))
    found = effects(state, config({"name": "g", "warm_slices": 1}))
    assert found.held is not None
    assert "paused (moving)" in found.held
    assert found.launches == (LaunchEffect(group="g", before=1, after=2),)
