"""Reconcile host processes with the stored slices: start admitted ones, stop deleted ones, find running ones after a restart."""

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from emulators.local.health import HealthPorts
from emulators.local.processes import GatedProcess, Process, is_running, send_signal, still_running
from emulators.local.slices import LocalHost, LocalSlice, environment_of
from emulators.local.store import LocalStore
from emulators.sim.cloud import SLICE_LABEL

_SHORTEST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.01, 0.5
"""Between two polls of stopping processes, doubled each time: most end within the first few."""
_RETRY_SECONDS = 1.0
"""Before another attempt to start hosts after the operating system refused."""
_log = logging.getLogger(__name__)


class Reconciler:
    """Runs one task for each slice whose processes do not match the store yet."""

    def __init__(self, store: LocalStore, *, logs: Path, grace_seconds: float) -> None:
        self._store = store
        self._logs = logs
        self._grace_seconds = grace_seconds
        self._health = HealthPorts(self._healthy_slice_id)
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Resume every slice that exists: open its health ports and reconcile it."""
        await self._health.start()
        existing = list(self._store.existing(datetime.now(UTC)).values())
        for piece in existing:
            if piece.started and not piece.ended:
                await self._reopen_ports(piece)
        for piece in existing:
            self.reconcile(piece.name)

    def reconcile(self, name: str) -> None:
        """Reconcile a slice in the background."""
        self._tasks = {other: task for other, task in self._tasks.items() if not task.done()}
        if name not in self._tasks:
            self._tasks[name] = asyncio.create_task(self._reconcile(name))

    def kill_host(self, piece: LocalSlice, host: int) -> None:
        """Send SIGKILL to the processes of one host."""
        for found in still_running([piece.local_hosts[host].process]):
            send_signal(found, signal.SIGKILL)

    def runs(self, host: LocalHost) -> bool:
        """Whether a host's process runs."""
        child = self._children.get(host.process.pid)
        if child is not None and child.poll() is not None:
            del self._children[host.process.pid]
        return is_running(host.process)

    async def stop_hosts(self) -> None:
        """Delete every slice; returns when no process is left."""
        now = datetime.now(UTC)
        for piece in list(self._store.existing(now).values()):
            self._store.save(piece.model_copy(update={"gone_at": piece.gone_at or now}))
            self.reconcile(piece.name)
        await asyncio.gather(*self._tasks.values())

    async def stop(self) -> None:
        """Cancel every task and close the health ports; hosts keep running."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._health.stop()

    def _healthy_slice_id(self, name: str, host: int) -> str | None:
        piece, now = self._store.find(name), datetime.now(UTC)
        if piece is None or not piece.answers(host, now) or not self.runs(piece.local_hosts[host]):
            return None
        return piece.labels.get(SLICE_LABEL)

    async def _reopen_ports(self, piece: LocalSlice) -> None:
        ports = [await self._health.open(piece.name, i, port=host.port) for i, host in enumerate(piece.local_hosts)]
        hosts = [host.model_copy(update={"port": port}) for host, port in zip(piece.local_hosts, ports, strict=True)]
        self._store.save(piece.model_copy(update={"local_hosts": tuple(hosts)}))

    async def _reconcile(self, name: str) -> None:
        """Each step reads the store again, because calls change it meanwhile."""
        while (piece := self._store.find(name)) is not None:
            if piece.leaving and not piece.ended:
                await self._stop_slice(piece)
            elif piece.waits_for_start:
                await self._start_slice(piece)
            else:
                return

    async def _start_slice(self, piece: LocalSlice) -> None:
        """Start every host behind its gate, store them all, then open the gates.

        Hosts that are stored while the slice is not marked as started belong to a daemon that died between the two writes.
        Some of them may have passed their gates, so all are stopped and started again. Hosts that were never stored ended
        when their gates broke.
        """
        await self._terminate(host.process for host in piece.local_hosts)
        gates: list[GatedProcess] = []
        ports: list[int] = []
        try:
            for host in range(piece.hosts):
                ports.append(await self._health.open(piece.name, host))
                log = self._logs / f"{piece.name}-{host}.log"
                gates.append(GatedProcess(piece.program, env=environment_of(piece, host, os.environ), log=log))
        except OSError as error:
            _log.warning("%s cannot be started yet: %s", piece.name, error)
            await self._abandon(piece.name, gates)
            await asyncio.sleep(_RETRY_SECONDS)
            return
        current = self._store.find(piece.name)
        if current is None or not current.waits_for_start:
            await self._abandon(piece.name, gates)
            return
        hosts = tuple(LocalHost(process=gate.process, port=port) for gate, port in zip(gates, ports, strict=True))
        self._store.save(current.model_copy(update={"local_hosts": hosts}))
        self._children |= {gate.process.pid: gate.release() for gate in gates}
        self._store.save(current.model_copy(update={"local_hosts": hosts, "started": True, "env": {}}))

    async def _abandon(self, name: str, gates: list[GatedProcess]) -> None:
        self._children |= {gate.process.pid: gate.cancel() for gate in gates}
        await self._terminate(gate.process for gate in gates)
        await self._health.close(name)

    async def _stop_slice(self, piece: LocalSlice) -> None:
        await self._terminate(host.process for host in piece.local_hosts)
        await self._health.close(piece.name)
        current = self._store.find(piece.name)
        if current is not None:
            self._store.save(current.model_copy(update={"ended": True, "env": {}}))

    async def _terminate(self, processes: Iterable[Process]) -> None:
        """Send SIGTERM, then SIGKILL after the grace period; returns when no process is left."""
        leaders = tuple(processes)
        kill_at = asyncio.get_running_loop().time() + self._grace_seconds
        pause = _SHORTEST_POLL_SECONDS
        left = still_running(leaders)
        for found in left:
            send_signal(found, signal.SIGTERM)
        while left:
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_POLL_SECONDS)
            left = still_running(leaders)
            if asyncio.get_running_loop().time() >= kill_at:
                for found in left:
                    send_signal(found, signal.SIGKILL)
        for process in leaders:
            child = self._children.pop(process.pid, None)
            if child is not None:
                child.wait()
