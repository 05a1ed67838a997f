"""A cluster lives through anything that happens to it: limits hold, nothing is stranded, nothing that works is deleted."""

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import wraps
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.contract import names
from penstock.contract.problems import BadMessage
from penstock.model.failures import Notice, NoticeKind
from tests.core.elastic.autoscaler import Checkpoint
from tests.core.elastic.drawn import (
    CHIPS,
    FAULTS,
    GROUPS,
    JOBS,
    QUEUE,
    cluster_facts,
    group_facts,
    group_names,
    notice_kinds,
    notice_seconds,
    providers,
    queue_facts,
    replacement_facts,
    which,
)
from tests.core.elastic.jobs import Job
from tests.core.elastic.rest import at_rest
from tests.core.elastic.world import World

EXAMPLES = int(os.environ.get("LAW_EXAMPLES", "15"))
"""Stories of the machine: few in `make test`, for which newcomers wait; more in `make check-laws`."""
STEPS = 40
KEPT_CHECKPOINTS = 6

waits = st.sampled_from((0.0, 1.0, 5.0, 20.0, 60.0, 180.0, 700.0, 3600.0))


def event(**given: Any) -> Callable[[Callable[..., None]], Any]:
    """A rule of the machine: something happens, and then time passes."""

    def with_time(happens: Callable[..., None]) -> Any:
        @wraps(happens)
        def happens_and_time_passes(self: "ClusterLife", then: float, **drawn: Any) -> None:
            happens(self, **drawn)
            self.world.run(then)

        return rule(then=waits, **given)(happens_and_time_passes)  # type: ignore[no-untyped-call]

    return with_time


