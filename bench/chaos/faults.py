"""Faults per call: a proxy between the workers and the simulated cloud that refuses, cuts and delays a share of all calls."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum

import aiohttp
from aiohttp import web

from embedded.ports import LOOPBACK, free_port

LONGEST_DELAY_SECONDS = 2.0
_CALL_SECONDS = 30.0


class CallFault(StrEnum):
    """What happens to a call."""

    REFUSED = "refused"
    """Answered with 503; the cloud never gets it."""
    CUT = "cut"
    """The connection is cut; the cloud never gets it."""
    UNANSWERED = "unanswered"
    """The cloud carries it out, and its reply is lost."""
    DELAYED = "delayed"
    """The cloud carries it out late."""


class FaultyProxy:
    """Forwards calls to the cloud; `share` of them meet a fault. While the cloud is down, callers see a cut connection."""

    def __init__(self, cloud_url: str, session: aiohttp.ClientSession, *, dice: random.Random, share: float) -> None:
        self.share = share
        self.calls = 0
        self.faults: Counter[CallFault] = Counter()
        self._cloud = cloud_url
        self._session = session
        self._dice = dice

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Forward one call, or let it fail."""
        self.calls += 1
        body, fault = await request.read(), self._fault()
        match fault:
            case CallFault.REFUSED:
                return web.json_response({"error": {"code": "UNAVAILABLE", "message": "try again"}}, status=503)
            case CallFault.CUT:
                return _cut(request)
            case CallFault.DELAYED:
                await asyncio.sleep(self._dice.uniform(0, LONGEST_DELAY_SECONDS))
        try:
            reply = await self._forwarded(request, body)
        except (aiohttp.ClientError, TimeoutError):
            return _cut(request)
        return _cut(request) if fault is CallFault.UNANSWERED else reply

    def _fault(self) -> CallFault | None:
        if self._dice.random() >= self.share:
            return None
        fault = self._dice.choice(list(CallFault))
        self.faults[fault] += 1
        return fault

    async def _forwarded(self, request: web.Request, body: bytes) -> web.Response:
        url = self._cloud + request.raw_path
        timeout = aiohttp.ClientTimeout(total=_CALL_SECONDS)
        async with self._session.request(request.method, url, data=body or None, timeout=timeout) as answer:
            return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)


def _cut(request: web.Request) -> web.Response:
    """Nobody hears this answer: the connection is gone."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)


@asynccontextmanager
async def running_proxy(proxy: FaultyProxy, port: int | None = None) -> AsyncIterator[str]:
    """Serve the proxy within the context; gives its URL."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    port = port or free_port()
    try:
        await web.TCPSite(runner, LOOPBACK, port).start()
        yield f"http://{LOOPBACK}:{port}"
    finally:
        await runner.cleanup()
