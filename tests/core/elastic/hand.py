"""A controller whose every word is in the test: it wants, says and confirms what it is told to, and sends heartbeats."""

from typing import Any

from penstock.contract import names
from penstock.model.slices import Slice
from tests.core.elastic.clock import Process
from tests.core.elastic.jobs import Job
from tests.core.elastic.world import World

HEARTBEAT_SECONDS = 300.0


class Hand:
    """The controller of one test."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.is_silent = False
        world.clock.start(self._beat())

    def _beat(self) -> Process:
        while True:
            yield HEARTBEAT_SECONDS
            if not self.is_silent:
                self.beats()

    def beats(self) -> None:
        """What it said last still holds."""
        self._world.send(names.REPORT, {})

    def wants(self, *jobs: Job) -> None:
        """These jobs wait, and no others."""
        self._world.send(names.DEMAND, {"tasks": [job.item for job in jobs]})

    def says(self, word: str, *slices: Slice) -> None:
        """Something of slices: that they are idle, or busy."""
        self._world.send(names.USAGE, {"usage": {piece.id: word for piece in slices}})

    def confirms(self, *slices: Slice) -> None:
        """That slices are empty, in the drains that they are in now."""
        drains: list[Any] = [{"slice_id": piece.id, "number": piece.drain.number} for piece in slices if piece.drain is not None]
        self._world.send(names.CONFIRM_DRAIN, {"slices": drains})
