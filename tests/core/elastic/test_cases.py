"""Cases from the studies of other autoscalers, in simulated time: slices that go, come back, and are not forgotten."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from penstock.contract.orders import Orders
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.answers.status import status_of
from penstock.core.decision.decide import decide
from penstock.core.state.events import AnyEvent, Decided
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.decision import Decision
from penstock.model.failures import Notice, NoticeKind
from penstock.model.slices import DrainCause, Slice, SliceState
from tests.core.elastic.hand import Hand
from tests.core.elastic.jobs import Job
from tests.core.elastic.world import World

GROUP: Mapping[str, Any] = {"name": "g", "zone": "a", "host": {"cpu": 4}, "max_slices": 9, "idle_timeout": "10m"}
IDLE_SECONDS, STARTUP_SECONDS, SOON_SECONDS = 600.0, 60.0, 30.0
"""The idle timeout; longer than the cloud takes to start a slice; longer than a change takes to reach slices and cloud."""


def groups(**facts: Any) -> dict[str, Any]:
    return {"groups": [{**GROUP, **facts}]}


def world_with(slices: int, **facts: Any) -> tuple[World, Hand, list[Slice]]:
    """A world with so many READY slices for the minimum, all of them idle, in the order in which they were made."""
    world = World(groups(**{"min_slices": slices} | facts))
    hand = Hand(world)
    world.run(STARTUP_SECONDS)
    ready = world.slices(SliceState.READY)
    assert len(ready) == slices
    hand.says("idle", *ready)
    world.run(SOON_SECONDS)
    return world, hand, ready


def ready_in(world: World) -> list[str]:
    """Slices that take work: READY, with no drain ordered."""
    return [piece.id for piece in world.slices(SliceState.READY) if not piece.drains]


def draining_in(world: World) -> list[Slice]:
    return [piece for piece in world.slices(SliceState.READY, SliceState.DRAINING) if piece.drains]


def launches_in(world: World) -> int:
    return sum(order.what == "launch" for order in world.checks.orders)


@pytest.fixture(autouse=True)
def nothing_is_wrong(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Whatever holds at every moment of any world holds in these."""
    worlds: list[World] = []
    begin = World.__init__

    def begin_and_note(world: World, *given: Any, **more: Any) -> None:
        worlds.append(world)
        begin(world, *given, **more)

    monkeypatch.setattr(World, "__init__", begin_and_note)
    yield
    assert [world.checks.problems for world in worlds] == [[] for _ in worlds]


def test_a21_idle_slices_go_after_the_idle_timeout_the_longest_idle_first_and_busy_ones_stay() -> None:
    pod = {"device": {"type": "tpu"}, "host": {"cpu": 8, "tpu": 2}, "hosts_per_slice": 4, "max_slices": 5}
    world = World(groups(**pod))
    hand = Hand(world)
    hand.wants(*(Job(name, cpu=1, tpu=2, gang=4) for name in "abc"))
    world.run(STARTUP_SECONDS)
    first, second, third = world.slices(SliceState.READY)
    hand.wants()
    hand.says("busy", first, second, third)
    world.run(40)
    hand.says("idle", second)
    world.run(100)
    hand.says("idle", third)
    world.run(490)
    assert ready_in(world) == [first.id, second.id, third.id]
    world.run(15)
    assert [(piece.id, piece.drain.cause) for piece in draining_in(world) if piece.drain] == [(second.id, DrainCause.IDLE)]
    hand.confirms(*draining_in(world))
    world.run(100)
    assert [piece.id for piece in draining_in(world)] == [third.id]
    hand.confirms(*draining_in(world))
    world.run(5000)
    assert ready_in(world) == list(world.cloud.existing()) == [first.id]
    assert world.checks.deleted == [second.id, third.id]


def test_s05_part_of_a_want_is_kept_and_the_rest_is_asked_for_again_after_the_stockout() -> None:
    world, _, _ = world_with(4)
    most = 0
    world.cloud.behave("a", stockout_after=1)
    for config in (groups(min_slices=6), groups(min_slices=6)):
        world.configure(config)
        world.run(1)
    for _ in range(60):
        world.run(5)
        most = max(most, len(world.cloud.existing()))
        if len(world.cloud.existing()) == 5 and world.state.blocks:
            world.cloud.heal()
    assert (len(ready_in(world)), most, launches_in(world)) == (6, 6, 7)


def test_s11_a_minimum_that_falls_while_slices_are_created_leaves_none_of_them_behind() -> None:
    world, _, ready = world_with(2)
    world.cloud.behave("a", create_latency=120)
    world.configure(groups(min_slices=6))
    world.run(SOON_SECONDS / 3)
    assert (len(world.cloud.existing()), len(ready_in(world))) == (6, 2)
    world.configure(groups(min_slices=2))
    world.run(IDLE_SECONDS / 2)
    assert {*ready_in(world)} == {*world.cloud.existing()} == {piece.id for piece in ready}
    assert (len(world.state.slices), launches_in(world)) == (2, 6)


