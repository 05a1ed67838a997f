"""Sources of demand and usage over time: freshness, leases, epochs of restarted controllers, resync, and forgetting."""

from typing import Any

from penstock.core.answers.evaluate import evaluate
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.answers.status import status_of
from penstock.core.decision.decide import decide
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import (
    AnyEvent,
    Decided,
    DemandDelta,
    DemandSnapshot,
    RecoveryBegan,
    SourceForgotten,
    TimePassed,
    UsageReported,
)
from penstock.core.state.sources import heard_at, lease_end
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import Decision
from penstock.model.demand import Demand, Task
from penstock.model.demand_builder import build_demand
from penstock.model.slices import HostState, HostUsage, SliceUsage
from tests.core.state.ledgers import NOW, cluster, later, ready

IDLE: SliceUsage = (HostUsage(state=HostState.IDLE),)
GRACE = 120.0


def running(*tasks: str) -> SliceUsage:
    return (HostUsage(state=HostState.BUSY, tasks=tasks),)


def demand(*names: str, cpu: float = 4) -> Demand:
    return build_demand([Task.model_validate({"id": name, "resources": {"cpu": cpu}}) for name in names])


def wants(
    *names: str, at: float = 0, epoch: int = 1, revision: int = 1, lease: float | None = None, cpu: float = 4, **more: Any
) -> DemandSnapshot:
    stamp = {"epoch": epoch, "revision": revision}
    return DemandSnapshot(at=later(at), demand=demand(*names, cpu=cpu), lease_seconds=lease, **stamp, **more)


def says(at: float = 0, *, epoch: int | None = None, **usage: SliceUsage) -> UsageReported:
    """A usage report; without slices, a heartbeat."""
    revision = None if epoch is None else int(at)
    return UsageReported(at=later(at), epoch=epoch, revision=revision, usage=usage)


def decided(state: AutoscalerState, at: float) -> Decision:
    return decide(snapshot_of(apply(state, TimePassed(at=later(at)))).snapshot)


# --- freshness ---


def test_any_message_of_a_source_renews_all_it_said() -> None:
    state = replay([says(1, a=IDLE)], ready(cluster()))
    for at, event in ((50.0, says(50)), (60.0, wants("t", at=60)), (70.0, says(70, a=running("t")))):
        state = apply(state, event)
        assert heard_at(state, "default") == later(at)


def test_a_message_of_an_older_epoch_is_of_a_controller_that_is_gone_and_renews_nothing() -> None:
    state = replay([wants("t", epoch=5), wants("old", at=50, epoch=4)], cluster())
    assert heard_at(state, "default") == NOW


def test_the_status_shows_the_age_of_each_source_and_since_when_it_is_stale() -> None:
    state = replay([says(0, a=IDLE)], ready(cluster(usage_stale_after="20m")))
    fresh = status_of(state, now=later(1199)).usage["default"]
    assert (fresh.at, fresh.age_seconds, fresh.stale_since, fresh.slices) == (NOW, 1199, None, 1)
    assert status_of(state, now=later(1500)).usage["default"].stale_since == later(1200)
    assert status_of(state).usage_stale_after_seconds == 1200


def test_by_default_a_source_is_stale_after_three_idle_timeouts() -> None:
    assert status_of(cluster()).usage_stale_after_seconds == 1800


# --- leases ---


def test_demand_with_a_lease_buys_until_the_source_was_silent_for_so_long() -> None:
    state = apply(cluster(), wants("t", lease=600))
    assert decided(state, 599).launched() == {"g": 1}
    assert decided(state, 0).next_change_at == later(600)
    assert decided(state, 600).launched() == {}
    assert lease_end(apply(state, says(300)), "default") == later(900)


def test_a_snapshot_without_a_lease_ends_the_lease_and_a_delta_without_one_keeps_it() -> None:
    leased = apply(cluster(), wants("t", lease=600))
    more = DemandDelta(at=later(10), epoch=1, base=1, revision=2, added=demand("u"))
    assert lease_end(apply(leased, more), "default") == later(610)
    assert lease_end(apply(leased, wants("t", at=10, revision=2)), "default") is None


def test_a_message_after_the_lapse_is_reason_to_decide_again_and_one_before_it_is_not() -> None:
    state = apply(cluster(), wants("t", lease=600))
    early, late = apply(state, says(300)), apply(state, says(700))
    assert (early.input_version, late.input_version) == (state.input_version, state.input_version + 1)
    assert decided(late, 700).launched() == {"g": 1}


def test_the_status_tells_when_a_lease_lapses_and_that_nothing_is_bought() -> None:
    state = apply(cluster(), wants("t", lease=600))
    assert status_of(state, now=later(10)).demand["default"].lease_ends == later(600)
    assert status_of(state, now=later(10)).demand["default"].buys_nothing is None
    assert "lapsed at 2026-01-01 00:10:00Z" in (status_of(state, now=later(700)).demand["default"].buys_nothing or "")


# --- a controller that reports no usage, and tasks that run ---


def test_a_task_that_usage_shows_running_is_never_counted_twice() -> None:
    state = replay([wants("t", "u"), says(1, a=running("t"))], ready(cluster()))
    view = snapshot_of(state)
    assert view.demand.task_ids == ("u",)
    assert decide(view.snapshot).launched() == {"g": 1}


