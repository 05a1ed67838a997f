"""One bad location among good ones, and one bad evaluation: shown, and in nobody else's way."""

import asyncio
import threading
import uuid
from datetime import timedelta
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from activities import evaluate as evaluating
from activities import recovery as recovering
from activities import watch as watching
from activities.providers.port import Listing
from activities.providers.sim import SimProvider
from penstock.client import AutoscalerClient
from penstock.contract import names
from penstock.contract.answers import ClusterStatus, DoctorReport, ProblemKind, Verdict
from penstock.contract.requests import VerifyRequest
from penstock.model.cluster import ClusterConfig
from penstock.model.slices import SliceState
from tests.workflows.machine import Machine
from tests.workflows.stage import QUICK, Stage, group, placed, served_here, staged
from worker import assembly
from workflows import policies

NOBODY = "http://127.0.0.1:9"
"""An address at which no cloud answers."""


def autoscaler_of(stage: Stage) -> AutoscalerClient:
    return AutoscalerClient(stage.client, stage.cluster, task_queue=f"own-{stage.cluster}")


async def diagnosed(stage: Stage) -> DoctorReport:
    report: DoctorReport = await stage.client.execute_workflow(
        names.DOCTOR, id=f"doctor-{uuid.uuid4()}", task_queue=f"own-{stage.cluster}", result_type=DoctorReport
    )
    return report


def reconfigured(stage: Stage, *groups: dict[str, Any]) -> ClusterConfig:
    found = [placed(each, stage.cloud.region) for each in groups]
    return ClusterConfig.model_validate(QUICK | {"cluster": stage.cluster, "groups": found})


def ready(status: ClusterStatus) -> dict[str, int]:
    return {one.name: one.slices[SliceState.READY] for one in status.groups if one.slices.get(SliceState.READY)}


def test_a_location_that_cannot_be_watched_stops_no_other_and_a_mended_configuration_helps(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = recovering._ensure

    async def refused_in_b(client: Any, location: Any, *rest: Any) -> None:
        if location.name.endswith("-b"):
            raise RPCError("WorkflowId length exceeds limit.", RPCStatusCode.INVALID_ARGUMENT, b"")
        await start(client, location, *rest)

    monkeypatch.setattr(recovering, "_ensure", refused_in_b)
    monkeypatch.setattr(policies, "RECOVERY_PATIENCE", timedelta(seconds=0.5))
    good, bad = group(min_slices=1), group("bad", zone="b", min_slices=1)

    async def story() -> None:
        async with staged(machine, good, bad, start=False) as stage, served_here(stage, monkeypatch):
            autoscaler = autoscaler_of(stage)
            status = await stage.eventually(autoscaler.status, lambda status: ready(status) == {"small": 1})
            key = f"sim/{stage.cloud.zone('b')}"
            assert (status.locations[key].kind, status.locations[key].message) == (
                ProblemKind.NOT_WATCHED,
                "WorkflowId length exceeds limit.",
            )
            findings = {each.subject: each for each in (await diagnosed(stage)).findings if not each.ok}
            assert findings[f"{stage.cluster}: {key}"].message.startswith("is not watched since")

            await autoscaler.apply_config(reconfigured(stage, good, bad | {"zone": "c"}))
            status = await stage.eventually(autoscaler.status, lambda status: ready(status) == {"small": 1, "bad": 1})
            assert (status.locations, status.recovery) == ({}, None)

    asyncio.run(story())


def test_a_cloud_that_does_not_answer_is_shown_with_its_time_and_the_others_go_on(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "SILENCE_SECONDS", 0.2)
    good, dark = group(min_slices=1), group("dark", zone="b", min_slices=1)

    async def story() -> None:
        async with staged(machine, good, dark, start=False) as stage, served_here(stage, monkeypatch):
            autoscaler = autoscaler_of(stage)
            await stage.eventually(autoscaler.status, lambda status: ready(status) == {"small": 1, "dark": 1})
            away = {"kind": "sim", "url": NOBODY}
            await autoscaler.apply_config(reconfigured(stage, good, dark | {"provider": away}))
            status = await stage.eventually(autoscaler.status, lambda status: bool(status.locations))
            ((key, problem),) = status.locations.items()
            assert (key, problem.kind) == (f"sim/{stage.cloud.zone('b')}", ProblemKind.NO_ANSWER)
            (told,) = (one for one in status.groups if one.name == "dark")
            assert told.reason.startswith(f"{key} does not answer since")

            await autoscaler.apply_config(reconfigured(stage, good, dark))
            await stage.eventually(autoscaler.status, lambda status: not status.locations)

    asyncio.run(story())


def test_a_defect_of_a_provider_is_shown_in_status_and_doctor_and_ends_with_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "SILENCE_SECONDS", 0.2)
    listed, broken = SimProvider.list, True

    async def defective(self: SimProvider, location: str, *, cluster: str) -> Listing:
        if broken and location.endswith("-b"):
            raise ValueError("invalid literal for int() with base 10: 'x'")
        return await listed(self, location, cluster=cluster)

    monkeypatch.setattr(SimProvider, "list", defective)
    monkeypatch.setattr(policies, "RECOVERY_PATIENCE", timedelta(seconds=0.5))
    good, bad = group(min_slices=1), group("bad", zone="b", min_slices=1)

    async def story() -> None:
        nonlocal broken
        async with staged(machine, good, bad, start=False) as stage, served_here(stage, monkeypatch):
            autoscaler, key = autoscaler_of(stage), f"sim/{stage.cloud.zone('b')}"
            status = await stage.eventually(
                autoscaler.status, lambda status: ready(status) == {"small": 1} and key in status.locations
            )
            problem, said = status.locations[key], "ValueError: invalid literal for int() with base 10: 'x'"
            assert (problem.kind, problem.message) == (ProblemKind.NO_ANSWER, said)
            findings = [each for each in (await diagnosed(stage)).findings if each.subject == f"{stage.cluster}: {key}"]
            assert [said in each.message for each in findings] == [True, True]
            assert "a defect of sim" in findings[1].fix
            broken = False
            status = await stage.eventually(autoscaler.status, lambda status: ready(status) == {"small": 1, "bad": 1})
            assert status.locations == {}

    asyncio.run(story())


