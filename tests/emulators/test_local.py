"""The daemon of local hosts as a process: what survives it, what it ends, and what is told when it cannot start."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from pydantic import JsonValue

from activities.providers.local import LocalProvider
from activities.providers.port import (
    Adopted,
    Created,
    Gone,
    Invalid,
    Order,
    PermissionDenied,
    Phase,
    Queued,
    Ref,
    Stockout,
    Transient,
)
from emulators.local.processes import Seen, look
from emulators.local.slices import Slice
from emulators.local.store import Store
from tests.activities.clouds import order_of
from tests.activities.local_cloud import DEADLINE_SECONDS, LocalCloud, RunningLocal, local_cloud
from tests.activities.waiting import until


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[RunningLocal]:
    running = RunningLocal(tmp_path / "hosts")
    running.start()
    try:
        yield running
    finally:
        running.shut_down()


@pytest.fixture(scope="module")
def lasting_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLocal]:
    """For tests that leave it running."""
    running = RunningLocal(tmp_path_factory.mktemp("local") / "hosts")
    running.start()
    try:
        yield running
    finally:
        running.shut_down()


def play(daemon: RunningLocal, story: Callable[[LocalCloud], Awaitable[None]]) -> None:
    async def played() -> None:
        async with local_cloud(daemon) as cloud:
            await story(cloud)

    asyncio.run(played())


def running(order: Order, command: JsonValue, **env: JsonValue) -> Order:
    return order.model_copy(update={"settings": {"command": command, "env": env}})


async def created(cloud: LocalCloud, order: Order) -> Created | Adopted | Queued:
    """What comes of an order that is repeated for as long as nobody answers: connections to a dead daemon may still be about."""

    async def attempt() -> Created | Adopted | Queued | None:
        try:
            return await cloud.provider.create(order)
        except Transient:
            return None

    outcome = await until(attempt, lambda outcome: outcome is not None, seconds=DEADLINE_SECONDS)
    assert outcome is not None
    return outcome


async def healthy(cloud: LocalCloud, ref: Ref) -> list[int]:
    """The processes of a slice, once every host answers."""
    await until(lambda: cloud.provider.observe(ref), lambda seen: seen.healthy, seconds=DEADLINE_SECONDS)
    return await cloud.pids(ref)


async def answers(cloud: LocalCloud, ref: Ref, expected: list[str | None]) -> None:
    async def answered() -> list[str | None]:
        return [host.answered for host in (await cloud.provider.observe(ref)).hosts]

    await until(answered, lambda hosts: hosts == expected, seconds=DEADLINE_SECONDS)


async def deleted(cloud: LocalCloud, ref: Ref) -> None:
    await until(lambda: cloud.provider.delete(ref), lambda left: isinstance(left, Gone), seconds=DEADLINE_SECONDS)


async def written(path: Path) -> str:
    async def text() -> str:
        return path.read_text() if path.exists() else ""

    return await until(text, bool, seconds=DEADLINE_SECONDS)


async def ended(pids: list[int]) -> None:
    """Processes that were there when they were told of are not; nobody else takes their numbers that soon."""

    async def left() -> list[int]:
        return alive(pids)

    await until(left, lambda pids: not pids, seconds=DEADLINE_SECONDS)


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if (seen := look(pid)) is not None and seen.runs]


def amend(daemon: RunningLocal, name: str, change: Callable[[Slice], Slice]) -> None:
    """Change the record of a daemon that is dead."""
    store = Store(daemon.state / "slices.sqlite")
    held = store.held(name)
    assert held is not None
    store.keep(change(held))
    store.close()


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


def test_a_host_that_died_while_nobody_looked_is_silent(daemon: RunningLocal) -> None:
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


def test_another_process_with_a_hosts_number_is_neither_its_health_nor_its_victim(daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud, stranger: Seen) -> None:
        order = order_of(cloud)
        await cloud.provider.create(order)
        pids = await healthy(cloud, order.ref)
        daemon.kill()
        os.kill(pids[1], signal.SIGKILL)

        def reused(held: Slice) -> Slice:
            first, second = held.hosts
            taken = second.process.model_copy(update={"pid": stranger.pid, "started_ticks": stranger.started_ticks - 1})
            return held.model_copy(update={"hosts": (first, second.model_copy(update={"process": taken}))})

        amend(daemon, order.name, reused)
        daemon.start()
        await answers(cloud, order.ref, [order.slice, None])
        await deleted(cloud, order.ref)
        assert alive([stranger.pid]) == [stranger.pid]

    innocent = subprocess.Popen(["sleep", "infinity"], start_new_session=True)
    try:
        seen = look(innocent.pid)
        assert seen is not None
        play(daemon, lambda cloud: story(cloud, seen))
    finally:
        innocent.kill()
        innocent.wait()


def test_a_slice_that_was_only_put_on_record_is_begun_by_the_next_daemon(daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        order = order_of(cloud)
        await cloud.hold_queue()
        await cloud.provider.create(order.model_copy(update={"queued": True}))
        daemon.kill()
        now = datetime.now(UTC)
        moments = {"booting_at": now, "running_at": now, "healthy_at": now}
        amend(daemon, order.name, lambda held: held.model_copy(update={"resource": held.resource.model_copy(update=moments)}))
        daemon.start()
        await healthy(cloud, order.ref)
        assert await created(cloud, order) == Adopted(ref=order.ref)
        assert await cloud.times_made(order.ref) == 1

    play(daemon, story)


def test_hosts_that_were_begun_but_perhaps_not_all_let_go_are_begun_again_and_never_twice(daemon: RunningLocal) -> None:
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
def test_a_daemon_killed_while_it_creates_makes_every_host_once(daemon: RunningLocal, tmp_path: Path, moment: int) -> None:
    """At whatever moment it dies: every process that ran left a file with its number, and those that still run are on record."""

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
        begun = [int(path.name) for path in tmp_path.iterdir() if path.name.isdecimal()]
        assert sorted(alive(begun)) == sorted(pids)

    play(daemon, story)


def test_a_delete_goes_on_after_a_kill(daemon: RunningLocal) -> None:
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


def test_stopping_the_daemon_leaves_hosts_and_shutting_it_down_leaves_none(daemon: RunningLocal) -> None:
    pids: list[int] = []

    async def story(cloud: LocalCloud) -> None:
        order = order_of(cloud)
        await cloud.provider.create(order)
        pids.extend(await healthy(cloud, order.ref))

    play(daemon, story)
    assert daemon.stop() == 0
    assert alive(pids) == pids
    assert daemon.shut_down() == 0
    assert alive(pids) == []
    daemon.start()
    play(daemon, nothing_is_left)


async def nothing_is_left(cloud: LocalCloud) -> None:
    assert [item["phase"] for item in (await cloud.call("GET", "/resources"))["items"]] == ["gone"]


def test_a_daemon_told_to_stop_hosts_leaves_none_when_it_is_stopped(tmp_path: Path) -> None:
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


def test_variables_are_forgotten_once_the_hosts_have_them(daemon: RunningLocal) -> None:
    async def story(cloud: LocalCloud) -> None:
        order = running(order_of(cloud), ["sleep", "infinity"], TOKEN="s3cret")
        await cloud.provider.create(order)
        await healthy(cloud, order.ref)
        daemon.kill()
        amend(daemon, order.name, lambda held: held if held.env == {} else pytest.fail(f"remembered: {held.env}"))

    play(daemon, story)


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
