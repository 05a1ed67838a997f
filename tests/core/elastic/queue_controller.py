"""A controller in simulated time that knows only queue lengths: it reports the pressure on its group and confirms drains."""

from datetime import datetime, timedelta

from penstock.contract import names
from penstock.model.slices import SliceState
from tests.core.elastic.clock import Process
from tests.core.elastic.surroundings import Surroundings

TICK_SECONDS = 10.0
HEARTBEAT_SECONDS = 100.0
SLOTS = 2
"""Tasks that one slice runs at a time."""


class QueueController:
    """The controller of one group that pressure drives. Its tasks have no names."""

    def __init__(self, world: Surroundings, group: str) -> None:
        self._world, self._group = world, group
        self.waiting: list[float] = []
        """How long each waiting task will run."""
        self.running: list[tuple[str, datetime]] = []
        """The slice of each running task, and when it ends."""
        self._sent: dict[str, int] = {}
        self._sent_at = world.clock.now - timedelta(days=1)
        self._confirmed: set[tuple[str, int]] = set()
        world.clock.start(self._loop())

    def busy(self, slice_id: str) -> bool:
        """Whether a task runs on the slice."""
        now = self._world.clock.now
        return any(owner == slice_id and until > now for owner, until in self.running) and self._world.cloud.runs(slice_id)

    def _loop(self) -> Process:
        while True:
            self._tick()
            yield TICK_SECONDS

    def _tick(self) -> None:
        now, cloud = self._world.clock.now, self._world.cloud
        lost = [(until - now).total_seconds() for owner, until in self.running if until > now and not cloud.runs(owner)]
        self.running = [(owner, until) for owner, until in self.running if until > now and cloud.runs(owner)]
        self.waiting += lost
        pieces = [piece for piece in self._world.state.slices if piece.group == self._group and piece.state.was_ready]
        ready = [piece.id for piece in pieces if piece.state is SliceState.READY and not piece.drains and cloud.runs(piece.id)]
        for slice_id in ready:
            for _ in range(SLOTS - sum(owner == slice_id for owner, _ in self.running)):
                if self.waiting:
                    self.running.append((slice_id, now + timedelta(seconds=self.waiting.pop(0))))
        self._confirm({(piece.id, piece.drain.number) for piece in pieces if piece.drain is not None})
        self._report(len(ready))

    def _confirm(self, draining: set[tuple[str, int]]) -> None:
        empty = sorted(each for each in draining - self._confirmed if not self.busy(each[0]))
        if empty:
            self._confirmed |= set(empty)
            confirmed = [{"slice_id": slice_id, "number": number} for slice_id, number in empty]
            self._world.send(names.CONFIRM_DRAIN, {"slices": confirmed})

    def _report(self, slices: int) -> None:
        """Send the queue's lengths, if they are news or the last are old."""
        said = {"queued": len(self.waiting), "running": len(self.running), "capacity": slices * SLOTS, "slices": slices}
        if said != self._sent or self._world.clock.seconds_since(self._sent_at) >= HEARTBEAT_SECONDS:
            self._sent, self._sent_at = said, self._world.clock.now
            self._world.send(names.PRESSURE, {"source": "queue", "pressure": {self._group: said}})
