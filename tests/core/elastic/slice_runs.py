"""The workflow of one slice in simulated time: create, follow sightings and commands, delete until gone, report every change."""

from collections.abc import Iterator

from penstock.contract.slices import SliceCommand, SliceLifecycle, SliceReport
from penstock.core.slices.lifecycle import (
    CommandReceived,
    CreateAnswered,
    DeletionConfirmed,
    LifecycleEvent,
    Observed,
    Overdue,
    Reported,
    advance,
    deadline_seconds,
    report_of,
)
from penstock.model.failures import Phase
from penstock.model.sightings import Sighting
from penstock.model.slices import SliceState
from tests.core.elastic.clock import Process, Within
from tests.core.elastic.cloud import Unavailable, ref_of
from tests.core.elastic.surroundings import Surroundings

CALL_SECONDS = 1.0
"""How long a call to the cloud takes."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0
"""Between repeated calls, doubled up to the longest."""


class SliceRun:
    """A slice from its order until the cloud confirms that it is gone and the autoscaler knows."""

    def __init__(self, world: Surroundings, lifecycle: SliceLifecycle) -> None:
        self._world = world
        self.lifecycle = lifecycle
        self._visit = 0
        self._visit_began = world.clock.now
        self._seen_gone = False
        self._resend_report = lifecycle.create_accepted or lifecycle.state is not SliceState.REQUESTING
        for process in (self._live(), self._keep_deadlines(), self._keep_reporting()):
            world.clock.start(process)

    @property
    def is_running(self) -> bool:
        """Whether the workflow takes messages."""
        return not self.lifecycle.state.ended or self._owes_a_report()

    def observe(self, sighting: Sighting) -> SliceReport:
        """A sighting arrives; the answer is the slice's report."""
        self._seen_gone = self._seen_gone or sighting.phase is Phase.GONE
        return self._answer(Observed(self._world.clock.now, sighting))

    def command(self, command: SliceCommand) -> SliceReport:
        """A command arrives; the answer is the slice's report."""
        return self._answer(CommandReceived(self._world.clock.now, command))

    def _answer(self, event: LifecycleEvent) -> SliceReport:
        self._apply(event)
        report = report_of(self.lifecycle)
        self._apply(Reported(self._world.clock.now, report.sequence))
        return report

    # The three loops.

    def _live(self) -> Process:
        yield from self._create()
        yield lambda: not self.lifecycle.state.live
        yield from self._delete()

    def _create(self) -> Process:
        while self.lifecycle.state is SliceState.REQUESTING and not self.lifecycle.create_accepted:
            for pause in _pauses():
                try:
                    result = self._world.cloud.create(self.lifecycle.spec)
                except Unavailable:
                    yield Within(lambda: not self.lifecycle.state.live, pause)
                    if not self.lifecycle.state.live:
                        return
                    continue
                yield CALL_SECONDS  # A call under way is waited for, whatever the slice is told meanwhile.
                self._wake_watch()
                self._apply(CreateAnswered(self._world.clock.now, result))
                break

    def _delete(self) -> Process:
        pauses = _pauses()
        while self.lifecycle.state is SliceState.DELETING:
            self._seen_gone = False
            yield CALL_SECONDS
            try:
                gone = self._world.cloud.delete(ref_of(self.lifecycle.spec))
            except Unavailable:
                gone = False
            self._wake_watch()
            if gone:
                self._apply(DeletionConfirmed(self._world.clock.now))
                return
            yield Within(lambda: self._seen_gone, next(pauses))

    def _keep_deadlines(self) -> Process:
        """One timer serves successive states, as in the workflow."""
        while self.lifecycle.state.live:
            visit, limit = self._visit, deadline_seconds(self.lifecycle)
            if limit is None:
                yield lambda: self._visit != visit  # noqa: B023 - awaited in this iteration
                continue
            left = limit - self._world.clock.seconds_since(self._visit_began)
            allows_less = yield Within(lambda: self._allows_less_than(limit), max(left, 0.001))  # noqa: B023
            if not allows_less and self._visit == visit:
                yield from self._judge(visit)

    def _judge(self, visit: int) -> Process:
        """A deadline passed. Look at the cloud once more; the deadline counts only if that does not move the slice."""
        state = self.lifecycle.state
        if self.lifecycle.create_accepted and state is not SliceState.DRAINING:
            yield CALL_SECONDS
            if self._visit == visit:
                self._apply(Observed(self._world.clock.now, self._world.cloud.observe(ref_of(self.lifecycle.spec))))
        if self._visit == visit:
            self._apply(Overdue(self._world.clock.now, state))

    def _keep_reporting(self) -> Process:
        while True:
            yield self._owes_a_report
            report, self._resend_report = report_of(self.lifecycle), False
            yield self._world.delay()
            self._world.hear_report(report)
            self._apply(Reported(self._world.clock.now, report.sequence))
            if self.lifecycle.state.ended and not self._owes_a_report():
                return

    def _wake_watch(self) -> None:
        watch = self._world.watches.get(self.lifecycle.spec.location.key)
        if watch is not None:
            watch.wake()

    def _owes_a_report(self) -> bool:
        return self._resend_report or self.lifecycle.sequence > self.lifecycle.reported

    def _allows_less_than(self, limit: float) -> bool:
        now = deadline_seconds(self.lifecycle)
        return now is None or now < limit

    def _apply(self, event: LifecycleEvent) -> None:
        before, self.lifecycle = self.lifecycle, advance(self.lifecycle, event)
        if _visit_of(before) != _visit_of(self.lifecycle):
            self._visit, self._visit_began = self._visit + 1, self._world.clock.now
        if before is not self.lifecycle:
            self._world.note_move(before, self.lifecycle)


def _visit_of(lifecycle: SliceLifecycle) -> tuple[object, ...]:
    """What has a deadline of its own: a state, time in a cloud's queue, a drain."""
    return lifecycle.state, lifecycle.queued, lifecycle.drain


def _pauses() -> Iterator[float]:
    pause = FIRST_PAUSE_SECONDS
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
