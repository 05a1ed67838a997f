"""The timelines of other autoscalers' studies, and further ones, played on the workflows and the simulated cloud."""

import asyncio
from pathlib import Path

import pytest

from tests.workflows.machine import Machine
from tests.workflows.player import Restarts, play
from tests.workflows.timelines import Case, load_file

FILES = [load_file(Path(__file__).with_name(name)) for name in ("timelines.yaml", "reactions.yaml")]
CASES = [case for file in FILES for case in file.parsed()]
RESTARTED = [case for case in CASES if case.restarts]


@pytest.mark.parametrize("case", [case for case in CASES if not case.restarts], ids=lambda case: case.id)
def test_a_timeline(machine: Machine, case: Case) -> None:
    asyncio.run(play(machine, case, Restarts(machine)))


def test_timelines_over_a_restart(machine: Machine) -> None:
    """All of them at once, for one worker: it takes seconds until a worker is missed."""
    assert {case.restarts for case in RESTARTED} == {1}

    async def story() -> None:
        restarts = Restarts(machine, parties=len(RESTARTED))
        async with asyncio.TaskGroup() as cases:
            for case in RESTARTED:
                cases.create_task(play(machine, case, restarts), name=case.id)

    try:
        asyncio.run(story())
    finally:
        assert machine.worker is not None
        if machine.worker.pid is None:
            machine.start_worker()


def test_what_is_so_only_until_the_autoscaler_has_acted_fails(machine: Machine) -> None:
    """The cloud takes longer than a step is watched, so that only the look after all is quiet can find it."""
    step = {
        "cloud": {"a": {"boot_latency": "2s"}},
        "demand": [{"id": "t", "resources": {"cpu": 1}}],
        "expect": {"ready": {"g": 0}},
    }
    group = {"name": "g", "zone": "a", "max_slices": 1, "host": {"cpu": 1}}
    case = Case.model_validate({"id": "X", "title": "nothing is made", "groups": [group], "steps": [step]})
    with pytest.raises(AssertionError, match="ready of g: 1, not 0"):
        asyncio.run(play(machine, case, Restarts(machine)))