NEEDS = {
    "the minimum": lambda world, hand, slices: world.configure(groups(min_slices=slices)),
    "demand": lambda world, hand, slices: hand.wants(*(Job(f"t{n}", cpu=4) for n in range(slices))),
}
"""Ways to need so many slices."""


def with_two_of_four_draining(need: str) -> tuple[World, Hand, list[Slice]]:
    """Four slices of which two drain, because nothing needs more than two; and the draining ones."""
    world, hand, _ = world_with(4)
    world.configure(groups(min_slices=2 if need == "the minimum" else 0))
    if need == "demand":
        NEEDS[need](world, hand, 2)
    world.run(IDLE_SECONDS)
    draining = draining_in(world)
    assert (len(draining), len(ready_in(world))) == (2, 2)
    return world, hand, draining


@pytest.mark.parametrize("need", NEEDS)
def test_s07_need_that_returns_before_anyone_confirmed_leaves_everything_as_it_was(need: str) -> None:
    world, hand, _ = with_two_of_four_draining(need)
    NEEDS[need](world, hand, 4)
    world.run(SOON_SECONDS)
    assert len(ready_in(world)) == 4
    assert (world.checks.deleted, launches_in(world)) == ([], 4)


@pytest.mark.parametrize("need", NEEDS)
def test_s07_of_two_drains_one_is_done_and_the_other_is_called_back_and_one_slice_is_made(need: str) -> None:
    world, hand, (first, second) = with_two_of_four_draining(need)
    hand.confirms(second)
    world.run(SOON_SECONDS)
    NEEDS[need](world, hand, 4)
    world.run(STARTUP_SECONDS + SOON_SECONDS)
    assert len(ready_in(world)) == len(world.cloud.existing()) == 4
    assert first.id in ready_in(world)
    assert (world.checks.deleted, launches_in(world)) == ([second.id], 5)


@pytest.mark.parametrize("need", NEEDS)
@pytest.mark.parametrize("seconds_late", [0.0, 0.5, 2.0, 5.0, 8.0, 30.0])
def test_s07_confirmations_that_come_while_need_returns_strand_nothing(need: str, seconds_late: float) -> None:
    """Each is either in time, so that the slice goes and another is made, or late, so that it stays."""
    world, hand, draining = with_two_of_four_draining(need)
    NEEDS[need](world, hand, 4)
    world.run(seconds_late)
    hand.confirms(*draining)
    world.run(2 * STARTUP_SECONDS)
    assert len(ready_in(world)) == len(world.state.slices) == len(world.cloud.existing()) == 4
    assert launches_in(world) == 4 + len(world.checks.deleted)


def test_s13_two_decreases_in_a_row_take_as_many_slices_as_they_say_together() -> None:
    world, hand, _ = world_with(6)
    world.run(IDLE_SECONDS)
    for least in (4, 3):
        world.configure(groups(min_slices=least))
        world.run(SOON_SECONDS)
    assert len(draining_in(world)) == 3
    hand.confirms(*draining_in(world))
    world.run(2 * IDLE_SECONDS)
    assert (len(world.checks.deleted), len(ready_in(world)), len(world.cloud.existing())) == (3, 3, 3)


def test_two_decreases_of_a_maximum_in_a_row_take_as_many_slices_as_they_say_together() -> None:
    world, hand, _ = world_with(6, max_slices=6)
    for most in (4, 3):
        world.configure(groups(min_slices=0, max_slices=most))
        world.run(2.0)
    world.run(SOON_SECONDS)
    assert {piece.drain.cause for piece in draining_in(world) if piece.drain} == {DrainCause.ABOVE_MAXIMUM}
    hand.confirms(*draining_in(world))
    world.run(SOON_SECONDS)
    assert (len(world.checks.deleted), len(ready_in(world))) == (3, 3)


def test_s15_of_an_idle_set_with_the_protected_head_all_but_the_head_go() -> None:
    world, hand, ready = world_with(3, protect_first=True)
    world.configure(groups(min_slices=1, protect_first=True))
    world.run(IDLE_SECONDS)
    assert [piece.id for piece in draining_in(world)] == [piece.id for piece in ready[1:]]
    hand.confirms(*draining_in(world))
    world.run(2 * IDLE_SECONDS)
    assert ready_in(world) == list(world.cloud.existing()) == [ready[0].id]