def test_a_recovery_goes_on_without_a_location_that_gives_no_complete_list(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "RECOVERY_PATIENCE", timedelta(seconds=0.5))

    async def story() -> None:
        good, partial = group(min_slices=1), group("partial", zone="b", min_slices=1)
        async with staged(machine, good, partial, start=False) as stage:
            await stage.cloud.behave("b", partial_lists=True)
            async with served_here(stage, monkeypatch):
                autoscaler = autoscaler_of(stage)
                status = await stage.eventually(autoscaler.status, lambda status: ready(status) == {"small": 1})
                assert status.recovery is not None
                assert (status.recovery.goes_on, status.recovery.waiting_for) == (True, (f"sim/{stage.cloud.zone('b')}",))
                await stage.cloud.behave("b")
                status = await stage.eventually(autoscaler.status, lambda status: ready(status) == {"small": 1, "partial": 1})
                assert status.recovery is None

    asyncio.run(story())


def test_watches_leave_the_slots_to_those_who_decide_create_and_verify(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "CONCURRENT_ACTIVITIES", 4)

    async def story() -> None:
        groups = [group(f"g{n}", zone=f"z{n}", min_slices=1) for n in range(8)]
        async with staged(machine, *groups, start=False) as stage, served_here(stage, monkeypatch):
            await stage.eventually(autoscaler_of(stage).status, lambda status: len(ready(status)) == len(groups))
            verdict: Verdict = await stage.client.execute_workflow(
                names.VERIFY,
                VerifyRequest(cluster=stage.cluster),
                id=f"verify-{stage.cluster}",
                task_queue=f"own-{stage.cluster}",
                result_type=Verdict,
            )
            assert (verdict.agrees, verdict.locations) == (True, len(groups))

    asyncio.run(story())


def test_a_newer_configuration_overtakes_an_evaluation_that_hangs(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    measured = evaluating._measured

    def hanging(state: Any, run_id: str, is_given_up: Any) -> Any:
        if state.config_revision == 1:
            released.wait()
        return measured(state, run_id, is_given_up)

    monkeypatch.setattr(evaluating, "_measured", hanging)

    async def story() -> None:
        async with staged(machine, group(), start=False) as stage, served_here(stage, monkeypatch):
            autoscaler = autoscaler_of(stage)
            await stage.eventually(autoscaler.status, lambda status: status.recovery is None)
            try:
                await autoscaler.apply_config(reconfigured(stage, group(min_slices=1)))
                await stage.eventually(autoscaler.status, lambda status: ready(status) == {"small": 1}, seconds=20)
            finally:
                released.set()

    asyncio.run(story())


def test_an_evaluation_that_fails_every_time_is_shown_and_repeated(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "EVALUATE_AGAIN", timedelta(seconds=0.2))
    measured, broken = evaluating._measured, True

    def failing(state: Any, run_id: str, is_given_up: Any) -> Any:
        if broken:
            raise RuntimeError("no decision today")
        return measured(state, run_id, is_given_up)

    monkeypatch.setattr(evaluating, "_measured", failing)

    async def story() -> None:
        nonlocal broken
        async with staged(machine, group(min_slices=1), start=False) as stage, served_here(stage, monkeypatch):
            autoscaler = autoscaler_of(stage)
            status = await stage.eventually(autoscaler.status, lambda status: status.undecided is not None)
            assert status.undecided is not None
            assert "no decision today" in status.undecided.problem
            findings = {each.subject: each for each in (await diagnosed(stage)).findings if not each.ok}
            assert findings[stage.cluster].message.startswith("not decided on since")
            broken = False
            status = await stage.eventually(autoscaler.status, lambda status: ready(status) == {"small": 1})
            assert status.undecided is None

    asyncio.run(story())
