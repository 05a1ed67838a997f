"""A worker that is stuck in a workflow ends, so that its supervisor starts another."""

import asyncio
import os
import subprocess
import sys
import threading
from typing import NoReturn
from uuid import uuid4

import pytest

from embedded import launcher
from tests.workflows.machine import Machine
from worker import activations
from worker.activations import STUCK_SECONDS, Activations, Stuck
from worker.exits import STUCK

BLOCKED = """
import threading
from temporalio import workflow
from worker import activations, assembly

@workflow.defn
class Blocked:
    @workflow.run
    async def run(self) -> None:
        threading.Event().wait()

assembly.WORKFLOWS += (Blocked,)
activations.STUCK_SECONDS = 3.0
from worker.__main__ import main
main()
"""
"""A worker that also runs a workflow which nothing can interrupt, and takes it for stuck a second after the SDK does."""


def test_an_activation_is_stuck_once_it_has_taken_too_long_and_not_after_it_ended() -> None:
    now = 0.0
    under_way = Activations(clock=lambda: now)
    with under_way.under_way("run-7"):
        now = STUCK_SECONDS
        under_way.check()
        now += 1
        with pytest.raises(Stuck, match="run-7 has blocked a thread"):
            under_way.check()
    under_way.check()


def test_activations_of_several_threads_are_told_apart() -> None:
    now = 0.0
    under_way, begun, release = Activations(clock=lambda: now), threading.Event(), threading.Event()

    def block() -> None:
        with under_way.under_way("run-8"):
            begun.set()
            release.wait()

    thread = threading.Thread(target=block)
    thread.start()
    begun.wait()
    with under_way.under_way("run-9"):
        pass
    now = STUCK_SECONDS + 1
    with pytest.raises(Stuck, match="run-8"):
        under_way.check()
    release.set()
    thread.join()
    under_way.check()


def test_a_workflow_that_blocks_for_good_ends_its_worker_process_with_a_code_that_asks_for_another(machine: Machine) -> None:
    name = f"blocked-{uuid4().hex[:8]}"

    async def story() -> None:
        blocked = await (await machine.client()).start_workflow("Blocked", id=name, task_queue=name)
        try:
            ended = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-c", BLOCKED],
                env=os.environ | machine.environment | {"PENSTOCK_TASK_QUEUE": name},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        finally:
            await blocked.terminate()
        assert ended.returncode == STUCK, ended.stderr
        assert "[TMPRL1101] Potential deadlock detected" in ended.stderr
        assert f"workflow run {blocked.first_execution_run_id} has blocked a thread" in ended.stderr

    asyncio.run(story())


def test_make_runs_process_ends_with_its_stuck_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ends(Exception):
        pass

    def end(error: Exception, code: int) -> NoReturn:
        raise Ends(f"{code}: {error}")

    monkeypatch.setattr(launcher, "fail", end)
    monkeypatch.setattr(activations, "STUCK_SECONDS", -1.0)
    with activations.ACTIVATIONS.under_way("run-7"), pytest.raises(Ends, match=f"{STUCK}: workflow run run-7"):
        asyncio.run(launcher._watch(()))
