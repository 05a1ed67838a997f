"""Health checks of the emulated hosts: a listening socket at the loopback address of every healthy host."""

import asyncio
from contextlib import suppress

from aiohttp import web

from emulators.command_line import LOOPBACK
from emulators.gcp.cloud import Cloud
from emulators.gcp.queued_resources import QueuedResources
from emulators.gcp.records import Machine, QueuedResource

_LONGEST_WAIT_SECONDS = 1.0
_SHORTEST_WAIT_SECONDS = 0.005


class HealthServers:
    """Listens at the addresses of healthy hosts only: a connection to any other host is refused."""

    def __init__(self, cloud: Cloud, queue: QueuedResources) -> None:
        self._cloud = cloud
        self._queue = queue
        self._port = 0
        self._sites: dict[str, web.TCPSite] = {}
        app = web.Application()
        app.router.add_get("/health", self._health)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, keepalive_timeout=0)

    async def start(self, port: int) -> int:
        """Listen for the hosts that are healthy now, on a free port if it is 0; returns the port."""
        await self._runner.setup()
        # No host has this address. Binding the port here keeps other programs from binding it on every address.
        await web.TCPSite(self._runner, LOOPBACK, port).start()
        self._port = int(self._runner.addresses[0][1])
        await self._sync()
        return self._port

    async def stop(self) -> None:
        """Close every socket."""
        await self._runner.cleanup()

    async def run(self) -> None:
        """Until cancelled: admit queued resources, and open and close sockets as hosts come and go."""
        while True:
            self._cloud.changed.clear()
            self._queue.settle()
            await self._sync()
            try:
                await asyncio.wait_for(self._cloud.changed.wait(), self._seconds_to_next_change())
            except TimeoutError:
                continue

    async def _sync(self) -> None:
        now = self._cloud.now()
        healthy = {address for machine in self._cloud.store.machines(now) for address in machine.healthy_hosts(now)}
        for address in sorted(self._sites.keys() - healthy):
            await self._sites.pop(address).stop()
        for address in sorted(healthy - self._sites.keys()):
            site = web.TCPSite(self._runner, address, self._port)
            # No free socket, or the address is still being released: the host does not answer until the next round.
            with suppress(OSError):
                await site.start()
                self._sites[address] = site

    def _seconds_to_next_change(self) -> float:
        """Time until some record changes its state without a call."""
        now, store = self._cloud.now(), self._cloud.store
        records: list[Machine | QueuedResource] = [*store.machines(now), *store.queued_resources(now)]
        moments = [moment for record in records for moment in record.moments() if moment is not None and moment > now]
        wait = (min(moments) - now).total_seconds() if moments else _LONGEST_WAIT_SECONDS
        return min(max(wait, _SHORTEST_WAIT_SECONDS), _LONGEST_WAIT_SECONDS)

    async def _health(self, request: web.Request) -> web.StreamResponse:
        """Health check of a host: the slice it belongs to."""
        assert request.transport is not None
        address, now = request.transport.get_extra_info("sockname")[0], self._cloud.now()
        for machine in self._cloud.store.machines(now):
            if address in machine.healthy_hosts(now):
                return web.json_response({"slice": machine.slice}, headers={"Connection": "close"})
        request.transport.abort()
        return web.Response(status=503)
