"""Ledger and slice agree about its drain once all messages have arrived, whatever happened and however they arrived."""

from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.slices import SliceCommand, SliceLifecycle, SliceReport
from penstock.core.slices.lifecycle import CommandReceived, LifecycleEvent, Overdue, Reported, advance, report_of
from penstock.core.state.apply import apply
from penstock.core.state.events import (
    AnyEvent,
    CommandsSent,
    DrainCancelled,
    DrainOrdered,
    RecoveryBegan,
    SlicesReported,
    UsageReported,
)
from penstock.core.state.specs import initial_lifecycle
from penstock.model.slices import DrainTerms, HostState, HostUsage, SliceState
from tests.core.state.ledgers import cluster, confirmed, later, ready

STEPS = (
    "drain", "force", "cancel", "confirm", "confirm late", "idle", "busy", "deadline",
    "deliver", "deliver twice", "deliver later", "report", "report again", "reset",
)  # fmt: skip


class World:
    """A ledger with one slice, its workflow, and the messages between them."""

    def __init__(self) -> None:
        self.state = ready(cluster())
        self.past = [self.state]
        started = initial_lifecycle(self.state, self.state.by_id["a"], self.state.now)
        assert started is not None
        self.slice: SliceLifecycle = started
        self.seconds = 0
        self.late: list[SliceCommand] = []
        self.reports: list[SliceReport] = []

    @property
    def now(self) -> datetime:
        self.seconds += 1
        return later(self.seconds)

    def apply(self, event: AnyEvent) -> None:
        self.state = apply(self.state, event)
        self.past.append(self.state)

    def advance(self, event: LifecycleEvent) -> None:
        self.slice = advance(self.slice, event)
        if self.slice.sequence > self.slice.reported:
            self.reports.append(report_of(self.slice))
            self.slice = advance(self.slice, Reported(event.at, self.slice.sequence))

    def deliver(self, *, times: int = 1, late: bool = False) -> None:
        """Send the first command, as often as the server delivers it; `late` if it arrives once more at another time."""
        for command in self.state.outbox[:1]:
            for _ in range(times):
                self.advance(CommandReceived(self.now, command))
            self.late += [command] if late else []
            self.apply(CommandsSent(at=self.now, commands=(command,)))

    def report(self, *, keep: bool = False) -> None:
        if self.reports:
            self.apply(SlicesReported(at=self.now, reports=(self.reports[0],)))
            self.reports = self.reports if keep else self.reports[1:]

    def step(self, name: str) -> None:
        piece = self.state.by_id.get("a")
        draining = piece is not None and piece.drains and piece.state is not SliceState.DELETING and not piece.confirmed_empty
        match name:
            case "drain" | "force" if piece is not None and piece.state is not SliceState.DELETING:
                self.apply(DrainOrdered(at=self.now, slice_id="a", terms=DrainTerms(cause="operator", force=name == "force")))
            case "cancel" if draining:
                self.apply(DrainCancelled(at=self.now, slice_id="a"))
            case "confirm" if piece is not None and piece.drain is not None:
                self.apply(confirmed("a", at=self.now, number=piece.drain.number))
            case "confirm late" if piece is not None and piece.drain is not None:
                self.apply(confirmed("a", at=self.now, number=piece.drain.number - 1))
            case "idle" | "busy":
                usage = (HostUsage(state=HostState(name)),)
                self.apply(UsageReported(at=self.now, usage={"a": usage}))
            case "deadline":
                self.advance(Overdue(self.now, SliceState.DRAINING))
            case "deliver" | "deliver twice" | "deliver later":
                self.deliver(times=2 if name == "deliver twice" else 1, late=name == "deliver later")
            case "report" | "report again":
                self.report(keep=name == "report again")
            case "reset":
                self.reset()

    def reset(self) -> None:
        """The autoscaler forgets half of what happened, and recovers from the word of the slice."""
        self.state = self.past[len(self.past) // 2]
        self.apply(RecoveryBegan(at=self.now, id="reset", reason="reset", run_id="run"))
        self.reports = [report_of(self.slice)]
        self.report()
        self.state = self.state.model_copy(update={"recovery": None})

    def settle(self) -> None:
        """Every message arrives, the late ones too."""
        for command in self.late:
            self.advance(CommandReceived(self.now, command))
        while self.state.outbox or self.reports:
            self.deliver()
            self.report()


@given(st.lists(st.sampled_from(STEPS), max_size=40))
def test_ledger_and_slice_agree_once_every_message_has_arrived(steps: list[str]) -> None:
    world = World()
    for name in steps:
        world.step(name)
    world.settle()
    piece = world.state.by_id["a"]
    assert piece.state is world.slice.state
    if piece.state is not SliceState.DELETING:
        assert (piece.drain, piece.returning) == (world.slice.drain, False)
        assert not piece.confirmed_empty
    if piece.state is SliceState.DRAINING:
        assert world.slice.idle == (piece.idle_since is not None)
