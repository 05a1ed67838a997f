"""Evaluations that take too long or fail: stopped, shown, repeated more and more seldom, and overtaken by a new configuration."""

import asyncio
import threading
import time
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from activities import evaluate as evaluating
from penstock.client import AutoscalerClient
from penstock.contract.answers import ClusterStatus
from penstock.core.answers.evaluate import evaluate
from penstock.core.decision.effort import LOOK_EVERY, Effort, GivenUp
from penstock.model.cluster import ClusterConfig
from penstock.model.slices import SliceState
from tests.workflows.machine import Machine
from tests.workflows.stage import QUICK, Stage, group, placed, served_here, staged
from workflows import policies

SOON_SECONDS = 20.0


def autoscaler_of(stage: Stage) -> AutoscalerClient:
    return AutoscalerClient(stage.client, stage.cluster, task_queue=f"own-{stage.cluster}")


def reconfigured(stage: Stage, *groups: dict[str, Any]) -> ClusterConfig:
    found = [placed(each, stage.cloud.region) for each in groups]
    return ClusterConfig.model_validate(QUICK | {"cluster": stage.cluster, "groups": found})


def ready(status: ClusterStatus) -> int:
    return sum(one.slices.get(SliceState.READY, 0) for one in status.groups)


def has_failed(status: ClusterStatus, times: int) -> bool:
    return status.undecided is not None and status.undecided.failures >= times


class Endless:
    """Stands for the core's `evaluate` with work that never ends; it counts what began, and what was stopped."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, revisions: int) -> None:
        """Endless up to a configuration revision."""
        self.began = self.stopped = 0
        self.changed = threading.Condition()
        self._revisions = revisions
        monkeypatch.setattr(evaluating, "evaluate", self)

    def __call__(self, state: Any, **given: Any) -> Any:
        if state.config_revision > self._revisions:
            return evaluate(state, **given)
        self.began += 1
        effort = Effort(given["is_given_up"])
        try:
            while True:
                effort.spend(LOOK_EVERY)
                time.sleep(0.005)
        except GivenUp:
            with self.changed:
                self.stopped += 1
                self.changed.notify_all()
            raise

    def all_stopped(self) -> bool:
        """Whether every attempt that began ends soon."""
        with self.changed:
            return self.changed.wait_for(lambda: 0 < self.began == self.stopped, timeout=SOON_SECONDS)


def test_an_evaluation_that_a_new_configuration_overtakes_stops_working(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = Endless(monkeypatch, revisions=1)

    async def story() -> None:
        async with staged(machine, group(), start=False) as stage, served_here(stage, monkeypatch):
            autoscaler = autoscaler_of(stage)
            await stage.eventually(autoscaler.status, lambda status: status.recovery is None and endless.began > 0)
            await autoscaler.apply_config(reconfigured(stage, group(min_slices=1)))
            await stage.eventually(autoscaler.status, lambda status: ready(status) == 1)
            assert await asyncio.to_thread(endless.all_stopped)

    asyncio.run(story())


def test_an_evaluation_that_takes_too_long_is_stopped_and_shown_after_its_first_attempt(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(policies.EVALUATE, "start_to_close_timeout", timedelta(seconds=2))
    monkeypatch.setitem(policies.EVALUATE, "heartbeat_timeout", timedelta(seconds=1))
    endless = Endless(monkeypatch, revisions=1)

    async def story() -> None:
        async with staged(machine, group(), start=False) as stage, served_here(stage, monkeypatch):
            autoscaler = autoscaler_of(stage)
            status = await stage.eventually(autoscaler.status, lambda status: status.undecided is not None)
            assert status.undecided is not None
            assert endless.began == 1
            assert status.undecided.problem == "the evaluation took longer than 2s and was stopped"
            assert await asyncio.to_thread(endless.all_stopped)
            await autoscaler.apply_config(reconfigured(stage, group(min_slices=1)))
            status = await stage.eventually(autoscaler.status, lambda status: ready(status) == 1)
            assert status.undecided is None

    asyncio.run(story())


def test_pauses_between_evaluations_that_fail_grow_and_the_status_says_when_the_next_one_begins(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "EVALUATE_AGAIN", timedelta(seconds=0.25))

    def failing(state: Any, **_: Any) -> Any:
        raise RuntimeError("no decision today")

    monkeypatch.setattr(evaluating, "evaluate", failing)

    async def story() -> None:
        pauses: dict[int, float] = {}
        async with staged(machine, group(), start=False) as stage, served_here(stage, monkeypatch):
            autoscaler = autoscaler_of(stage)
            for failures in (1, 2, 3):
                status = await stage.eventually(autoscaler.status, partial(has_failed, times=failures))
                state = await autoscaler.dump()
                assert state.undecided is not None
                assert state.undecided.again_at is not None
                pauses[state.undecided.failures] = (state.undecided.again_at - state.now).total_seconds()
                assert status.undecided is not None
                assert state.undecided.since == status.undecided.since
        assert list(pauses.values()) == sorted(pauses.values())
        assert max(pauses.values()) >= 2 * min(pauses.values())

    asyncio.run(story())
