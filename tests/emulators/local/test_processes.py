"""Processes of local hosts: the gate before the command, and identity despite pid reuse."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulators.local.processes import GatedProcess, Process, boot_id, is_running, read_stat, send_signal, still_running
from tests.activities.waiting import until

SECONDS = 60.0


@pytest.fixture
def bystander() -> Iterator[Process]:
    """A process that is not a host, in its own session."""
    child = subprocess.Popen(["sleep", "infinity"], start_new_session=True)
    try:
        seen = read_stat(child.pid)
        assert seen is not None
        yield Process(pid=child.pid, started_ticks=seen.started_ticks, boot=boot_id(), mark="none")
    finally:
        child.kill()
        child.wait()


def test_a_process_is_identified_by_pid_start_time_and_boot(bystander: Process) -> None:
    assert is_running(bystander)
    assert [seen.pid for seen in still_running([bystander])] == [bystander.pid]
    for other in ({"started_ticks": bystander.started_ticks - 1}, {"boot": "an earlier one"}):
        mistaken = bystander.model_copy(update=other)
        assert not is_running(mistaken)
        assert still_running([mistaken]) == []


def test_a_signal_does_not_reach_another_process_with_the_same_pid(bystander: Process) -> None:
    seen = read_stat(bystander.pid)
    assert seen is not None
    send_signal(seen._replace(started_ticks=seen.started_ticks - 1), signal.SIGKILL)
    send_signal(seen, signal.SIGSTOP)

    async def look_again() -> str:
        now = read_stat(bystander.pid)
        return "gone" if now is None else now.state

    # Signals to a process arrive in the order they were sent, kills before all others.
    asyncio.run(until(look_again, lambda state: state == "T", seconds=SECONDS))


def test_descendants_are_found_after_the_host_ended(tmp_path: Path) -> None:
    gate = GatedProcess(
        ["/bin/sh", "-c", "sleep infinity & sleep infinity; :"], env={"PATH": os.environ["PATH"]}, log=tmp_path / "log"
    )
    child = gate.release()

    async def left() -> int:
        return len(still_running([gate.process]))

    async def story() -> None:
        await until(left, lambda count: count == 3, seconds=SECONDS)
        child.kill()
        child.wait()
        assert not is_running(gate.process)
        assert await left() == 2
        assert still_running([gate.process.model_copy(update={"mark": "another"})]) == []

    try:
        asyncio.run(story())
    finally:
        for seen in still_running([gate.process]):
            send_signal(seen, signal.SIGKILL)
    asyncio.run(until(left, lambda count: count == 0, seconds=SECONDS))


def test_a_process_whose_daemon_dies_before_the_release_never_runs(tmp_path: Path) -> None:
    owner = f"""
import os, signal
from pathlib import Path
from emulators.local.processes import GatedProcess
held = GatedProcess(["touch", "{tmp_path}/held"], env=dict(os.environ), log=Path("{tmp_path}/log"))
freed = GatedProcess(["touch", "{tmp_path}/freed"], env=dict(os.environ), log=Path("{tmp_path}/log"))
freed.release().wait()
print(held.process.model_dump_json(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", owner], stdout=subprocess.PIPE, text=True, check=False, timeout=SECONDS)
    assert ended.returncode == -signal.SIGKILL
    process = Process.model_validate_json(ended.stdout)

    async def runs() -> bool:
        return is_running(process)

    asyncio.run(until(runs, lambda running: not running, seconds=SECONDS))
    assert (tmp_path / "freed").exists()
    assert not (tmp_path / "held").exists()


def test_a_program_name_with_blanks_and_parentheses_is_parsed(tmp_path: Path) -> None:
    odd = tmp_path / "a ) S (b"
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([odd, "infinity"], start_new_session=True)
    try:
        seen = read_stat(child.pid)
        assert seen is not None
        assert seen.session == child.pid
    finally:
        child.kill()
        child.wait()
