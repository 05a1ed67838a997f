"""Demand never drifts: it equals what the controller sent at the revision it claims, or asks for a snapshot."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.apply import replay
from penstock.core.events import DemandDelta, DemandSnapshot
from penstock.core.state import AutoscalerState, SourceDemand
from penstock.model.demand import Demand, Task, build_demand

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
Message = DemandSnapshot | DemandDelta


def demand_of(*names: str) -> Demand:
    return build_demand([Task.model_validate({"id": name, "resources": {"cpu": 1 + ord(name[0]) % 3}}) for name in names])


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
        added = tuple(f"{'abc'[(self.born + i) % 3]}{self.born + i}" for i in range(adds))
        self.born += adds
        self.tasks = [task for task in self.tasks if task not in removed] + list(added)
        self.revision += 1
        self.note()
        return delta(self.revision - 1, self.revision, add=added, remove=removed, epoch=self.epoch)

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
    state, late = AutoscalerState(), []
    for i, message in enumerate(sent):
        fate = fates[i] if i < len(fates) else "deliver"
        late += [message] if fate in ("late", "repeat") else []
        state = replay([] if fate in ("lose", "late") else [message], state)
        check(state, controller)
    check(replay(late, state), controller)


def check(state: AutoscalerState, controller: Controller) -> None:
    source = state.demand.get("default", SourceDemand())
    if source.resync_needed is None and source.epoch >= 0:
        assert waiting(source) == controller.truth[source.epoch, source.revision]
