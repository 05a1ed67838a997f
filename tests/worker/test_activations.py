"""A worker that is stuck in a workflow ends, so that its supervisor starts another."""

import asyncio
import os
import subprocess
import sys
import threading
from typing import NoReturn

import pytest

from embedded import launcher
from tests.workflows.machine import Machine
from worker import activations
from worker.activations import STUCK_SECONDS, Activations, Stuck
from worker.exits import STUCK

BLOCKED = """
from worker import activations
activations.STUCK_SECONDS = 0.1
blocked = activations.ACTIVATIONS.under_way("run-7")
blocked.__enter__()
from worker.__main__ import main
main()
"""


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


def test_a_stuck_worker_process_ends_with_a_code_that_asks_for_another(machine: Machine) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BLOCKED],
        env=os.environ | machine.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == STUCK
    assert "run-7 has blocked a thread" in ended.stderr


def test_make_runs_process_ends_with_its_stuck_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ends(Exception):
        pass

    def end(error: Exception, code: int) -> NoReturn:
        raise Ends(f"{code}: {error}")

    monkeypatch.setattr(launcher, "fail", end)
    monkeypatch.setattr(activations, "STUCK_SECONDS", -1.0)
    with activations.ACTIVATIONS.under_way("run-7"), pytest.raises(Ends, match=f"{STUCK}: workflow run run-7"):
        asyncio.run(launcher._watch(()))
