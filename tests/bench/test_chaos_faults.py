"""The tools of `make chaos` do what they claim: calls fail as told, and a process really has a wrong clock."""

import asyncio
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from bench.chaos.clock import SkewedClock
from bench.chaos.faults import CallFault, FaultyProxy, running_proxy


class Loaded(random.Random):
    """Dice that always choose one fault."""

    def __init__(self, fault: CallFault) -> None:
        super().__init__(0)
        self._fault = fault

    def choice(self, seq: Any) -> Any:
        return self._fault


async def _call_through(fault: CallFault, *, share: float) -> tuple[int | None, list[str]]:
    """The status that a caller sees, None for a cut connection; and the bodies that the cloud got."""
    got: list[str] = []

    async def create(request: web.Request) -> web.Response:
        got.append(await request.text())
        return web.json_response({}, status=201)

    app = web.Application()
    app.router.add_post("/zones/a/resources", create)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with aiohttp.ClientSession() as session:
            proxy = FaultyProxy(f"http://127.0.0.1:{runner.addresses[0][1]}", session, dice=Loaded(fault), share=share)
            async with running_proxy(proxy) as url:
                try:
                    async with session.post(f"{url}/zones/a/resources", data="order") as reply:
                        return reply.status, got
                except aiohttp.ClientError:
                    return None, got
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("fault", "share", "status", "carried_out"),
    [
        (CallFault.CUT, 0.0, 201, True),
        (CallFault.DELAYED, 1.0, 201, True),
        (CallFault.REFUSED, 1.0, 503, False),
        (CallFault.CUT, 1.0, None, False),
        (CallFault.UNANSWERED, 1.0, None, True),
    ],
)
def test_a_call_fails_as_told(fault: CallFault, share: float, status: int | None, carried_out: bool) -> None:
    seen, got = asyncio.run(_call_through(fault, share=share))
    assert seen == status
    assert bool(got) is carried_out


def test_a_process_has_the_clock_it_was_given(tmp_path: Path) -> None:
    clock = SkewedClock(tmp_path)
    if not clock.is_possible:
        pytest.skip("no C compiler here: runs of `make chaos` say so too")
    script = "import datetime, time; print(time.time()); print(datetime.datetime.now().timestamp())"
    for offset in (-300, 300):
        environment = dict(os.environ) | clock.environment(offset)
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
        for told in map(float, done.stdout.split()):
            assert abs(told - time.time() - offset) < 60
