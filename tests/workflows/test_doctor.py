"""The doctor asks every worker for its clock."""

import asyncio
import uuid
from datetime import UTC, datetime, timedelta, tzinfo

import pytest

from activities import clock_skew
from activities.clock_skew import SET_CLOCK
from activities.providers.sim import SIM_URL
from penstock.contract import names
from penstock.contract.answers import DoctorReport
from tests.workflows.machine import Machine
from worker.serving import working
from worker.settings import Settings


class AnHourAhead(datetime):
    """The clock of a machine without NTP."""

    @classmethod
    def now(cls, tz: tzinfo | None = UTC) -> datetime:  # type: ignore[override]
        return datetime.now(tz) + timedelta(hours=1)


def test_the_clock_of_every_worker_is_compared_with_the_servers(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker of this process is an hour ahead, the other is not; whichever runs the doctor, both are asked."""

    async def story() -> None:
        client = await machine.client()
        async with working(client, Settings(task_queue=machine.task_queue)):
            report = await client.execute_workflow(
                names.DOCTOR, id=f"doctor-{uuid.uuid4().hex}", task_queue=machine.task_queue, result_type=DoctorReport
            )
        clocks = {each.subject: each for each in report.findings if each.subject.startswith("clock of worker ")}
        late = clocks.pop(f"clock of worker {client.identity}")
        assert (late.ok, late.message, late.fix) == (False, "3600 s ahead of Temporal's", SET_CLOCK)
        assert "agrees with Temporal's" in {each.message for each in clocks.values() if each.ok}

    monkeypatch.setenv(SIM_URL, machine.url)
    monkeypatch.setattr(clock_skew, "datetime", AnHourAhead)
    asyncio.run(story())