def test_b11_an_idle_slice_whose_deletion_fails_is_no_capacity_and_is_there_until_the_cloud_confirms() -> None:
    world, hand, (slice_,) = world_with(1, max_slices=1)
    world.cloud.behave("a", failing_deletes=1_000_000)
    world.configure(groups(min_slices=0, max_slices=1))
    world.run(IDLE_SECONDS)
    assert [piece.id for piece in draining_in(world)] == [slice_.id]
    hand.confirms(*draining_in(world))
    hand.wants(Job("t", cpu=4))
    world.run(2 * IDLE_SECONDS)
    assert (ready_in(world), list(world.cloud.existing()), launches_in(world)) == ([], [slice_.id], 1)
    world.cloud.heal()
    world.run(IDLE_SECONDS)
    assert world.checks.deleted == [slice_.id]
    assert (len(ready_in(world)), slice_.id in world.cloud.existing(), launches_in(world)) == (1, False, 2)


def test_a25_an_idle_slice_of_a_group_that_was_retired_before_a_reset_goes_and_gets_no_siblings() -> None:
    other = {**GROUP, "name": "old", "zone": "b", "idle_timeout": "1m"}
    world = World({"groups": [{**GROUP, "min_slices": 2}, {**other, "min_slices": 1}]})
    hand = Hand(world)
    world.run(STARTUP_SECONDS)
    (kept, lost), (old,) = (world.slices(SliceState.READY, group=name) for name in ("g", "old"))
    hand.says("busy", kept, lost, old)
    world.run(SOON_SECONDS)
    world.configure({"groups": [GROUP]})
    before = world.checkpoint()
    world.cloud.vanish(lost.id)
    world.reset(before, messages_again=True)
    world.run(IDLE_SECONDS)
    assert ready_in(world) == list(world.cloud.existing()) == [kept.id, old.id]
    hand.says("idle", old)
    world.run(2 * SOON_SECONDS)
    assert ready_in(world) == [kept.id, old.id]
    world.run(SOON_SECONDS)
    assert [piece.drain.cause for piece in draining_in(world) if piece.drain] == [DrainCause.GROUP_REMOVED]
    hand.confirms(*draining_in(world))
    world.run(IDLE_SECONDS)
    assert ready_in(world) == list(world.cloud.existing()) == [kept.id]
    assert launches_in(world) == 3


def test_n05_slices_that_were_ordered_before_their_pool_became_smaller_are_made_and_serve() -> None:
    def pooled(chips: int) -> dict[str, Any]:
        tpus = {**GROUP, "device": {"type": "tpu"}, "host": {"cpu": 4, "tpu": 4}, "pool": "res"}
        return {"pools": [{"name": "res", "chips": chips}], "groups": [tpus]}

    world = World(pooled(12))
    hand = Hand(world)
    hand.wants(*(Job(f"t{n}", cpu=1, tpu=4) for n in range(3)))
    world.run(SOON_SECONDS / 2)
    assert {piece.state.in_flight for piece in world.state.slices} == {True}
    world.configure(pooled(8))
    world.run(IDLE_SECONDS)
    assert (len(ready_in(world)), launches_in(world), world.checks.deleted) == (3, 3, [])
    hand.wants(*(Job(f"t{n}", cpu=1, tpu=4) for n in range(4)))
    world.run(IDLE_SECONDS)
    assert (len(ready_in(world)), launches_in(world)) == (3, 3)


class RecordedWorld(World):
    """A world that keeps every state that was decided on, as JSON, and the orders."""

    def note_event(self, before: AutoscalerState, event: AnyEvent, after: AutoscalerState) -> None:
        super().note_event(before, event, after)
        if isinstance(event, Decided):
            self.__dict__.setdefault("recorded", []).append((self.autoscaler.evaluated.model_dump_json(), event.orders))


def decided_again(recorded: str, at: Orders, config: ClusterConfig | None = None) -> Decision:
    """The decision on a recorded state at the recorded moment, perhaps with another configuration."""
    state = AutoscalerState.model_validate_json(recorded).model_copy(
        update={"now": at.at} | ({"config": config} if config else {})
    )
    return decide(snapshot_of(state).snapshot)


def test_d07_recorded_states_decided_again_give_the_same_decisions_and_another_configuration_a_difference() -> None:
    world = RecordedWorld({"groups": [{**GROUP, "idle_timeout": "2m"}, {**GROUP, "name": "h", "zone": "b", "priority": 200}]})
    controller = world.controller()
    for number in range(6):
        controller.submit(Job(f"{number}-{n}", cpu=4, seconds=200 * n) for n in range(number))
        world.run(300)
    recorded: list[tuple[str, Orders]] = world.__dict__["recorded"]
    assert len({orders.input_version for _, orders in recorded}) > 20
    exists = dict(world.cloud.existing())
    for state, orders in recorded:
        decision = decided_again(state, orders)
        assert decision == decided_again(state, orders)
        assert (decision.drains, decision.cancelled_drains, decision.unneeded) == (
            orders.drains,
            orders.cancelled_drains,
            orders.unneeded,
        )
        assert {launch.group: launch.slices for launch in decision.launches} == _counted(orders)
    other = ClusterConfig.model_validate({"cluster": "test", "groups": [{**GROUP, "max_slices": 1, "idle_timeout": "1m"}]})
    differing = [
        orders.at
        for state, orders in recorded
        if decided_again(state, orders, other).launches != decided_again(state, orders).launches
    ]
    assert differing
    assert world.cloud.existing() == exists


