"""Makes the machine agree with the record: begins what is admitted, ends what is to leave, finds again what was left running."""

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from emulators.local.health import HealthPorts
from emulators.local.processes import Gated, Process, is_running, remaining, send
from emulators.local.slices import LocalHost, Slice, environment_of
from emulators.local.store import Store
from emulators.sim.cloud import SLICE_LABEL

_SHORTEST_LOOK_SECONDS, _LONGEST_LOOK_SECONDS = 0.01, 0.5
"""Between two looks at processes that are ending: at first as soon as most of them are gone."""
_RETRY_SECONDS = 1.0
"""Before hosts are begun again that the machine had no room for."""
_log = logging.getLogger(__name__)


class Keeper:
    """One task for each slice whose processes do not agree with the record yet; none for the others."""

    def __init__(self, store: Store, *, logs: Path, grace_seconds: float) -> None:
        self._store = store
        self._logs = logs
        self._grace_seconds = grace_seconds
        self._health = HealthPorts(self._vouch)
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self) -> None:
        """Take up every slice that exists where the last daemon left it."""
        await self._health.begin()
        existing = list(self._store.existing(datetime.now(UTC)).values())
        for held in existing:
            if held.started and not held.ended:
                await self._listen_again(held)
        for held in existing:
            self.look_after(held.name)

    def look_after(self, name: str) -> None:
        """See to it that the slice's processes come to agree with the record."""
        self._tasks = {other: task for other, task in self._tasks.items() if not task.done()}
        if name not in self._tasks:
            self._tasks[name] = asyncio.create_task(self._agree(name))

    def kill_host(self, held: Slice, host: int) -> None:
        """End one host of a slice without warning."""
        for seen in remaining([held.hosts[host].process]):
            send(seen, signal.SIGKILL)

    def runs(self, host: LocalHost) -> bool:
        """Whether a host's process has not ended."""
        child = self._children.get(host.process.pid)
        if child is not None and child.poll() is not None:
            del self._children[host.process.pid]
        return is_running(host.process)

    async def end_all(self) -> None:
        """End every host of every slice; returns when no process is left."""
        now = datetime.now(UTC)
        for held in list(self._store.existing(now).values()):
            gone = held.resource.model_copy(update={"gone_at": held.resource.gone_at or now})
            self._store.keep(held.model_copy(update={"resource": gone}))
            self.look_after(held.name)
        await asyncio.gather(*self._tasks.values())

    async def end(self) -> None:
        """Stop looking after anything; hosts go on running."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._health.end()

    def _vouch(self, name: str, host: int) -> str | None:
        held, now = self._store.held(name), datetime.now(UTC)
        if held is None or not held.started or not held.resource.answers(host, now) or not self.runs(held.hosts[host]):
            return None
        return held.resource.labels.get(SLICE_LABEL)

    async def _listen_again(self, held: Slice) -> None:
        ports = [await self._health.open(held.name, i, port=host.port) for i, host in enumerate(held.hosts)]
        hosts = [host.model_copy(update={"port": port}) for host, port in zip(held.hosts, ports, strict=True)]
        self._store.keep(held.model_copy(update={"hosts": tuple(hosts)}))

    async def _agree(self, name: str) -> None:
        """Every step begins from the record as it is then: calls go on meanwhile."""
        while (held := self._store.held(name)) is not None:
            if held.leaving and not held.ended:
                await self._end(held)
            elif held.waits_for_start:
                await self._start(held)
            else:
                return

    async def _start(self, held: Slice) -> None:
        """Begin every host behind its gate, put all on record, let them go.

        Hosts on record that were not all let go are those of a daemon that died just then. They are ended and begun again,
        for nobody knows which of them were released; those that are not on record ended when their gates broke.
        """
        await self._until_gone(host.process for host in held.hosts)
        gates: list[Gated] = []
        ports: list[int] = []
        try:
            for host in range(held.resource.hosts):
                ports.append(await self._health.open(held.name, host))
                log = self._logs / f"{held.name}-{host}.log"
                gates.append(Gated(held.program, env=environment_of(held, host, os.environ), log=log))
        except OSError as error:
            _log.warning("%s cannot be started yet: %s", held.name, error)
            await self._abandon(held.name, gates)
            await asyncio.sleep(_RETRY_SECONDS)
            return
        current = self._store.held(held.name)
        if current is None or not current.waits_for_start:
            await self._abandon(held.name, gates)
            return
        hosts = tuple(LocalHost(process=gate.process, port=port) for gate, port in zip(gates, ports, strict=True))
        self._store.keep(current.model_copy(update={"hosts": hosts}))
        self._children |= {gate.process.pid: gate.release() for gate in gates}
        self._store.keep(current.model_copy(update={"hosts": hosts, "started": True, "env": {}}))

    async def _abandon(self, name: str, gates: list[Gated]) -> None:
        self._children |= {gate.process.pid: gate.withhold() for gate in gates}
        await self._until_gone(gate.process for gate in gates)
        await self._health.close(name)

    async def _end(self, held: Slice) -> None:
        await self._until_gone(host.process for host in held.hosts)
        await self._health.close(held.name)
        current = self._store.held(held.name)
        if current is not None:
            self._store.keep(current.model_copy(update={"ended": True, "env": {}}))

    async def _until_gone(self, processes: Iterable[Process]) -> None:
        """Ask processes to end, then make them; returns when nothing of them is left, however long that takes."""
        known = tuple(processes)
        patience = asyncio.get_running_loop().time() + self._grace_seconds
        pause = _SHORTEST_LOOK_SECONDS
        left = remaining(known)
        for seen in left:
            send(seen, signal.SIGTERM)
        while left:
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_LOOK_SECONDS)
            left = remaining(known)
            if asyncio.get_running_loop().time() >= patience:
                for seen in left:
                    send(seen, signal.SIGKILL)
        for process in known:
            child = self._children.pop(process.pid, None)
            if child is not None:
                child.wait()
