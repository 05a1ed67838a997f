"""Metrics that alerts are made of: locations with a problem, silent sources, idle money, evaluations that fail, drains."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from activities import evaluate as evaluating
from activities import recovery as recovering
from activities.providers.sim import SIM_URL
from penstock.client import AutoscalerClient
from penstock.contract.metrics import (
    COST_BY_USE,
    DRAINS_BEGUN,
    DRAINS_ENDED,
    EVALUATION_FAILURES,
    IDLE_COST_OF_DAY,
    LOCATION_PROBLEM,
    SOURCE_HEARD,
)
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from tests.workflows.ledgers import reset, run_of, state_of
from tests.workflows.machine import Machine
from tests.workflows.meters import Meters
from tests.workflows.stage import QUICK, Stage, group, placed, staged
from worker import serving
from worker.serving import working
from worker.settings import Settings
from workflows import policies


@asynccontextmanager
async def metered(stage: Stage, patched: pytest.MonkeyPatch, meters: Meters) -> AsyncIterator[AutoscalerClient]:
    """A worker in this process with its own metrics, and the stage's cluster started on its own task queue."""
    patched.setenv(SIM_URL, stage.machine.url)
    queue = f"own-{stage.cluster}"
    async with working(await meters.client(stage.machine.address), Settings(task_queue=queue)):
        autoscaler = AutoscalerClient(stage.client, stage.cluster, task_queue=queue)
        await autoscaler.start(stage.config)
        yield autoscaler


def reconfigured(stage: Stage, *groups: dict[str, Any]) -> ClusterConfig:
    found = [placed(each, stage.cloud.region) for each in groups]
    return ClusterConfig.model_validate(QUICK | {"cluster": stage.cluster, "groups": found})


def test_a_location_that_is_not_watched_is_one_while_it_lasts_also_when_paused_and_after_a_restart_and_zero_after_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = recovering._ensure

    async def refused_in_b(client: Any, location: Any, *rest: Any) -> None:
        if location.name.endswith("-b"):
            raise RPCError("WorkflowId length exceeds limit.", RPCStatusCode.INVALID_ARGUMENT, b"")
        await start(client, location, *rest)

    monkeypatch.setattr(recovering, "_ensure", refused_in_b)
    monkeypatch.setattr(policies, "RECOVERY_PATIENCE", timedelta(seconds=0.5))
    monkeypatch.setattr(serving, "GUARD_SECONDS", 0.2)

    async def story() -> None:
        first, second = Meters(), Meters()
        good, bad = group(), group("bad", zone="b")
        async with staged(machine, good, bad, start=False) as stage:
            problem = (stage.cluster, f"sim/{stage.cloud.zone('b')}", "not_watched")

            async def shown() -> dict[tuple[str, ...], float]:
                found = second.of(LOCATION_PROBLEM)
                return {series: value for series, value in found.items() if series[0] == stage.cluster}

            async with metered(stage, monkeypatch, first) as autoscaler:
                await stage.eventually(lambda: first.read(LOCATION_PROBLEM), lambda seen: seen.get(problem) == 1)
                await autoscaler.pause("so that nothing is evaluated")
            async with metered(stage, monkeypatch, second):
                assert await stage.eventually(shown, bool) == {problem: 1}
                await autoscaler.apply_config(reconfigured(stage, good))
                assert await stage.eventually(shown, lambda seen: seen[problem] == 0) == {problem: 0}

    asyncio.run(story())


def test_a_cluster_that_ended_has_no_location_with_a_problem(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "GUARD_SECONDS", 0.2)

    async def story() -> None:
        meters = Meters()
        async with staged(machine, group(), start=False) as stage:
            await stage.cloud.behave("a", permission_denied="project")
            async with metered(stage, monkeypatch, meters):
                problem = (stage.cluster, f"sim/{stage.cloud.zone('a')}", "refused")
                await stage.eventually(lambda: meters.read(LOCATION_PROBLEM), lambda seen: seen.get(problem) == 1)
                await stage.workflow.terminate("by hand")
                await stage.eventually(lambda: meters.read(LOCATION_PROBLEM), lambda seen: seen[problem] == 0)

    asyncio.run(story())


