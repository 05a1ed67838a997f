"""What must hold in a simulated world at every moment, and at rest. Each breach is a sentence in `problems`."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from penstock.contract.slices import SliceLifecycle
from penstock.core.state.events import AnyEvent, Decided
from penstock.core.state.sources import has_lapsed, heard_at
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.decision import Drain
from penstock.model.slices import DrainCause, DrainTerms, Slice, SliceState
from tests.core.elastic.clock import Process
from tests.core.elastic.disruptions import REPLACING, judge_budget, judge_disruption, judge_replacements

if TYPE_CHECKING:
    from tests.core.elastic.world import World

LOOK_SECONDS = 30.0
"""How often durations are measured."""
MARGIN_SECONDS = 120.0
"""How long something may last that messages, reports and looks at the cloud put right."""


class Order(NamedTuple):
    """A launch or drain that a decision ordered, and why."""

    at: datetime
    what: str
    group: str
    cause: str


class Checks:
    """Everything that was found wrong with a world, and what was ordered in it."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.problems: list[str] = []
        self.orders: list[Order] = []
        self.deleted: list[str] = []
        """Slices that were deleted without a failure, in order."""
        self._since: dict[tuple[str, str], datetime] = {}
        """Since when each passing disagreement lasts."""
        self._busy_word_since: dict[str, datetime] = {}
        self._last: dict[str, int] = {}
        """Slices of each group and of the cluster, and chips of each pool, at the last look."""
        self._charges: dict[str, tuple[str | None, int]] = {}
        """The pool of each slice, and the chips that it charges to it."""
        world.clock.start(self._keep_looking())

    def _keep_looking(self) -> Process:
        while True:
            self.look()
            yield LOOK_SECONDS

    def report(self, problem: str) -> None:
        """Note a breach once."""
        line = f"{self._world.clock.now:%H:%M:%S} {problem}"
        if problem not in {known.partition(" ")[2] for known in self.problems}:
            self.problems.append(line)

    # What is noted as it happens.

    def note_read(self, before: AutoscalerState, after: AutoscalerState) -> None:
        """Remember since when the last word on each slice is that it works."""
        busy = {slice_id for slice_id, hosts in after.usage.items() if not all(host.idle for host in hosts)}
        now = self._world.clock.now
        self._busy_word_since = {slice_id: self._busy_word_since.get(slice_id, now) for slice_id in sorted(busy)}

    def note_event(self, before: AutoscalerState, event: AnyEvent, after: AutoscalerState) -> None:
        """Judge the drains that a decision begins."""
        if not isinstance(event, Decided):
            return
        self.look_at_limits()
        ordered = {drain.slice_id: drain for drain in event.orders.drains}
        for piece in after.slices:
            known = before.by_id.get(piece.id)
            if known is None:
                self.orders.append(Order(event.at, "launch", piece.group, piece.cause))
            elif known.drain is None and piece.drain is not None:
                self.orders.append(Order(event.at, "drain", piece.group, piece.drain.cause))
                self._judge_drain(before, known, ordered[piece.id], event, after)
        self._judge_orders(before, event, after)

    def _judge_orders(self, before: AutoscalerState, event: Decided, after: AutoscalerState) -> None:
        """Judge what a decision orders together."""
        now = [order for order in self.orders if order.at == event.at]
        launched = {order.group for order in now if order.what == "launch"}
        given_back = {order.group for order in now if order.what == "drain" and order.cause not in REPLACING}
        for group in sorted(launched & given_back):
            self.report(f"group {group} launches and drains in one decision")
        for problem in judge_replacements(before, after, event):
            self.report(problem)
        for problem in judge_budget(self._world.autoscaler.evaluated, before, after):
            self.report(problem)

    def _judge_drain(self, state: AutoscalerState, piece: Slice, drain: Drain, event: Decided, after: AutoscalerState) -> None:
        if not piece.state.was_ready:
            return
        if drain.cause == DrainCause.PRESSURE and piece.group in self._world.driven:
            return
        if DrainCause(drain.cause).voluntary:
            self._judge_disruption(state, piece, drain, event, after)
        else:
            self._judge_giving_back(state, piece, drain, event)

    def _judge_disruption(
        self, state: AutoscalerState, piece: Slice, drain: Drain, event: Decided, after: AutoscalerState
    ) -> None:
        what = f"{piece.id} drains ({drain.cause})"
        for problem in judge_disruption(self._world.autoscaler.evaluated, state, after, drain, event.orders.at):
            self.report(f"{what} {problem}")
        if drain.idle_since is not None:
            self._judge_words(piece, what, event)

    def _judge_giving_back(self, state: AutoscalerState, piece: Slice, drain: Drain, event: Decided) -> None:
        what = f"{piece.id} drains ({drain.cause})"
        match drain.cause:
            case DrainCause.NOT_NEEDED:
                self.report(f"{what} although it is READY")
                return
            case DrainCause.UNCLAIMED:
                if piece.joined:
                    self.report(f"{what} although a source has named it")
                return
            case DrainCause.ABOVE_MAXIMUM if piece.is_unclaimed:
                return
        usage = state.usage.get(piece.id)
        if usage is None:
            self.report(f"{what} although nobody has named it")
        elif not all(host.idle for host in usage):
            self.report(f"{what} although its last word is that it works")
        self._judge_words(piece, what, event)
        if drain.cause == DrainCause.IDLE:
            self._judge_demand(what, event.orders.at)

    def _judge_words(self, piece: Slice, what: str, event: Decided) -> None:
        """Whether the words that a drain relies on were fresh when it was decided."""
        state = self._world.autoscaler.evaluated
        assert state.config is not None
        lasts = timedelta(seconds=state.config.stale_after_seconds)
        for name, source in sorted(state.usage_sources.items()):
            if piece.id not in source.named:
                continue
            if heard_at(state, name) + lasts <= event.orders.at:
                self.report(f"{what} on the stale words of {name}")
            if piece.id in source.outdated:
                self.report(f"{what} on words of an older epoch of {name}")
            if source.resync_needed is not None:
                self.report(f"{what} on words of {name} that are to be sent again")

    def _judge_demand(self, what: str, at: datetime) -> None:
        """Whether a drain for lack of demand was decided on all demand."""
        state = self._world.autoscaler.evaluated
        for name in state.resync_needed:
            if not has_lapsed(state, name, at):
                self.report(f"{what} although the demand of {name} is to be sent again")

    def note_move(self, before: SliceLifecycle, after: SliceLifecycle) -> None:
        """Judge the end of a slice that worked."""
        if not (before.state.was_ready and after.state is SliceState.DELETING and after.failure is None):
            return
        slice_id = after.spec.slice_id
        self.deleted.append(slice_id)
        forced = before.drain is None or before.drain.force
        if not forced and any(queue.busy(slice_id) for queue in self._world.queues.values()):
            self.report(f"{slice_id} is deleted ({after.cause}) with work on it, and its controller did not confirm that")
        works = any(controller.busy(slice_id) for controller in self._world.controllers.values())
        since = self._busy_word_since.get(slice_id)
        if works and since is not None and self._lasts(since) > self._news_seconds:
            if not forced:
                self.report(f"{slice_id} is deleted ({after.cause}) with work on it, as the autoscaler knew")
            elif after.cause == DrainCause.UNCLAIMED:
                self.report(f"{slice_id} is deleted as unclaimed with work on it, as the autoscaler knew")
            elif after.cause == DrainCause.NOTICE and not self._has_come(before.drain):
                self.report(f"{slice_id} is deleted before the moment of its notice with work on it, as the autoscaler knew")

    def _has_come(self, drain: DrainTerms | None) -> bool:
        """Whether the deadline of a drain has passed."""
        return drain is None or drain.deadline is None or drain.deadline <= self._world.clock.now

    def note_reset(self) -> None:
        """The autoscaler lost what it knew: nothing is measured across a reset."""
        self._since.clear()
        self._busy_word_since.clear()

    # What is looked at from time to time.

    def look(self) -> None:
        """Compare ledger, workflows and cloud, and measure how long they disagree."""
        found = {(kind, name): seconds for kind, name, seconds in self._disagreements()}
        now = self._world.clock.now
        self._since = {key: self._since.get(key, now) for key in found}
        for key, seconds in found.items():
            if self._lasts(self._since[key]) > seconds:
                self.report(f"{key[1]} {key[0]}")
        self.look_at_limits()

    def _disagreements(self) -> Iterator[tuple[str, str, float]]:
        """What does not fit together now, about what, and for how many seconds that is allowed."""
        state, runs = self._world.state, self._world.runs
        if state.recovery is not None or self._world.cloud.hides:
            return
        existing = self._world.cloud.existing()
        audit = self._margin + 2 * state.config.inventory.audit_seconds if state.config else self._margin
        grace = audit + (state.config.inventory.orphan_grace_seconds if state.config else 0)
        for slice_id, group in existing.items():
            if slice_id not in state.by_id and not self._runs(slice_id):
                yield f"of {group} exists and nobody knows of it", slice_id, grace
        for slice_id, run in runs.items():
            if run.is_running and slice_id not in state.by_id:
                yield f"is {run.lifecycle.state} and not in the ledger", slice_id, audit
        for piece in state.slices:
            yield from self._about(piece, exists=piece.id in existing, audit=audit)

    def _about(self, piece: Slice, *, exists: bool, audit: float) -> Iterator[tuple[str, str, float]]:
        run = self._world.runs.get(piece.id)
        if run is None or not run.is_running:
            yield (
                f"is {piece.state} in the ledger, and nothing looks after it",
                piece.id,
                audit if piece.started else self._margin,
            )
            return
        lifecycle = run.lifecycle
        if lifecycle.state is not piece.state:
            yield f"is {piece.state} in the ledger and {lifecycle.state} itself", piece.id, self._margin
        if lifecycle.state.has_hosts and not exists:
            yield f"is {lifecycle.state} and does not exist", piece.id, audit
        if piece.drain is not None and lifecycle.state is SliceState.READY:
            yield f"is to drain ({piece.drain.cause}) and stays READY", piece.id, self._margin
        if lifecycle.state is SliceState.DRAINING:
            yield from self._about_drain(piece, lifecycle)

    def _about_drain(self, piece: Slice, lifecycle: SliceLifecycle) -> Iterator[tuple[str, str, float]]:
        drain = lifecycle.drain
        if piece.drain is None and piece.state is SliceState.DRAINING:
            yield "drains and the ledger has no drain of it", piece.id, self._margin
        elif piece.drain is not None and drain is not None and piece.drain.number != drain.number:
            yield f"is in drain {drain.number}, and in {piece.drain.number} by the ledger", piece.id, self._margin
        if drain is not None and drain.deadline is not None and drain.deadline < self._world.clock.now:
            yield "drains beyond its deadline", piece.id, self._margin

    def look_at_limits(self) -> None:
        """No group, pool or cluster has more than its limit; what was above it when it was lowered only gets less."""
        config = self._world.state.config
        if config is None:
            return
        everything = self._everything()
        for slice_id, name in everything.items():
            group = config.group(name)
            if group is not None:
                self._charges.setdefault(slice_id, (group.pool, group.chips_per_slice))
        for what, count, limit in self._limits(config, everything):
            if count > max(limit, self._last.get(what, 0)):
                self.report(f"{what} has {count}, its limit is {limit}")
            self._last[what] = count

    def _limits(self, config: ClusterConfig, everything: dict[str, str]) -> Iterator[tuple[str, int, int]]:
        counts = Counter(everything.values())
        for group in config.groups:
            yield f"group {group.name}", counts[group.name], group.max_slices
        yield "the cluster", len(everything), len(everything) if config.max_slices is None else config.max_slices
        for pool in config.pools:
            charged = [self._charges[slice_id] for slice_id in everything if slice_id in self._charges]
            yield f"pool {pool.name}", sum(chips for name, chips in charged if name == pool.name), pool.chips - pool.system

    def _everything(self) -> dict[str, str]:
        """The groups of all slices that exist, that a workflow looks after, or that are to be started."""
        running = {slice_id: run.lifecycle.spec.group for slice_id, run in self._world.runs.items() if run.is_running}
        return self._world.cloud.existing() | running | {piece.id: piece.group for piece in self._world.state.unstarted}

    def _runs(self, slice_id: str) -> bool:
        run = self._world.runs.get(slice_id)
        return run is not None and run.is_running

    def _lasts(self, since: datetime) -> float:
        return self._world.clock.seconds_since(since)

    @property
    def _news_seconds(self) -> float:
        """How long a word takes at most from the autoscaler to a slice."""
        return 4 * self._world.message_seconds + 2 * self._world.autoscaler.evaluation_seconds + 5

    @property
    def _margin(self) -> float:
        return MARGIN_SECONDS + 4 * self._news_seconds