class ClusterLife(RuleBasedStateMachine):
    """One cluster with four groups, a cloud that fails, a controller that fails, and operators who change their minds."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs = 0
        self.checkpoints: list[Checkpoint] = []

    @initialize(
        groups=st.tuples(group_facts, group_facts, group_facts),
        queue=queue_facts,
        cluster=cluster_facts,
        replacement=replacement_facts,
        seed=st.integers(0, 99),
    )
    def begin(
        self,
        groups: tuple[Mapping[str, Any], ...],
        queue: Mapping[str, Any],
        cluster: Mapping[str, Any],
        replacement: Mapping[str, Any],
        seed: int,
    ) -> None:
        self.groups = {fixed["name"]: fixed | dict(drawn) for fixed, drawn in zip(GROUPS, groups, strict=True)}
        self.groups["queue"] = QUEUE | dict(queue)
        self.removed: set[str] = set()
        self.cluster = dict(cluster) | dict(replacement)
        self.pool = {"name": "chips", "chips": CHIPS, "system": 0}
        self.world = World(self.config(), seed=seed)
        self.controller, self.queue = self.world.controller(), self.world.queue("queue")
        self.world.run(10)

    def config(self) -> dict[str, Any]:
        groups = [facts for name, facts in self.groups.items() if name not in self.removed]
        return {"groups": groups, "pools": [self.pool]} | self.cluster

    def reconfigure(self) -> bool:
        """Whether the configuration is one that an operator can apply."""
        try:
            self.world.configure(self.config())
        except BadMessage:
            return False
        return True

    def operate(self, update: str, **message: Any) -> None:
        try:
            self.world.operate(update, message)
        except BadMessage:
            return  # An operator can only be refused.

    def slice_id(self, number: int) -> str | None:
        slices = self.world.slices()
        return slices[number % len(slices)].id if slices else None

    # Demand.

    @event(kinds=st.lists(st.sampled_from(list(JOBS)), min_size=1, max_size=4), seconds=st.sampled_from((30.0, 600.0, 3000.0)))
    def submit(self, kinds: list[str], seconds: float) -> None:
        jobs = [Job(f"{kind}-{self.jobs + i}", seconds=seconds, **JOBS[kind]) for i, kind in enumerate(kinds)]
        self.jobs += len(jobs)
        self.controller.submit(jobs)

    @event(tasks=st.integers(1, 6), seconds=st.sampled_from((30.0, 600.0, 3000.0)))
    def enqueue(self, tasks: int, seconds: float) -> None:
        """Tasks wait in the queue that drives a group."""
        self.queue.waiting += [seconds] * tasks

    @event(facts=queue_facts)
    def change_queue(self, facts: Mapping[str, Any]) -> None:
        before = self.groups["queue"]
        self.groups["queue"] = QUEUE | dict(facts)
        if not self.reconfigure():
            self.groups["queue"] = before

    @event()
    def withdraw(self) -> None:
        self.controller.withdraw()

    @event(group=group_names, count=st.integers(0, 2))
    def ask_for_capacity(self, group: str, count: int) -> None:
        accelerated = group == "pod"
        want = {"count": count, "resources": {"cpu": 1, "tpu": 4} if accelerated else {"cpu": 4}}
        device = {"device": {"type": "tpu"}} if accelerated else {}
        self.operate(names.REQUEST_CAPACITY, owner=group, wants=[want | device] if count else [])

    # Time.

    @event()
    def wait(self) -> None:
        """Nothing happens."""
        self.checkpoints = [*self.checkpoints, self.world.checkpoint()][-KEPT_CHECKPOINTS:]

    @event(message=st.sampled_from((0.2, 1.0, 30.0)), evaluation=st.sampled_from((0.1, 0.5, 20.0)))
    def slow_down(self, message: float, evaluation: float) -> None:
        self.world.message_seconds, self.world.autoscaler.evaluation_seconds = message, evaluation

    # The controller.

    @event(off=st.booleans())
    def cut_controller_off(self, off: bool) -> None:
        self.controller.is_cut_off = off

    @event(confirms=st.booleans())
    def confirm_drains(self, confirms: bool) -> None:
        self.controller.confirms = confirms

    @event(down=st.sampled_from((1.0, 60.0, 3600.0)), usage_after=st.sampled_from((0.0, 60.0, 1000.0)))
    def restart_controller(self, down: float, usage_after: float) -> None:
        self.controller.restart(down_seconds=down, usage_after=usage_after)

    @event()
    def lose_message(self) -> None:
        self.controller.lose_message()

    @event(moves=st.booleans(), spreads=st.booleans())
    def change_habits(self, moves: bool, spreads: bool) -> None:
        """It moves work away from draining slices from now on or no longer, and spreads tasks over hosts or fills them."""
        self.controller.moves, self.controller.spreads = moves, spreads
        self.controller.look_again()

    @event(number=which, degraded=st.booleans())
    def degrade_host(self, number: int, degraded: bool) -> None:
        """Its word on the first host of a slice is degraded, or no longer."""
        if (slice_id := self.slice_id(number)) is not None:
            (self.controller.degraded.add if degraded else self.controller.degraded.discard)((slice_id, 0))
            self.controller.look_again()

    @event(number=which, undisturbed=st.booleans())
    def say_do_not_disrupt(self, number: int, undisturbed: bool) -> None:
        if (slice_id := self.slice_id(number)) is not None:
            (self.controller.undisturbed.add if undisturbed else self.controller.undisturbed.discard)(slice_id)
            self.controller.look_again()

    # The cloud.

    @event(number=which, kind=notice_kinds, seconds=notice_seconds, stands=st.sampled_from((True, True, False)))
    def announce(self, number: int, kind: NoticeKind, seconds: float, stands: bool) -> None:
        """The cloud gives notice of a slice, or takes a notice back."""
        losable = self.world.cloud.losable()
        if losable:
            until = self.world.clock.now + timedelta(seconds=seconds)
            notice = Notice(kind=kind, until=until) if stands else None
            self.world.cloud.announce(losable[number % len(losable)], notice)

    @event(number=which, how=st.sampled_from(("preempt", "vanish", "kill_host")))
    def lose_slice(self, number: int, how: str) -> None:
        losable = self.world.cloud.losable()
        if losable:
            getattr(self.world.cloud, how)(losable[number % len(losable)])

    @event(zone=st.sampled_from(("a", "b")), faults=st.sampled_from(FAULTS))
    def change_cloud(self, zone: str, faults: Mapping[str, Any]) -> None:
        self.world.cloud.behave(zone, **faults)

    # Operators.

    @event(group=group_names, most=st.integers(0, 3), least=st.sampled_from((0, 0, 1)))
    def resize(self, group: str, most: int, least: int) -> None:
        before = self.groups[group]
        self.groups[group] = before | {"max_slices": most, "min_slices": min(least, most)}
        if not self.reconfigure():
            self.groups[group] = before

    @event(group=group_names)
    def remove_or_return(self, group: str) -> None:
        before = set(self.removed)
        self.removed ^= {group}
        if len(self.removed) == len(self.groups) or not self.reconfigure():
            self.removed = before

    @event(group=group_names, facts=group_facts)
    def change_group(self, group: str, facts: Mapping[str, Any]) -> None:
        before = self.groups[group]
        self.groups[group] = before | dict(facts)
        if not self.reconfigure():
            self.groups[group] = before

    @event(most=st.sampled_from((None, 2, 4)), system=st.sampled_from((0, 8, 24)))
    def change_limits(self, most: int | None, system: int) -> None:
        before = self.cluster, self.pool
        self.cluster, self.pool = self.cluster | {"max_slices": most}, self.pool | {"system": system}
        if not self.reconfigure():
            self.cluster, self.pool = before

    @event(group=group_names, provider=providers)
    def change_image(self, group: str, provider: Mapping[str, Any]) -> None:
        before = self.groups[group]
        self.groups[group] = before | {"provider": provider}
        if not self.reconfigure():
            self.groups[group] = before

    @event(facts=replacement_facts)
    def change_replacement(self, facts: Mapping[str, Any]) -> None:
        before = self.cluster
        self.cluster = self.cluster | dict(facts)
        if not self.reconfigure():
            self.cluster = before

    @event(number=which, how=st.sampled_from(({"for": "10m"}, {"for": "1h"}, {"off": True})))
    def keep(self, number: int, how: Mapping[str, Any]) -> None:
        if (slice_id := self.slice_id(number)) is not None:
            self.operate(names.KEEP_SLICE, slice_id=slice_id, **how)

    @event(number=which, cordoned=st.booleans())
    def cordon(self, number: int, cordoned: bool) -> None:
        if (slice_id := self.slice_id(number)) is not None:
            self.operate(names.CORDON_SLICE, slice_id=slice_id, cordoned=cordoned)

    @event(number=which, force=st.booleans())
    def drain(self, number: int, force: bool) -> None:
        if (slice_id := self.slice_id(number)) is not None:
            self.operate(names.DRAIN_SLICE, slice_id=slice_id, force=force)

    @event(number=which)
    def cancel_drain(self, number: int) -> None:
        if (slice_id := self.slice_id(number)) is not None:
            self.operate(names.CANCEL_DRAIN, slice_id=slice_id)

    @event(pause=st.booleans())
    def pause_or_resume(self, pause: bool) -> None:
        self.operate(names.PAUSE if pause else names.RESUME, **({"reason": "a test"} if pause else {}))

    # Temporal.

    @event()
    def continue_as_new(self) -> None:
        self.world.autoscaler.continue_as_new()

    @event()
    def kill_worker(self) -> None:
        for watch in self.world.watches.values():
            watch.forget()

    @event(number=which, again=st.booleans())
    def reset(self, number: int, again: bool) -> None:
        if not self.checkpoints:
            return
        point = self.checkpoints[number % len(self.checkpoints)]
        self.checkpoints = self.checkpoints[: self.checkpoints.index(point)]
        self.world.reset(point, messages_again=again)

    # What holds.

    @invariant()
    def nothing_is_wrong(self) -> None:
        if hasattr(self, "world"):
            assert not self.world.checks.problems

    def teardown(self) -> None:
        if hasattr(self, "world"):
            at_rest(self.world)
            self.nothing_is_wrong()


ClusterLife.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
TestClusterLife = ClusterLife.TestCase
