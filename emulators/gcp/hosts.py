"""The hosts: every machine's own loopback addresses, with a real socket behind each that is up."""

import asyncio
from contextlib import suppress

from aiohttp import web

from emulators.gcp.cloud import Cloud
from emulators.gcp.queueing import Queueing
from emulators.gcp.records import Machine, Queued

_OWN_ADDRESS = "127.0.0.1"
"""Where no host lives: holding the port here keeps others from taking it on every address."""
_LONGEST_WAIT_SECONDS = 1.0
_SHORTEST_WAIT_SECONDS = 0.005


class Hosts:
    """Listens where a host answers, and nowhere else: whoever asks a dead host is refused the connection."""

    def __init__(self, cloud: Cloud, queueing: Queueing) -> None:
        self._cloud = cloud
        self._queueing = queueing
        self._port = 0
        self._sites: dict[str, web.TCPSite] = {}
        app = web.Application()
        app.router.add_get("/health", self._health)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, keepalive_timeout=0)

    async def start(self, port: int) -> int:
        """Take the port, a free one if it is 0, and start the hosts that are up."""
        await self._runner.setup()
        await web.TCPSite(self._runner, _OWN_ADDRESS, port).start()
        self._port = int(self._runner.addresses[0][1])
        await self._follow()
        return self._port

    async def stop(self) -> None:
        """Every host falls silent."""
        await self._runner.cleanup()

    async def run(self) -> None:
        """Follow the cloud until cancelled: let queues move up, start and stop hosts as their time comes."""
        while True:
            self._cloud.changed.clear()
            self._queueing.settle()
            await self._follow()
            try:
                await asyncio.wait_for(self._cloud.changed.wait(), self._pause_seconds())
            except TimeoutError:
                continue

    async def _follow(self) -> None:
        now = self._cloud.now()
        up = {address for machine in self._cloud.store.machines(now) for address in machine.answering(now)}
        for address in sorted(self._sites.keys() - up):
            await self._sites.pop(address).stop()
        for address in sorted(up - self._sites.keys()):
            site = web.TCPSite(self._runner, address, self._port)
            # Out of sockets, or the address is still being given back: the host is silent until the next round.
            with suppress(OSError):
                await site.start()
                self._sites[address] = site

    def _pause_seconds(self) -> float:
        """Until something changes by itself."""
        now, store = self._cloud.now(), self._cloud.store
        records: list[Machine | Queued] = [*store.machines(now), *store.queued(now)]
        moments = [moment for record in records for moment in record.moments() if moment is not None and moment > now]
        wait = (min(moments) - now).total_seconds() if moments else _LONGEST_WAIT_SECONDS
        return min(max(wait, _SHORTEST_WAIT_SECONDS), _LONGEST_WAIT_SECONDS)

    async def _health(self, request: web.Request) -> web.StreamResponse:
        """A host's health check: the slice it belongs to."""
        assert request.transport is not None
        address, now = request.transport.get_extra_info("sockname")[0], self._cloud.now()
        for machine in self._cloud.store.machines(now):
            if address in machine.answering(now):
                return web.json_response({"slice": machine.slice}, headers={"Connection": "close"})
        request.transport.abort()
        return web.Response(status=503)
