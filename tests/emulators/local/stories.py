"""Steps that tests of local hosts share: create, wait, delete, and edit the store of a stopped daemon."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from pydantic import JsonValue

from activities.providers.port import Adopted, Created, Gone, Order, Queued, Ref, Transient
from emulators.local.processes import read_stat
from emulators.local.slices import LocalSlice
from emulators.local.store import LocalStore
from tests.activities.local_cloud import DEADLINE_SECONDS, LocalCloud, RunningLocal, local_cloud
from tests.activities.waiting import until


def play(daemon: RunningLocal, story: Callable[[LocalCloud], Awaitable[None]]) -> None:
    """Run a story in a zone that no other test uses."""

    async def played() -> None:
        async with local_cloud(daemon) as cloud:
            await story(cloud)

    asyncio.run(played())


def running(order: Order, command: JsonValue, **env: JsonValue) -> Order:
    """The order with a command and variables for its hosts."""
    return order.model_copy(update={"settings": {"command": command, "env": env}})


async def created(cloud: LocalCloud, order: Order) -> Created | Adopted | Queued:
    """Create, repeated while the call fails: a pooled connection to the killed daemon may be left."""

    async def attempt() -> Created | Adopted | Queued | None:
        try:
            return await cloud.provider.create(order)
        except Transient:
            return None

    outcome = await until(attempt, lambda outcome: outcome is not None, seconds=DEADLINE_SECONDS)
    assert outcome is not None
    return outcome


async def healthy(cloud: LocalCloud, ref: Ref) -> list[int]:
    """Wait until every host of a slice answers; returns their pids."""
    await until(lambda: cloud.provider.observe(ref), lambda seen: seen.healthy, seconds=DEADLINE_SECONDS)
    return await cloud.pids(ref)


async def answers(cloud: LocalCloud, ref: Ref, expected: list[str | None]) -> None:
    """Wait until the hosts answer with these slice ids; None is no answer."""

    async def answered() -> list[str | None]:
        return [host.answered for host in (await cloud.provider.observe(ref)).hosts]

    await until(answered, lambda hosts: hosts == expected, seconds=DEADLINE_SECONDS)


async def deleted(cloud: LocalCloud, ref: Ref) -> None:
    """Delete a slice, and wait until it is gone."""
    await until(lambda: cloud.provider.delete(ref), lambda left: isinstance(left, Gone), seconds=DEADLINE_SECONDS)


async def written(path: Path) -> str:
    """Wait until a file has content; returns it."""

    async def text() -> str:
        return path.read_text() if path.exists() else ""

    return await until(text, bool, seconds=DEADLINE_SECONDS)


async def ended(pids: list[int]) -> None:
    """Wait until the processes have ended; the kernel does not reuse their pids that soon."""

    async def left() -> list[int]:
        return alive(pids)

    await until(left, lambda pids: not pids, seconds=DEADLINE_SECONDS)


def alive(pids: list[int]) -> list[int]:
    """Those of the pids whose processes run."""
    return [pid for pid in pids if (seen := read_stat(pid)) is not None and seen.runs]


def amend(daemon: RunningLocal, name: str, change: Callable[[LocalSlice], LocalSlice]) -> None:
    """Change a stored slice while the daemon is stopped."""
    store = LocalStore(daemon.state / "slices.sqlite")
    held = store.find(name)
    assert held is not None
    store.save(change(held))
    store.close()