def test_every_evaluation_that_fails_is_counted_once_whatever_its_attempts(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "EVALUATE_AGAIN", timedelta(seconds=0.2))

    def failing(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no decision today")

    monkeypatch.setattr(evaluating, "_measured", failing)

    async def story() -> None:
        meters = Meters()
        async with staged(machine, group(), start=False) as stage, metered(stage, monkeypatch, meters) as autoscaler:
            status = await stage.eventually(autoscaler.status, lambda seen: seen.undecided and seen.undecided.failures >= 2)
            assert status.undecided is not None
            counted = await stage.eventually(
                lambda: meters.read(EVALUATION_FAILURES), lambda seen: seen.get((stage.cluster,), 0) >= 2
            )
            now = (await autoscaler.status()).undecided
            assert now is not None
            assert counted[stage.cluster,] <= now.failures

    asyncio.run(story())


def test_a_heartbeat_renews_when_its_source_was_heard_and_idle_money_grows_though_nothing_is_evaluated(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "GUARD_SECONDS", 0.2)

    async def story() -> None:
        meters = Meters()
        spare = group(min_slices=1, price_per_hour=3600)
        async with staged(machine, spare, start=False) as stage, metered(stage, monkeypatch, meters) as autoscaler:
            page = await stage.eventually(lambda: autoscaler.slices(state="READY"), lambda page: page.total)
            source, cluster = (stage.cluster, "ray"), (stage.cluster,)
            await autoscaler.usage({page.slices[0].id: "idle"}, source="ray")
            await stage.eventually(
                lambda: meters.read(COST_BY_USE), lambda seen: seen.get((stage.cluster, "small", "idle")) == 3600
            )
            heard = (await stage.eventually(lambda: meters.read(SOURCE_HEARD), lambda seen: seen.get(source)))[source]
            await autoscaler.pause("so that nothing is evaluated")
            spent = meters.of(IDLE_COST_OF_DAY)[cluster]
            await stage.workflow.signal("report", {"source": "ray"})
            await stage.eventually(lambda: meters.read(SOURCE_HEARD), lambda seen: seen[source] > heard)
            await stage.eventually(lambda: meters.read(IDLE_COST_OF_DAY), lambda seen: seen[cluster] > spent)

    asyncio.run(story())


def test_every_drain_is_counted_once_whatever_is_reset_replayed_or_continued_as_new(
    machine_of_short_runs: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first worker sees a drain begin; the second replays that, sees it cancelled, and one that nothing confirms."""

    async def story() -> None:
        first, second = Meters(), Meters()
        slow, quick = (group(min_slices=1, timeouts={"drain": drain}) for drain in ("1h", "200ms"))
        async with staged(machine_of_short_runs, slow, start=False) as stage:
            drains = (stage.cluster, "small", "operator")
            cancelled, expired = (*drains, "cancelled"), (*drains, "expired")
            async with metered(stage, monkeypatch, first) as autoscaler:
                page = await stage.eventually(lambda: autoscaler.slices(state="READY"), lambda page: page.total)
                slice_id = page.slices[0].id
                run = await run_of(stage.slice_workflow("small", slice_id))
                ready = (await stage.workflow.fetch_history()).events[-1].event_id
                await autoscaler.drain(slice_id, cause="noisy fan")
                await stage.eventually(lambda: first.read(DRAINS_BEGUN), lambda seen: seen.get(drains) == 1)
                before = await run_of(stage.workflow)
                await reset(stage, after=ready)
                await stage.eventually(lambda: run_of(stage.workflow), lambda now: now not in (None, before))
                await stage.eventually(lambda: state_of(stage), _drains_again)
                assert (first.of(DRAINS_BEGUN)[drains], first.of(DRAINS_ENDED)) == (1, {})
            async with metered(stage, monkeypatch, second) as autoscaler:
                await autoscaler.cancel_drain(slice_id)
                await stage.eventually(lambda: second.read(DRAINS_ENDED), lambda seen: seen.get(cancelled) == 1)
                assert second.of(DRAINS_BEGUN) == {}
                await autoscaler.apply_config(reconfigured(stage, quick))
                await autoscaler.drain(slice_id, cause="loud fan")
                await stage.eventually(lambda: second.read(DRAINS_ENDED), lambda seen: seen.get(expired) == 1)
                handle = stage.slice_workflow("small", slice_id)
                await stage.eventually(lambda: run_of(handle), lambda now: now not in (None, run))
            assert (first.of(DRAINS_BEGUN), first.of(DRAINS_ENDED)) == ({drains: 1}, {})
            assert (second.of(DRAINS_BEGUN), second.of(DRAINS_ENDED)) == ({drains: 1}, {cancelled: 1, expired: 1})

    asyncio.run(story())


def _drains_again(state: AutoscalerState) -> bool:
    """Whether the drain is known after the reset, and everything that it means was delivered."""
    return state.recovery is None and bool(state.draining) and not state.outbox
