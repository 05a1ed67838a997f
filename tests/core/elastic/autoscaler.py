"""The autoscaler's workflow in simulated time: read messages, evaluate when due, launch, send commands, recover."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from penstock.contract.problems import BadMessage
from penstock.contract.slices import SliceCommand
from penstock.core.answers.evaluate import evaluate
from penstock.core.slices.lifecycle import report_of
from penstock.core.state.apply import apply
from penstock.core.state.events import (
    AnyEvent,
    CommandsSent,
    ConfigApplied,
    Decided,
    LaunchesDropped,
    Paused,
    RecoveryBegan,
    RecoveryWaited,
    ReportsCollected,
    Resumed,
    SlicesStarted,
)
from penstock.core.state.inbox import Received, fold
from penstock.core.state.specs import initial_lifecycle, locations_of
from penstock.core.state.state import AutoscalerState
from penstock.core.state.updates import read_update
from penstock.model.slices import Slice, SliceState
from tests.core.elastic.clock import BEGIN, Process, Task, Within
from tests.core.elastic.inventory import Watch
from tests.core.elastic.slice_runs import SliceRun
from tests.core.elastic.surroundings import Surroundings

STARTS_AT_ONCE = 5
RECOVERY_PATIENCE = 300.0
LONGEST_WAIT = 86_400.0
_UNDO_LAUNCHES = (Paused, Resumed, ConfigApplied)
"""After these events, launches that are not started yet are dropped and decided again."""


class Update(NamedTuple):
    """An update of an operator, as the history holds it."""

    name: str
    raw: bytes


class Checkpoint(NamedTuple):
    """A point to which the run can be reset: the state, and how much of the history is before it."""

    state: AutoscalerState
    messages: int


class Autoscaler:
    """One cluster's autoscaler: one state, changed by `apply` alone."""

    def __init__(self, world: Surroundings, chance: Callable[[], str]) -> None:
        self._world = world
        self._chance = chance
        self.state = AutoscalerState(now=world.clock.now)
        self.evaluated = self.state
        """What the last decision was made on."""
        self.evaluation_seconds = 0.5
        """How long an evaluation takes; what comes meanwhile is news to it."""
        self._history: list[Received | Update] = []
        self._inbox: list[Received] = []
        self._tasks: list[Task] = []
        self._resets = 0
        self._begin_run()

    # Messages.

    def receive(self, name: str, raw: bytes) -> None:
        """A signal arrives. It is read when the workflow runs next."""
        received = Received(name, raw, self._world.clock.now)
        self._inbox.append(received)
        self._history.append(received)

    def update(self, name: str, message: Mapping[str, Any]) -> None:
        """An update of an operator arrives, and is carried out after what came before; raises `BadMessage`."""
        update = Update(name, json.dumps(message).encode())
        self._carry_out(update)
        self._history.append(update)

    def _carry_out(self, update: Update) -> None:
        self._read()
        events = read_update(self.state, update.name, update.raw, self._world.clock.now).events
        for event in events:
            self._apply(event)
        if any(isinstance(event, _UNDO_LAUNCHES) for event in events):
            held = tuple(p.id for p in self.state.unstarted if p.is_launch and p.id not in self._being_started)
            if held:
                self._apply(LaunchesDropped(at=self._world.clock.now, slice_ids=held))

    # What happens to the run.

    def checkpoint(self) -> Checkpoint:
        """A point to reset to."""
        self._read()
        return Checkpoint(self.state, len(self._history))

    def continue_as_new(self) -> None:
        """Carry the state over into a new run, as JSON, once nothing is under way."""
        self._is_outgrown = True

    def reset(self, point: Checkpoint, *, messages_again: bool) -> None:
        """Go back to an earlier point. The server may deliver the messages since once more."""
        self._world.clock.stop(*self._tasks)
        again = self._history[point.messages :] if messages_again else []
        del self._history[point.messages :]
        self._inbox.clear()
        self.state = point.state
        self._begin_run()
        self._resets += 1
        number, now = self._resets, self._world.clock.now
        self._apply(RecoveryBegan(at=now, id=f"reset-{number}", reason="this run was reset", run_id=f"run-{number}"))
        for message in again:
            self._receive_again(message)

    def _receive_again(self, message: Received | Update) -> None:
        if isinstance(message, Received):
            self.receive(message.name, message.raw)
            return
        try:
            self._carry_out(message)
        except BadMessage:
            return
        self._history.append(message)

    def _begin_run(self) -> None:
        self._evaluated_inputs = -1
        self._pace_until = BEGIN
        self._deadline: datetime | None = None
        self._being_started: frozenset[str] = frozenset()
        self._is_outgrown = False
        self._recovering = ""
        self._tasks = [self._world.clock.start(self._keep_reading()), self._world.clock.start(self._loop())]

    # The loop.

    def _keep_reading(self) -> Process:
        while True:
            yield lambda: bool(self._inbox)
            self._read()

    def _read(self) -> None:
        batch, self._inbox[:] = list(self._inbox), []
        before, self.state = self.state, fold(self.state, batch)
        if batch:
            self._world.note_read(before, self.state)

    def _loop(self) -> Process:
        while True:
            self._begin_errands()
            yield from self._evaluate()
            yield from self._launch()
            yield from self._send_commands()
            if self._is_outgrown and not self._inbox:
                self.state = AutoscalerState.model_validate_json(self.state.model_dump_json())
                self._evaluated_inputs, self._pace_until, self._deadline, self._is_outgrown = -1, BEGIN, None, False
            yield Within(self._has_work, self._seconds_to_wake())

    def _evaluate(self) -> Process:
        """Evaluate the state as it is now; a newer configuration overtakes the evaluation."""
        if not self._is_due():
            return
        state, began = self.state, self._world.clock.now
        overtaken = yield Within(lambda: self.state.config_revision != state.config_revision, self.evaluation_seconds)
        if overtaken:
            return
        self.evaluated = state
        orders = evaluate(state, now=began, chance=self._chance).orders
        self._apply(Decided(at=self._world.clock.now, orders=orders))
        self._evaluated_inputs = orders.input_version
        assert self.state.config is not None
        now = self._world.clock.now
        self._pace_until = now + timedelta(seconds=self.state.config.evaluation.interval_seconds)
        left = orders.next_change_at - orders.at if orders.next_change_at is not None else None
        self._deadline = None if left is None else now + max(left, timedelta())

    def _launch(self) -> Process:
        while batch := self._startable()[:STARTS_AT_ONCE]:
            ids = tuple(piece.id for piece in batch)
            self._being_started = frozenset(ids)
            for piece in batch:
                self._start(piece)
            yield self._world.delay()
            self._being_started = frozenset()
            self._apply(SlicesStarted(at=self._world.clock.now, slice_ids=ids))

    def _start(self, piece: Slice) -> None:
        """Start the workflow of a slice. An adopted one may reuse the id of its earlier workflow, which has ended."""
        lifecycle = initial_lifecycle(self.state, piece, self._world.clock.now)
        known = self._world.runs.get(piece.id)
        if lifecycle is None or (known is not None and (known.is_running or not piece.adopted)):
            return
        self._world.runs[piece.id] = SliceRun(self._world, lifecycle)

    def _send_commands(self) -> Process:
        while commands := self._deliverable():
            known = [command for command in commands if command.slice_id in self.state.by_id]
            yield self._world.delay()
            for command in known:
                self._send(command)
            yield self._world.delay()
            self._apply(CommandsSent(at=self._world.clock.now, commands=commands))

    def _send(self, command: SliceCommand) -> None:
        run = self._world.runs.get(command.slice_id)
        if run is not None and run.is_running:
            report = run.command(command)
            self._world.clock.after(self._world.delay(), lambda: self._world.hear_report(report))

    # Errands beside the loop.

    def _begin_errands(self) -> None:
        """Watch every location, and collect what a recovery awaits."""
        state, recovery = self.state, self.state.recovery
        for location in locations_of(state.config) if state.config else ():
            if location.key not in self._world.watches:
                self._world.watches[location.key] = Watch(self._world, location)
        if recovery is None or recovery.id == self._recovering:
            return
        self._recovering = recovery.id
        for key in recovery.waiting:
            self._world.watches[key].audit_for(recovery.id)
        self._tasks.append(self._world.clock.start(self._collect_reports(recovery.id)))
        self._tasks.append(self._world.clock.start(self._wait_for_recovery(recovery.id)))

    def _collect_reports(self, recovery: str) -> Process:
        """Every slice reports whose workflow runs, or ended well and is in the ledger."""
        yield self._world.delay()
        for slice_id, run in self._world.runs.items():
            ended = run.lifecycle.state is SliceState.TERMINATED and slice_id in self.state.by_id
            if run.is_running or ended:
                self._world.hear_report(report_of(run.lifecycle))
        self._read()
        self._apply(ReportsCollected(at=self._world.clock.now, id=recovery))

    def _wait_for_recovery(self, recovery: str) -> Process:
        yield RECOVERY_PATIENCE
        if self.state.recovery is not None and self.state.recovery.id == recovery:
            self._apply(RecoveryWaited(at=self._world.clock.now, id=recovery))

    # Conditions.

    def _startable(self) -> tuple[Slice, ...]:
        state = self.state
        return state.unstarted if state.paused is None else tuple(piece for piece in state.unstarted if piece.adopted)

    def _deliverable(self) -> tuple[SliceCommand, ...]:
        """The first command to each slice whose workflow runs."""
        first = {command.slice_id: command for command in reversed(self.state.outbox)}
        waiting = {piece.id for piece in self.state.unstarted}
        return tuple(command for slice_id, command in first.items() if slice_id not in waiting)

    def _has_work(self) -> bool:
        recovery = self.state.recovery
        errands = recovery is not None and recovery.id != self._recovering
        return bool(errands or self._is_outgrown or self._startable() or self._deliverable() or self._is_due())

    def _is_due(self) -> bool:
        state, now = self.state, self._world.clock.now
        if state.config is None or state.is_held or state.paused is not None or now < self._pace_until:
            return False
        return state.input_version > self._evaluated_inputs or (self._deadline is not None and now >= self._deadline)

    def _seconds_to_wake(self) -> float:
        now = self._world.clock.now
        moments = [moment for moment in (self._pace_until, self._deadline) if moment is not None and moment > now]
        return min([(moment - now).total_seconds() for moment in moments], default=LONGEST_WAIT)

    def _apply(self, event: AnyEvent) -> None:
        before, self.state = self.state, apply(self.state, event)
        self._world.note_event(before, event, self.state)
