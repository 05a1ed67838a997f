"""Groups that leave the configuration and come back while their slices drain."""

from penstock.contract.slices import CancelDrainCommand
from penstock.core.answers.evaluate import evaluate
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import ConfigApplied, Decided, DrainOrdered, UsageReported
from penstock.core.state.state import AutoscalerState
from penstock.model.slices import DrainCause, DrainTerms, HostState, HostUsage, SliceState
from tests.core.state.ledgers import NOW, after_reports, cluster, config, confirmed, drains, later, ready, report, states

IDLE = (HostUsage(state=HostState.IDLE),)
REMOVED = ConfigApplied(at=later(10), config=config({"name": "other"}))
IDLE_TIMEOUT = 600


def decided(state: AutoscalerState, seconds: float) -> AutoscalerState:
    orders = evaluate(state, now=later(seconds), chance=lambda: "0badcafe").orders
    return apply(state, Decided(at=later(seconds), orders=orders))


def removed(state: AutoscalerState) -> AutoscalerState:
    """An idle slice that drains because its group is not configured any more."""
    idle = apply(ready(state), UsageReported(at=NOW, usage={"a": IDLE}))
    state = decided(apply(idle, REMOVED), IDLE_TIMEOUT + 10)
    assert drains(state)["a"].cause == DrainCause.GROUP_REMOVED
    return state


def back(state: AutoscalerState, **group: object) -> AutoscalerState:
    at = later(IDLE_TIMEOUT + 20)
    return apply(state, ConfigApplied(at=at, config=config({"name": "g"} | group)))


def test_a_group_that_returns_cancels_its_removal_drains_and_needs_no_second_slice() -> None:
    state = back(removed(cluster()), min_slices=1)
    assert drains(state) == {}
    assert state.outbox[-1] == CancelDrainCommand(slice_id="a", number=1)
    assert list(states(decided(state, IDLE_TIMEOUT + 21))) == ["a"]


def test_a_slice_that_already_drains_returns_to_ready_with_its_group() -> None:
    draining = after_reports(removed(cluster()), report("a", SliceState.DRAINING, 4, at=later(IDLE_TIMEOUT + 11)))
    state = back(draining, min_slices=1)
    assert (drains(state), state.by_id["a"].returning) == ({}, True)
    assert list(states(decided(state, IDLE_TIMEOUT + 21))) == ["a"]


def test_a_slice_that_its_controller_has_emptied_and_one_that_is_being_deleted_go_on_leaving() -> None:
    emptied = apply(removed(cluster()), confirmed("a", at=later(IDLE_TIMEOUT + 11)))
    deleting = after_reports(removed(cluster()), report("a", SliceState.DELETING, 4, at=later(IDLE_TIMEOUT + 11)))
    for state in (emptied, deleting):
        after = back(state)
        assert "a" in drains(after)
        assert after.outbox == state.outbox


def test_an_operators_drain_goes_on_when_the_group_returns() -> None:
    drained = DrainOrdered(at=later(11), slice_id="a", terms=DrainTerms(cause="operator"))
    state = replay([REMOVED, drained], ready(cluster()))
    assert drains(back(state)) == {"a": DrainTerms(cause="operator")}


def test_another_configuration_without_the_group_cancels_nothing() -> None:
    state = removed(cluster())
    again = ConfigApplied(at=later(IDLE_TIMEOUT + 20), config=config({"name": "third"}))
    assert drains(apply(state, again)) == drains(state)


# --- what a slice keeps of a removed group ---


def configured(state: AutoscalerState, **group: object) -> AutoscalerState:
    return apply(state, ConfigApplied(at=later(5), config=config({"name": "g"} | group)))


def drained_at(state: AutoscalerState, seconds: float) -> bool:
    """Whether the slice, idle since the beginning, drains by then once its group is removed."""
    state = apply(apply(state, UsageReported(at=NOW, usage={"a": IDLE})), REMOVED)
    return "a" in drains(decided(state, seconds))


def test_slices_of_a_removed_group_go_by_the_idle_timeout_they_were_made_under_not_by_a_later_one() -> None:
    changed = configured(ready(cluster({"name": "g", "idle_timeout": "2m"})), idle_timeout="20m")
    assert not drained_at(changed, 119)
    assert drained_at(changed, 120)
    again = configured(changed, idle_timeout="19m")
    assert drained_at(again, 120)


def test_a_slice_that_was_made_after_the_change_goes_by_the_new_timeout() -> None:
    changed = ready(configured(cluster({"name": "g", "idle_timeout": "2m"}), idle_timeout="20m"))
    assert not drained_at(changed, 1199)
    assert drained_at(changed, 1200)


def test_the_idle_timeout_of_a_configured_group_acts_on_all_its_slices() -> None:
    changed = configured(ready(cluster({"name": "g", "idle_timeout": "2m"})), idle_timeout="15m")
    idle = apply(changed, UsageReported(at=NOW, usage={"a": IDLE}))
    assert drains(decided(idle, 899)) == {}
    assert drains(decided(idle, 900))["a"].cause == DrainCause.IDLE


def test_nothing_is_kept_of_a_group_that_has_its_timeout_again_or_is_back() -> None:
    state = ready(cluster({"name": "g", "idle_timeout": "2m", "cancel_after": "1h"}))
    for changes in ({"idle_timeout": "20m"}, {"name": "other"}):
        changed = configured(state, **changes)
        left = changed.by_id["a"].left
        assert left is not None
        assert (left.idle_timeout_seconds, left.cancel_after_seconds) == (120, 3600)
        assert configured(changed, idle_timeout="2m").by_id["a"].left is None


def test_a_slice_of_a_group_that_came_back_with_another_timeout_still_knows_its_own() -> None:
    state = apply(ready(cluster({"name": "g", "idle_timeout": "2m"})), REMOVED)
    assert drained_at(configured(state, idle_timeout="20m"), 120)


def test_a_price_that_changed_before_the_group_was_removed_is_the_last_one() -> None:
    state = configured(ready(cluster({"name": "g", "idle_timeout": "2m", "price_per_hour": 1})), price_per_hour=3)
    left = apply(state, REMOVED).by_id["a"].left
    assert left is not None
    assert (left.price_per_hour, left.idle_timeout_seconds) == (3, 120)
