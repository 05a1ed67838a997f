"""Local hosts: their environment, logs, health and descendants, and calls that the daemon refuses."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner
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
from emulators.local.__main__ import main
from tests.activities.clouds import order_of
from tests.activities.local_cloud import DEADLINE_SECONDS, LocalCloud, RunningLocal
from tests.emulators.local.stories import alive, answers, deleted, ended, healthy, play, running, written


def test_a_host_gets_its_identity_and_variables_and_no_secret_of_the_daemon(
    daemon: RunningLocal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_OF_PROD", "s3cret")

    async def story(cloud: LocalCloud) -> None:
        command = 'env > "$OUT/$PENSTOCK_HOST.new"; mv "$OUT/$PENSTOCK_HOST.new" "$OUT/$PENSTOCK_HOST"; exec sleep infinity'
        order = running(order_of(cloud), command, OUT=str(tmp_path), TOKEN={"secret": "env:TOKEN_OF_PROD"})
        await cloud.provider.create(order)
        for host in range(2):
            found = dict(line.partition("=")[::2] for line in (await written(tmp_path / str(host))).splitlines())
            found = {name: value for name, value in found.items() if name not in ("PWD", "OLDPWD", "SHLVL", "_", "PENSTOCK_MARK")}
            inherited = {"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"}
            assert {name: value for name, value in found.items() if name not in inherited} == {
                "PENSTOCK_CLUSTER": cloud.cluster,
                "PENSTOCK_GROUP": order.group,
                "PENSTOCK_SLICE": order.slice,
                "PENSTOCK_HOST": str(host),
                "OUT": str(tmp_path),
                "TOKEN": "s3cret",
            }

    play(daemon, story)


def test_the_output_of_a_host_is_in_its_log(daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        order = running(order_of(cloud, hosts=1), "echo here I am; exec sleep infinity")
        await cloud.provider.create(order)
        assert await written(daemon.state / "logs" / f"{order.name}-0.log") == "here I am\n"

    play(daemon, story)


def test_a_host_whose_command_exits_does_not_answer(daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        order = running(order_of(cloud), 'test "$PENSTOCK_HOST" = 0 && exec sleep infinity')
        await cloud.provider.create(order)
        await answers(cloud, order.ref, [order.slice, None])

    play(daemon, story)


def test_deleting_a_slice_kills_descendants_that_ignore_sigterm(daemon: RunningLocal, tmp_path: Path) -> None:
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

    play(daemon, story)


def test_a_queued_slice_is_admitted_when_the_last_process_of_another_is_gone(daemon: RunningLocal) -> None:
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

    play(daemon, story)


def test_a_preemption_stops_the_hosts_and_the_slice_stays_until_deleted(daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        order = order_of(cloud)
        await cloud.provider.create(order)
        pids = await healthy(cloud, order.ref)
        await cloud.preempt(order.ref)
        await ended(pids)
        assert (await cloud.provider.observe(order.ref)).phase is Phase.PREEMPTED
        await deleted(cloud, order.ref)

    play(daemon, story)


def test_a_missing_program_is_invalid(daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        with pytest.raises(Invalid, match="there is no program 'no-such-program' on this machine"):
            await cloud.provider.create(running(order_of(cloud), ["no-such-program"]))

    play(daemon, story)


@pytest.mark.parametrize("env", [{"TOKEN": "s3cret\0"}, {"not a name": "s3cret"}])
def test_an_invalid_variable_is_refused_without_its_value(daemon: RunningLocal, env: dict[str, JsonValue]) -> None:
    async def story(cloud: LocalCloud) -> None:
        with pytest.raises(Invalid, match=r"^env") as raised:
            await cloud.provider.create(running(order_of(cloud), ["sleep", "infinity"], **env))
        assert "s3cret" not in str(raised.value)

    play(daemon, story)


def test_a_call_without_the_token_is_refused(daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        async with aiohttp.ClientSession() as session:
            with pytest.raises(PermissionDenied, match="token"):
                await LocalProvider(daemon.url, session, token="guessed").create(order_of(cloud))

    play(daemon, story)
    assert (daemon.state / "token").stat().st_mode & 0o077 == 0
    assert daemon.state.stat().st_mode & 0o077 == 0


def test_a_second_daemon_on_the_same_directory_is_refused(daemon: RunningLocal) -> None:
    command = [sys.executable, "-m", "emulators.local", "--port", "0", "--state", str(daemon.state)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
    assert (ended.returncode, "in use by another daemon" in ended.stderr) == (1, True), ended.stderr


def test_a_port_in_use_is_reported(daemon: RunningLocal, tmp_path: Path) -> None:
    ended = CliRunner().invoke(main, ["--port", daemon.url.rsplit(":", 1)[1], "--state", str(tmp_path / "other")])
    assert (ended.exit_code, "cannot be used" in ended.output) == (1, True), ended.output


def test_an_unusable_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    ended = CliRunner().invoke(main, ["--port", "0", "--state", str(tmp_path / "file" / "hosts")])
    assert (ended.exit_code, type(ended.exception)) == (1, SystemExit)
    assert "cannot be used" in ended.output
