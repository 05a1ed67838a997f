"""The daemon of local hosts as a process: hosts survive its restarts, and it starts and stops each exactly once."""

import asyncio
import os
import signal
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from activities.providers.port import (
    Adopted,
    Created,
    Phase,
)
from emulators.local.processes import ProcessStat, read_stat
from emulators.local.slices import LocalSlice
from tests.activities.clouds import order_of
from tests.activities.local_cloud import DEADLINE_SECONDS, LocalCloud, RunningLocal
from tests.activities.waiting import until
from tests.emulators.local.stories import alive, amend, answers, created, deleted, ended, healthy, play, running, written


def test_hosts_and_their_addresses_survive_a_kill_of_the_daemon(daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        order = order_of(cloud)
        await cloud.provider.create(order)
        pids = await healthy(cloud, order.ref)
        addresses = [host.address for host in (await cloud.provider.observe(order.ref)).hosts]
        daemon.kill()
        assert alive(pids) == pids
        daemon.start()
        assert await created(cloud, order) == Adopted(ref=order.ref)
        assert await healthy(cloud, order.ref) == pids
        assert [host.address for host in (await cloud.provider.observe(order.ref)).hosts] == addresses
        assert await cloud.times_made(order.ref) == 1
        await deleted(cloud, order.ref)
        assert alive(pids) == []

    play(daemon, story)


def test_a_host_that_died_while_the_daemon_was_down_does_not_answer(daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        order = order_of(cloud)
        await cloud.provider.create(order)
        pids = await healthy(cloud, order.ref)
        daemon.kill()
        os.kill(pids[1], signal.SIGKILL)
        daemon.start()
        await answers(cloud, order.ref, [order.slice, None])
        assert alive(pids) == [pids[0]]

    play(daemon, story)


def test_another_process_with_a_hosts_pid_is_neither_healthy_nor_killed(daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud, other: ProcessStat) -> None:
        order = order_of(cloud)
        await cloud.provider.create(order)
        pids = await healthy(cloud, order.ref)
        daemon.kill()
        os.kill(pids[1], signal.SIGKILL)

        def reused(held: LocalSlice) -> LocalSlice:
            first, second = held.local_hosts
            taken = second.process.model_copy(update={"pid": other.pid, "started_ticks": other.started_ticks - 1})
            return held.model_copy(update={"local_hosts": (first, second.model_copy(update={"process": taken}))})

        amend(daemon, order.name, reused)
        daemon.start()
        await answers(cloud, order.ref, [order.slice, None])
        await deleted(cloud, order.ref)
        assert alive([other.pid]) == [other.pid]

    innocent = subprocess.Popen(["sleep", "infinity"], start_new_session=True)
    try:
        seen = read_stat(innocent.pid)
        assert seen is not None
        play(daemon, lambda cloud: story(cloud, seen))
    finally:
        innocent.kill()
        innocent.wait()


def test_a_slice_that_was_only_stored_is_started_by_the_next_daemon(daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        order = order_of(cloud)
        await cloud.hold_queue()
        await cloud.provider.create(order.model_copy(update={"queued": True}))
        daemon.kill()
        now = datetime.now(UTC)
        moments = {"booting_at": now, "running_at": now, "healthy_at": now}
        amend(daemon, order.name, lambda held: held.model_copy(update=moments))
        daemon.start()
        await healthy(cloud, order.ref)
        assert await created(cloud, order) == Adopted(ref=order.ref)
        assert await cloud.times_made(order.ref) == 1

    play(daemon, story)


def test_hosts_that_were_stored_but_perhaps_not_all_released_are_restarted_once(daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        order = order_of(cloud)
        await cloud.provider.create(order)
        before = await healthy(cloud, order.ref)
        daemon.kill()
        os.kill(before[1], signal.SIGKILL)
        amend(daemon, order.name, lambda held: held.model_copy(update={"started": False}))
        daemon.start()
        after = await healthy(cloud, order.ref)
        assert alive(before) == []
        assert alive(after) == after
        assert await cloud.times_made(order.ref) == 1

    play(daemon, story)


@pytest.mark.parametrize("moment", range(4))
def test_a_daemon_killed_during_a_create_runs_every_host_once(daemon: RunningLocal, tmp_path: Path, moment: int) -> None:
    """At any moment: every process that ran left a file with its pid, and those that still run are stored."""

    async def story(cloud: LocalCloud) -> None:
        command = 'echo $$ > "$OUT/$$"; exec sleep infinity'
        order = running(order_of(cloud, hosts=6), command, OUT=str(tmp_path))
        creating = asyncio.create_task(cloud.provider.create(order))
        if moment:
            await until(
                lambda: cloud.provider.observe(order.ref), lambda seen: seen.phase is not Phase.GONE, seconds=DEADLINE_SECONDS
            )
        for _ in range(moment - 1):
            await cloud.provider.observe(order.ref)
        daemon.kill()
        await asyncio.gather(creating, return_exceptions=True)
        daemon.start()
        assert isinstance(await created(cloud, order), Created | Adopted)
        pids = await healthy(cloud, order.ref)
        assert await cloud.times_made(order.ref) == 1
        for pid in pids:
            await written(tmp_path / str(pid))
        started = [int(path.name) for path in tmp_path.iterdir() if path.name.isdecimal()]
        assert sorted(alive(started)) == sorted(pids)

    play(daemon, story)


def test_a_delete_continues_after_a_kill_of_the_daemon(daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        order = running(order_of(cloud), "trap '' TERM; while :; do sleep 1000; done")
        await cloud.provider.create(order)
        pids = await healthy(cloud, order.ref)
        await cloud.provider.delete(order.ref)
        daemon.kill()
        daemon.start()
        await ended(pids)
        await deleted(cloud, order.ref)

    play(daemon, story)


def test_sigterm_keeps_hosts_running_and_shutdown_stops_them(tmp_path: Path) -> None:
    daemon = RunningLocal(tmp_path / "hosts")
    pids: list[int] = []

    async def story(cloud: LocalCloud) -> None:
        order = order_of(cloud)
        await cloud.provider.create(order)
        pids.extend(await healthy(cloud, order.ref))

    daemon.start()
    try:
        play(daemon, story)
        assert daemon.stop() == 0
        assert alive(pids) == pids
    finally:
        assert daemon.shut_down() == 0
    assert alive(pids) == []
    daemon.start()
    play(daemon, nothing_is_left)
    daemon.kill()


async def nothing_is_left(cloud: LocalCloud) -> None:
    assert [item["phase"] for item in (await cloud.call("GET", "/resources"))["items"]] == ["gone"]


def test_with_stop_hosts_sigterm_stops_every_host(tmp_path: Path) -> None:
    daemon = RunningLocal(tmp_path / "hosts", "--stop-hosts")
    pids: list[int] = []

    async def story(cloud: LocalCloud) -> None:
        for order in (order_of(cloud, "one"), order_of(cloud, "two")):
            await cloud.provider.create(order)
            pids.extend(await healthy(cloud, order.ref))

    daemon.start()
    try:
        play(daemon, story)
    finally:
        assert daemon.stop() == 0
    assert len(pids) == 4
    assert alive(pids) == []


def test_variables_are_deleted_once_the_hosts_have_them(daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        order = running(order_of(cloud), ["sleep", "infinity"], TOKEN="s3cret")
        await cloud.provider.create(order)
        await healthy(cloud, order.ref)
        daemon.kill()
        amend(daemon, order.name, lambda held: held if held.env == {} else pytest.fail(f"remembered: {held.env}"))

    play(daemon, story)