def _counted(orders: Orders) -> dict[str, int]:
    found: dict[str, int] = {}
    for launch in orders.launches:
        found[launch.group] = found.get(launch.group, 0) + 1
    return found


def test_d09_a_removed_group_gets_nothing_new_its_idle_slices_go_and_the_busy_one_after_its_task() -> None:
    world, hand, (first, second, third) = world_with(3)
    hand.says("busy", first)
    hand.wants(*(Job(f"t{n}", cpu=4) for n in range(5)))
    world.configure({"groups": [{**GROUP, "name": "other", "max_slices": 0}]})
    world.run(IDLE_SECONDS + SOON_SECONDS)
    assert {piece.id: piece.drain.cause for piece in draining_in(world) if piece.drain} == dict.fromkeys(
        (second.id, third.id), DrainCause.GROUP_REMOVED
    )
    hand.confirms(*draining_in(world))
    world.run(5 * IDLE_SECONDS)
    assert ready_in(world) == [first.id]
    hand.says("idle", first)
    world.run(IDLE_SECONDS + SOON_SECONDS)
    hand.confirms(*draining_in(world))
    world.run(SOON_SECONDS)
    assert (world.state.slices, world.cloud.existing(), launches_in(world)) == ((), {}, 3)
    assert [group.name for group in status_of(world.state).groups] == ["other"]


def test_a_controller_that_was_silent_for_hours_finds_its_slices_and_idle_time_counts_from_its_return() -> None:
    world, hand, (first, second) = world_with(2)
    world.configure(groups(min_slices=0))
    hand.says("busy", first)
    hand.is_silent = True
    world.run(5 * 3600)
    assert (ready_in(world), world.checks.deleted, launches_in(world)) == ([first.id, second.id], [], 2)
    hand.is_silent = False
    hand.beats()
    world.run(IDLE_SECONDS - SOON_SECONDS)
    assert ready_in(world) == [first.id, second.id]
    world.run(2 * SOON_SECONDS)
    assert [piece.id for piece in draining_in(world)] == [second.id]
    hand.confirms(*draining_in(world))
    world.run(SOON_SECONDS)
    assert ready_in(world) == list(world.cloud.existing()) == [first.id]


def test_busy_slices_that_drifted_are_replaced_one_after_the_other_and_no_work_is_lost() -> None:
    world = World(groups(max_slices=4))
    controller = world.controller()
    controller.moves = True
    controller.submit(Job(name, cpu=4, seconds=7200) for name in "abc")
    world.run(STARTUP_SECONDS)
    before = ready_in(world)
    world.configure(groups(max_slices=4, provider={"kind": "sim", "image": "b"}))
    most = 0
    for _ in range(120):
        world.run(5)
        most = max(most, len(world.cloud.existing()))
    assert (len(before), len(ready_in(world)), most) == (3, 3, 4)
    assert not set(before) & set(ready_in(world))
    assert world.checks.deleted == before
    assert sorted(controller.running) == ["a", "b", "c"]


def test_a_slice_that_drifted_outside_the_window_is_replaced_when_it_opens() -> None:
    world, _, (old,) = world_with(1)
    drifted = groups(min_slices=1, provider={"kind": "sim", "image": "b"}) | {"window": {"hours": "02:00-04:00"}}
    world.configure(drifted)
    world.run(3600)
    assert ready_in(world) == [old.id]
    world.run(3600 + STARTUP_SECONDS)
    assert [piece.drain.cause for piece in draining_in(world) if piece.drain] == [DrainCause.DRIFT]
    assert len(ready_in(world)) == 1


def test_work_on_a_slice_that_the_cloud_takes_finds_a_replacement_and_ends_with_the_slice_at_the_latest() -> None:
    world = World(groups(max_slices=2))
    controller = world.controller()
    controller.submit([Job("a", cpu=4, seconds=7200)])
    world.run(STARTUP_SECONDS)
    (old,) = ready_in(world)
    world.cloud.announce(old, Notice(kind=NoticeKind.MAINTENANCE, until=world.clock.now + timedelta(seconds=600)))
    world.run(300)
    assert (len(ready_in(world)), controller.running["a"].slices) == (1, {old})
    world.run(500)
    assert old not in world.cloud.existing()
    assert controller.running["a"].slices == set(ready_in(world))
