"""Demand never drifts: it equals what the controller sent at the revision it claims, or asks for a snapshot."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.state.apply import replay
from penstock.core.state.events import DemandDelta, DemandSnapshot
from penstock.core.state.revisions import apply_delta
from penstock.core.state.state import AutoscalerState, SourceDemand
from penstock.model.demand import Demand, Task
from penstock.model.demand_builder import build_demand, joined, without

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
Message = DemandSnapshot | DemandDelta


def task_of(name: str) -> Task:
    """A task named x1 is of the shape that x stands for; g1.0 is a member of the gang g1."""
    gang = {"id": name.split(".")[0], "size": 4} if "." in name else None
    return Task.model_validate({"id": name, "resources": {"cpu": 1 + ord(name[0]) % 3}, "gang": gang})


def demand_of(*names: str) -> Demand:
    return build_demand([task_of(name) for name in names])


def snapshot(revision: int, *names: str, epoch: int = 1, part: int = 1, parts: int = 1) -> DemandSnapshot:
    return DemandSnapshot(at=NOW, epoch=epoch, revision=revision, part=part, parts=parts, demand=demand_of(*names))


def delta(base: int, revision: int, *, add: tuple[str, ...] = (), remove: tuple[str, ...] = (), epoch: int = 1) -> DemandDelta:
    return DemandDelta(at=NOW, epoch=epoch, base=base, revision=revision, added=demand_of(*add), removed=remove)


def after(*messages: Message) -> SourceDemand:
    return replay(messages).demand["default"]


def waiting(source: SourceDemand) -> tuple[str, ...]:
    return source.demand.task_ids


def test_a_delta_on_its_base_is_applied() -> None:
    source = after(snapshot(1, "a", "b"), delta(1, 2, add=("c",), remove=("a",)))
    assert (waiting(source), source.revision, source.resync_needed) == (("b", "c"), 2, None)


def test_a_delta_on_another_base_asks_for_a_snapshot_and_changes_nothing() -> None:
    source = after(snapshot(1, "a"), delta(2, 3, add=("c",)))
    assert (waiting(source), source.revision) == (("a",), 1)
    assert source.resync_needed == "revision 3 builds on 2, but 1 is the latest here"


def test_a_snapshot_ends_the_resync() -> None:
    source = after(snapshot(1, "a"), delta(2, 3, add=("c",)), snapshot(3, "a", "c"))
    assert (waiting(source), source.revision, source.resync_needed) == (("a", "c"), 3, None)


def test_repeats_and_late_messages_are_ignored() -> None:
    source = after(snapshot(1, "a"), delta(1, 2, add=("b",)), delta(1, 2, add=("b",)), snapshot(1, "a"))
    assert (waiting(source), source.resync_needed) == (("a", "b"), None)


def test_a_new_epoch_begins_with_a_snapshot() -> None:
    source = after(snapshot(9, "a"), delta(1, 2, add=("b",), epoch=2))
    assert source.resync_needed == "epoch 2 began without a snapshot"
    assert waiting(after(snapshot(9, "a"), snapshot(0, "z", epoch=2))) == ("z",)


def test_a_message_of_an_old_epoch_is_ignored() -> None:
    source = after(snapshot(0, "z", epoch=2), delta(9, 10, add=("a",), epoch=1), snapshot(99, "q", epoch=1))
    assert (waiting(source), source.resync_needed) == (("z",), None)


def test_a_snapshot_in_parts_counts_once_all_have_come_in_any_order() -> None:
    parts = [snapshot(2, name, part=i, parts=3) for i, name in enumerate("abc", start=1)]
    assert waiting(after(snapshot(1, "x"), parts[2], parts[0])) == ("x",)
    assert waiting(after(snapshot(1, "x"), parts[2], parts[0], parts[0], parts[1])) == ("a", "b", "c")


def test_a_delta_on_a_snapshot_of_which_a_part_was_lost_asks_for_a_snapshot() -> None:
    source = after(snapshot(1, "x"), snapshot(2, "a", part=1, parts=2), delta(2, 3, add=("b",)))
    assert source.resync_needed is not None


def test_removing_an_unknown_task_or_adding_a_known_one_asks_for_a_snapshot() -> None:
    assert after(snapshot(1, "a"), delta(1, 2, remove=("b",))).resync_needed == (
        "revision 2 removes task b, which is not known here"
    )
    assert after(snapshot(1, "a"), delta(1, 2, add=("a",))).resync_needed == ("revision 2 adds task a, which is waiting already")


def test_a_gang_that_comes_in_pieces_is_one_entry_at_the_place_of_its_first_tasks() -> None:
    whole = demand_of("g.0", "a", "g.1", "g.2")
    by_delta = after(snapshot(1, "g.0", "a"), delta(1, 2, add=("g.1", "g.2")))
    by_parts = after(snapshot(1, "g.0", "a", part=1, parts=2), snapshot(1, "g.1", "g.2", part=2, parts=2))
    assert by_delta.demand == by_parts.demand == whole
    assert [entry.task_ids for entry in whole.entries()] == [("g.0", "g.1", "g.2"), ("a",)]


def test_a_gang_with_too_many_tasks_is_whole_again_once_one_is_gone() -> None:
    source = after(snapshot(1, *(f"g.{i}" for i in range(5))), delta(1, 2, remove=("g.4",)))
    assert [run.fault for run in source.demand.workload.runs] == [None]


def test_a_change_to_a_gang_whose_tasks_disagree_asks_for_a_snapshot() -> None:
    odd = task_of("g.1").model_copy(update={"preemptible": True})
    start = DemandSnapshot(at=NOW, epoch=1, revision=1, demand=build_demand([task_of("g.0"), odd]))
    source = after(start, delta(1, 2, remove=("g.1",)))
    assert source.resync_needed is not None
    assert "changes gang g, whose tasks disagree" in source.resync_needed


def test_a_resync_is_over_only_with_a_snapshot_as_new_as_what_was_heard() -> None:
    gap = (snapshot(5, "a"), delta(6, 7, add=("b",)))
    assert after(*gap, snapshot(5, "a")).resync_needed is not None
    late = after(*gap, snapshot(6, "a", "c"))
    assert (waiting(late), late.resync_needed is not None) == (("a", "c"), True)
    assert after(*gap, snapshot(7, "a", "b")).resync_needed is None
    other_epoch = after(snapshot(5, "a"), delta(1, 2, epoch=2), snapshot(6, "a", "c"))
    assert other_epoch.resync_needed == "epoch 2 began without a snapshot"


def test_an_older_snapshot_does_not_undo_the_parts_of_a_newer_one() -> None:
    parts = [snapshot(10, name, part=i, parts=2) for i, name in enumerate("ab", start=1)]
    assert waiting(after(parts[0], snapshot(8, "x"), parts[1])) == ("a", "b")
    assert after(snapshot(1, "x"), snapshot(2, "a", part=1, parts=2), delta(1, 3, add=("y",))).resync_needed is None


def test_sources_do_not_disturb_each_other() -> None:
    other = snapshot(5, "z").model_copy(update={"source": "other"})
    state = replay([snapshot(1, "a"), other, delta(7, 8, add=("b",))])
    assert {name: waiting(source) for name, source in state.demand.items()} == {"default": ("a",), "other": ("z",)}
    assert list(state.resync_needed) == ["default"]


@dataclass
class Controller:
    """A controller with the truth, that sends snapshots whole or in parts, and deltas, and restarts."""

    epoch: int = 0
    revision: int = 0
    tasks: list[str] = field(default_factory=list)
    born: int = 0
    truth: dict[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)

    def change(self, adds: int, removes: list[int]) -> DemandDelta:
        removed = tuple(dict.fromkeys(self.tasks[i % len(self.tasks)] for i in removes if self.tasks))
        added = tuple(self.name(self.born + i) for i in range(adds))
        self.born += adds
        self.tasks = [task for task in self.tasks if task not in removed]
        for task in added:
            self.tasks.insert(self.location_of(task), task)
        self.revision += 1
        self.note()
        return delta(self.revision - 1, self.revision, add=added, remove=removed, epoch=self.epoch)

    def location_of(self, task: str) -> int:
        """Behind the last task of its gang, or at the end."""
        mates = [i for i, other in enumerate(self.tasks) if "." in task and other.split(".")[0] == task.split(".")[0]]
        return mates[-1] + 1 if mates else len(self.tasks)

    @staticmethod
    def name(number: int) -> str:
        """Every other task belongs to a gang of four, whose tasks come one by one."""
        return f"g{number // 8}.{number // 2 % 4}" if number % 2 else f"{'abc'[number % 3]}{number}"

    def send_all(self, parts: int) -> list[DemandSnapshot]:
        self.note()
        pieces = [self.tasks[i * len(self.tasks) // parts : (i + 1) * len(self.tasks) // parts] for i in range(parts)]
        return [snapshot(self.revision, *piece, epoch=self.epoch, part=i, parts=parts) for i, piece in enumerate(pieces, start=1)]

    def restart(self) -> None:
        self.epoch += 1
        self.revision = 0
        self.note()

    def note(self) -> None:
        self.truth[self.epoch, self.revision] = tuple(self.tasks)


BASE = (*(f"{'abc'[n % 3]}{n}" for n in range(60)), *(f"g{n}.{k}" for n in range(10) for k in range(4)))
changes = st.lists(
    st.tuples(
        st.lists(st.sampled_from([f"new{n}" for n in range(9)] + [f"g{n}.{k}" for n in range(12) for k in range(6)]), max_size=3),
        st.lists(st.sampled_from([*BASE, "new1", "new2", "g11.1"]), max_size=3),
    ),
    max_size=12,
)


@given(changes)
def test_changes_beside_the_base_give_the_demand_that_they_give_in_it(changes: list[tuple[list[str], list[str]]]) -> None:
    source, whole = after(snapshot(0, *BASE)), demand_of(*BASE)
    for adds, removes in changes:
        removed = tuple(name for name in dict.fromkeys(removes) if name in whole.task_ids)
        added = tuple(name for name in dict.fromkeys(adds) if name not in whole.task_ids)
        source = apply_delta(source, delta(source.revision, source.revision + 1, add=added, remove=removed))
        whole = joined([without(whole, set(removed)), demand_of(*added), Demand()])
        assert source.resync_needed is None
        assert source.demand == whole
        assert (source.tasks, {name for name in (*BASE, "new1") if source.has(name)}) == (
            len(whole.task_ids),
            {name for name in (*BASE, "new1") if name in whole.task_ids},
        )
        assert SourceDemand.model_validate_json(source.model_dump_json()).demand == whole


def test_a_delta_of_a_large_demand_leaves_its_base_and_its_packed_columns_as_they_are() -> None:
    source = after(snapshot(1, *(f"a{n}" for n in range(1_000))))
    packed = source.model_dump(mode="json", by_alias=True)["demand"]
    changed = apply_delta(source, delta(1, 2, add=("b1", "b2"), remove=("a500",)))
    again = apply_delta(changed, delta(2, 3, add=("b3",), remove=("b1", "a7")))
    assert source.base is changed.base is again.base
    assert again.model_dump(mode="json", by_alias=True)["demand"]["task_ids"] is packed["task_ids"]
    assert (again.removed, again.added.task_ids, again.tasks) == (("a500", "a7"), ("b2", "b3"), 1_000)


def test_many_changes_become_a_new_base() -> None:
    source = after(snapshot(1, *(f"a{n}" for n in range(100))))
    changed = apply_delta(source, delta(1, 2, remove=tuple(f"a{n}" for n in range(50))))
    assert (len(changed.base.task_ids), changed.removed, changed.added.task_ids) == (50, (), ())


def test_a_gang_of_the_base_that_a_delta_completes_is_one_entry() -> None:
    source = after(snapshot(1, "g.0", *(f"a{n}" for n in range(100))))
    changed = apply_delta(source, delta(1, 2, add=("g.1",)))
    assert changed.demand.find("g.1") == changed.demand.find_gang("g")
    assert next(changed.demand.entries()).task_ids == ("g.0", "g.1")


steps = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.integers(0, 3), st.lists(st.integers(0, 9), max_size=2)),
        st.tuples(st.just("snapshot"), st.integers(1, 3), st.just([])),
        st.tuples(st.just("restart"), st.just(0), st.just([])),
    ),
    max_size=12,
)
fates = st.lists(st.sampled_from(["deliver", "deliver", "deliver", "lose", "repeat", "late"]), max_size=40)


@given(steps, fates)
def test_whatever_is_lost_repeated_or_late_demand_is_true_or_asks_for_a_snapshot(
    steps: list[tuple[str, int, list[int]]], fates: list[str]
) -> None:
    controller = Controller()
    sent: list[Message] = [*controller.send_all(1)]
    for kind, number, removes in steps:
        if kind == "change":
            sent.append(controller.change(number, removes))
        elif kind == "snapshot":
            sent += controller.send_all(number)
        else:
            controller.restart()
            sent += controller.send_all(1)
    state, late, delivered = AutoscalerState(), [], (-1, -1)
    for i, message in enumerate(sent):
        fate = fates[i] if i < len(fates) else "deliver"
        late += [message] if fate in ("late", "repeat") else []
        if fate not in ("lose", "late"):
            state, delivered = replay([message], state), max(delivered, (message.epoch, message.revision))
            check(state, controller, delivered)
    for message in late:
        state, delivered = replay([message], state), max(delivered, (message.epoch, message.revision))
        check(state, controller, delivered)


def check(state: AutoscalerState, controller: Controller, delivered: tuple[int, int]) -> None:
    """The demand is what the controller had at the newest revision delivered, or a resync is asked for, or parts are awaited."""
    source = state.demand["default"]
    assert source.latest == delivered
    if source.resync_needed is None and source.partial is None:
        assert source.stamp == delivered
        assert source.demand == demand_of(*controller.truth[delivered])
