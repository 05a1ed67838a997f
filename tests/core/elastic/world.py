"""A whole cluster in simulated time, without Temporal: autoscaler, slices, watches, a cloud and a controller."""

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from pydantic_core import to_json

from penstock.contract import names
from penstock.contract.inventories import LocationReport
from penstock.contract.slices import SliceLifecycle, SliceReport, SliceReports
from penstock.core.state.events import AnyEvent
from penstock.core.state.state import AutoscalerState
from penstock.model.elasticity import Drive
from penstock.model.slices import Slice, SliceState
from tests.core.elastic.autoscaler import Autoscaler, Checkpoint
from tests.core.elastic.checks import Checks
from tests.core.elastic.clock import Clock
from tests.core.elastic.cloud import Cloud
from tests.core.elastic.controller import Controller
from tests.core.elastic.inventory import Watch
from tests.core.elastic.jobs import Size, size_of
from tests.core.elastic.queue_controller import QueueController
from tests.core.elastic.slice_runs import SliceRun

USUAL_CLOUD = {"create_latency": 5, "boot_latency": 20, "init_latency": 10, "delete_latency": 10}
"""Seconds that a healthy cloud takes."""
USUAL_RULES = {"look": "5s", "rest": "2m", "audit": "5m", "lost_misses": 2, "lost_after": "30s", "orphan_grace": "5m"}
"""Looks are rarer than by default, so that hours pass quickly."""


class World:
    """Everything that there is. Time passes only in `run`; whatever is said takes its time to arrive."""

    def __init__(self, config: Mapping[str, Any], *, seed: int = 0) -> None:
        self._random = Random(seed)
        self.clock = Clock()
        self.cloud = Cloud(self.clock)
        self.cloud.usual = self.cloud.usual.model_validate(USUAL_CLOUD)
        self.sizes: dict[str, Size] = {}
        self.driven: set[str] = set()
        self.queues: dict[str, QueueController] = {}
        self.runs: dict[str, SliceRun] = {}
        self.watches: dict[str, Watch] = {}
        self.message_seconds = 1.0
        """The longest that a message takes."""
        self.checks = Checks(self)
        self.autoscaler = Autoscaler(self, chance=lambda: f"{self._random.getrandbits(32):08x}")
        self.controllers: dict[str, Controller] = {}
        self.config: dict[str, Any] = {}
        """The configuration that was applied last."""
        self.configure(config)

    # Parts.

    @property
    def state(self) -> AutoscalerState:
        """The state of the autoscaler."""
        return self.autoscaler.state

    def controller(self, source: str = "controller") -> Controller:
        """The controller with this name; it begins to work when it is first asked for."""
        if source not in self.controllers:
            self.controllers[source] = Controller(self, source)
        return self.controllers[source]

    def queue(self, group: str) -> QueueController:
        """The controller of a group that pressure drives; it begins to work when it is first asked for."""
        if group not in self.queues:
            self.queues[group] = QueueController(self, group)
        return self.queues[group]

    # Time.

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.run(seconds)
        self.checks.look()

    # What people do.

    def configure(self, config: Mapping[str, Any]) -> None:
        """Apply a configuration; raises `BadMessage` if it is refused."""
        self.checks.look_at_limits()
        self.operate(names.APPLY_CONFIG, {"cluster": "test", "inventory": USUAL_RULES} | dict(config))
        self.config = dict(config)
        assert self.state.config is not None
        self.sizes |= {group.name: size_of(group) for group in self.state.config.groups}
        self.driven |= {group.name for group in self.state.config.groups if group.drive is Drive.PRESSURE}

    def operate(self, update: str, message: Mapping[str, Any]) -> None:
        """An operator's update; raises `BadMessage` if it is refused."""
        self.autoscaler.update(update, message)

    def checkpoint(self) -> Checkpoint:
        """A point to which the autoscaler can be reset."""
        return self.autoscaler.checkpoint()

    def reset(self, point: Checkpoint, *, messages_again: bool) -> None:
        """Reset the autoscaler to an earlier point."""
        self.checks.note_reset()
        self.autoscaler.reset(point, messages_again=messages_again)

    # Messages between the parts.

    def delay(self) -> float:
        """How long the next message takes, in seconds."""
        return self.message_seconds * self._random.uniform(0.05, 1.0)

    def send(self, name: str, message: Mapping[str, object]) -> None:
        """A controller sends the autoscaler a signal. The server keeps the signals of one sender in order."""
        raw = json.dumps(message).encode()
        self.clock.after(self.message_seconds, lambda: self.autoscaler.receive(name, raw))

    def hear_report(self, report: SliceReport) -> None:
        """The autoscaler receives the report of a slice."""
        self.autoscaler.receive(names.SLICES_REPORTED, to_json(SliceReports(reports=(report,))))

    def hear_location(self, report: LocationReport) -> None:
        """The autoscaler receives the report of an audit."""
        self.autoscaler.receive(names.LOCATION_REPORTED, to_json(report))

    def note_event(self, before: AutoscalerState, event: AnyEvent, after: AutoscalerState) -> None:
        """The state of the autoscaler changed."""
        self.checks.note_event(before, event, after)

    def note_read(self, before: AutoscalerState, after: AutoscalerState) -> None:
        """The autoscaler has read messages."""
        self.checks.note_read(before, after)

    def note_move(self, before: SliceLifecycle, after: SliceLifecycle) -> None:
        """The lifecycle of a slice changed."""
        self.checks.note_move(before, after)

    # What tests ask.

    def slices(self, *states: SliceState, group: str | None = None) -> list[Slice]:
        """The slices of the ledger in these states, or all, in the order in which they were ordered."""
        wanted = states or tuple(SliceState)
        return [piece for piece in self.state.slices if piece.state in wanted and group in (None, piece.group)]
