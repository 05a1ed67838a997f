"""Local hosts: what they are told, what ends with them, and what their daemon refuses."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from pydantic import JsonValue

from activities.providers.local import LocalProvider
from activities.providers.port import (
    Created,
    Invalid,
    PermissionDenied,
    Phase,
    Queued,
    Stockout,
)
from tests.activities.clouds import order_of
from tests.activities.local_cloud import DEADLINE_SECONDS, LocalCloud, RunningLocal
from tests.emulators.local_hosts import alive, answers, deleted, ended, healthy, play, running, written


@pytest.fixture(scope="module")
def lasting_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLocal]:
    """For tests that leave it running."""
    running = RunningLocal(tmp_path_factory.mktemp("local") / "hosts")
    running.start()
    try:
        yield running
    finally:
        running.shut_down()


def test_a_host_knows_who_it_is_and_nothing_of_the_daemons_secrets(
    lasting_daemon: RunningLocal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_OF_PROD", "s3cret")

    async def story(cloud: LocalCloud) -> None:
        command = 'env > "$OUT/$PENSTOCK_HOST.new"; mv "$OUT/$PENSTOCK_HOST.new" "$OUT/$PENSTOCK_HOST"; exec sleep infinity'
        order = running(order_of(cloud), command, OUT=str(tmp_path), TOKEN={"secret": "env:TOKEN_OF_PROD"})
        await cloud.provider.create(order)
        for host in range(2):
            told = dict(line.partition("=")[::2] for line in (await written(tmp_path / str(host))).splitlines())
            told = {name: value for name, value in told.items() if name not in ("PWD", "OLDPWD", "SHLVL", "_", "PENSTOCK_MARK")}
            inherited = {"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"}
            assert {name: value for name, value in told.items() if name not in inherited} == {
                "PENSTOCK_CLUSTER": cloud.cluster,
                "PENSTOCK_GROUP": order.group,
                "PENSTOCK_SLICE": order.slice,
                "PENSTOCK_HOST": str(host),
                "OUT": str(tmp_path),
                "TOKEN": "s3cret",
            }

    play(lasting_daemon, story)


def test_what_a_host_says_is_in_its_log(lasting_daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        order = running(order_of(cloud, hosts=1), "echo here I am; exec sleep infinity")
        await cloud.provider.create(order)
        assert await written(lasting_daemon.state / "logs" / f"{order.name}-0.log") == "here I am\n"

    play(lasting_daemon, story)


def test_a_host_whose_command_ends_is_silent(lasting_daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        order = running(order_of(cloud), 'test "$PENSTOCK_HOST" = 0 && exec sleep infinity')
        await cloud.provider.create(order)
        await answers(cloud, order.ref, [order.slice, None])

    play(lasting_daemon, story)


def test_what_a_host_began_ends_with_the_slice_however_stubborn(lasting_daemon: RunningLocal, tmp_path: Path) -> None:
    async def story(cloud: LocalCloud) -> None:
        stubborn = "trap '' TERM; while :; do sleep 1000; done"
        command = f'({stubborn}) & echo $! > "$OUT/new"; mv "$OUT/new" "$OUT/child"; exec sleep infinity'
        order = running(order_of(cloud, hosts=1), command, OUT=str(tmp_path))
        await cloud.provider.create(order)
        pids = [*await healthy(cloud, order.ref), int(await written(tmp_path / "child"))]
        os.kill(pids[0], signal.SIGKILL)
        await answers(cloud, order.ref, [None])
        assert alive(pids) == [pids[1]]
        await deleted(cloud, order.ref)
        assert alive(pids) == []

    play(lasting_daemon, story)


def test_a_queue_moves_up_when_the_last_process_of_another_slice_is_gone(lasting_daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        await cloud.behave(capacity=1)
        first, second = order_of(cloud, "first"), order_of(cloud, "second", queued=True)
        assert await cloud.provider.create(first) == Created(ref=first.ref)
        assert await cloud.provider.create(second) == Queued(ref=second.ref)
        with pytest.raises(Stockout):
            await cloud.provider.create(order_of(cloud, "third"))
        pids = await healthy(cloud, first.ref)
        await cloud.provider.delete(first.ref)
        await healthy(cloud, second.ref)
        assert alive(pids) == []

    play(lasting_daemon, story)


def test_a_preemption_ends_the_hosts_and_the_slice_stays_to_be_deleted(lasting_daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        order = order_of(cloud)
        await cloud.provider.create(order)
        pids = await healthy(cloud, order.ref)
        await cloud.preempt(order.ref)
        await ended(pids)
        assert (await cloud.provider.observe(order.ref)).phase is Phase.PREEMPTED
        await deleted(cloud, order.ref)

    play(lasting_daemon, story)


def test_a_program_that_is_not_there_is_invalid(lasting_daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        with pytest.raises(Invalid, match="there is no program 'no-such-program' on this machine"):
            await cloud.provider.create(running(order_of(cloud), ["no-such-program"]))

    play(lasting_daemon, story)


@pytest.mark.parametrize("env", [{"TOKEN": "s3cret\0"}, {"not a name": "s3cret"}])
def test_a_variable_that_cannot_be_is_invalid_and_not_repeated(lasting_daemon: RunningLocal, env: dict[str, JsonValue]) -> None:
    async def story(cloud: LocalCloud) -> None:
        with pytest.raises(Invalid, match=r"^env") as raised:
            await cloud.provider.create(running(order_of(cloud), ["sleep", "infinity"], **env))
        assert "s3cret" not in str(raised.value)

    play(lasting_daemon, story)


def test_whoever_does_not_know_the_token_may_do_nothing(lasting_daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        async with aiohttp.ClientSession() as session:
            with pytest.raises(PermissionDenied, match="token"):
                await LocalProvider(lasting_daemon.url, session, token="guessed").create(order_of(cloud))

    play(lasting_daemon, story)
    assert (lasting_daemon.state / "token").stat().st_mode & 0o077 == 0
    assert lasting_daemon.state.stat().st_mode & 0o077 == 0


def outcome_of(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "emulators.local", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)


def test_two_on_one_directory_are_refused(lasting_daemon: RunningLocal) -> None:
    told = outcome_of("--port", 0, "--state", lasting_daemon.state)
    assert (told.returncode, "in use by another daemon" in told.stderr) == (1, True), told.stderr


def test_a_port_that_is_taken_is_told(lasting_daemon: RunningLocal, tmp_path: Path) -> None:
    told = outcome_of("--port", lasting_daemon.url.rsplit(":", 1)[1], "--state", tmp_path / "other")
    assert (told.returncode, "cannot be used" in told.stderr) == (1, True), told.stderr


def test_a_directory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    told = outcome_of("--port", 0, "--state", tmp_path / "file" / "hosts")
    assert (told.returncode, "cannot be used" in told.stderr) == (1, True), told.stderr
    assert "Traceback" not in told.stderr