def test_a_controller_that_reports_no_usage_lists_its_task_until_it_ends_and_pays_for_one_slice() -> None:
    state = replay([wants("t")], ready(cluster()))
    assert all(decided(state, at).launched() == {} for at in (0, GRACE, 10 * GRACE, 86400))


# --- controllers that restart ---


def restarted(*events: AnyEvent) -> AutoscalerState:
    """A controller that reported a running task, began a new epoch, and lists the task as waiting again."""
    before: list[AnyEvent] = [wants("t"), says(1, epoch=1, a=running("t"))]
    return replay([*before, wants("t", at=100, epoch=2), *events], ready(cluster()))


def test_a_new_epoch_of_demand_makes_a_task_of_the_last_epoch_waiting_again() -> None:
    assert snapshot_of(restarted()).demand.task_ids == ("t",)


def test_a_restarted_controller_buys_nothing_until_its_first_usage_or_for_the_grace() -> None:
    state = restarted()
    held = decided(state, 100)
    assert (held.launched(), held.next_change_at) == ({}, later(100 + GRACE))
    assert "began a new epoch" in held.unmet[0].message
    assert decided(state, 100 + GRACE).launched() == {"g": 1}


def test_the_first_usage_of_the_new_epoch_says_what_runs_and_ends_the_wait() -> None:
    heard = restarted(says(110, epoch=2, a=running("t")))
    assert (snapshot_of(heard).demand.task_ids, decided(heard, 110).launched()) == ((), {})
    gone = restarted(says(110, epoch=2, a=IDLE))
    assert (decided(gone, 110).launched(), decided(gone, 110).placed[0].tier) == ({}, "ready")
    assert gone.input_version > restarted().input_version


def test_an_empty_report_of_the_new_epoch_says_nothing_about_usage() -> None:
    assert decided(restarted(says(110, epoch=2)), 110).launched() == {}
    assert decided(restarted(says(110, epoch=2)), 99 + GRACE).launched() == {}


def test_a_controller_that_never_reported_usage_buys_at_once_after_a_restart() -> None:
    state = replay([wants("t"), says(1), wants("t", "u", at=100, epoch=2)], cluster())
    assert decided(state, 100).launched() == {"g": 2}


def test_a_restart_of_one_source_leaves_the_running_tasks_of_others_alone() -> None:
    other = UsageReported(at=NOW, source="other", usage={"a": running("u")})
    state = replay([other], restarted())
    assert snapshot_of(state).demand.task_ids == ("t",)
    assert snapshot_of(apply(state, wants("u", source="other"))).demand.task_ids == ("t",)


def test_room_stays_as_last_said_when_a_controller_restarts() -> None:
    assert not decided(restarted(), 100).placed


# --- lost state ---


def lost(*events: AnyEvent) -> AutoscalerState:
    began = RecoveryBegan(at=later(10), id="r", reason="this run was reset")
    return replay([says(1, epoch=1, a=IDLE), began, *events], ready(cluster()))


def test_lost_state_needs_a_resync_of_usage_and_says_so() -> None:
    assert status_of(lost()).usage["default"].resync_needed == "this run was reset"
    assert status_of(lost(says(20, epoch=1, a=IDLE))).usage["default"].resync_needed


def test_usage_of_a_new_epoch_complete_usage_and_unnumbered_usage_end_the_resync() -> None:
    complete = UsageReported(at=later(20), epoch=1, revision=20, complete=True, usage={"a": IDLE})
    for event in (says(20, epoch=2, a=IDLE), complete, says(20, a=IDLE)):
        assert status_of(lost(event)).usage["default"].resync_needed is None


def test_a_source_that_never_reported_usage_needs_no_resync_of_it() -> None:
    state = replay([says(1), RecoveryBegan(at=later(10), id="r", reason="reset")], cluster())
    assert status_of(state).usage["default"].resync_needed is None


# --- forgetting ---


def test_a_forgotten_source_leaves_no_demand_and_no_word_on_slices() -> None:
    kept = UsageReported(at=NOW, source="kept", usage={"a": running("u")})
    state = replay([wants("t"), says(1, a=running("v")), kept, SourceForgotten(at=later(5), source="default")], ready(cluster()))
    assert (list(state.demand), list(state.usage_sources)) == ([], ["kept"])
    assert state.usage == {"a": running("u")}
    assert decided(state, 5).launched() == {}


# --- the state ---


def test_sources_survive_the_state_as_json_and_older_states_have_none_of_it() -> None:
    state = restarted(wants("u", at=120, source="leased", lease=60))
    assert AutoscalerState.model_validate_json(state.model_dump_json()) == state
    plain = state.model_dump(mode="json")
    for known in plain["usage_sources"].values():
        for field in ("reported", "groups", "began", "outdated", "restarted", "resync_needed"):
            del known[field]
    for known in plain["demand"].values():
        del known["lease_seconds"], known["at"]
    old = AutoscalerState.model_validate(plain)
    assert decided(old, 200).launched() == {"g": 1}


def test_launches_say_for_whose_demand_they_are() -> None:
    state = replay([wants("t", source="one"), wants("u", source="two")], cluster())
    orders = evaluate(state, now=NOW, chance=iter(("00000000", "00000001")).__next__).orders
    after = apply(state, Decided(at=NOW, orders=orders))
    assert [piece.source for piece in after.slices] == ["one", "two"]
