"""Health checks of hosts: which replies count as an answer."""

import asyncio
from collections.abc import Sequence
from typing import Any

import aiohttp
import pytest

from activities.providers.gcp import health
from activities.providers.gcp.settings import Connection, Reach
from activities.providers.port import Host

HOST = "127.0.0.1"
REACHED = Host(name="h", address=HOST)
BREATH_SECONDS = 0.05
"""Between the pieces of an answer, so that they arrive apart."""


def answered(*pieces: bytes, status: str = "200 OK", host: Host = REACHED, **settings: Any) -> str | None:
    """The slice id in the reply of a host that answers in pieces; None without a check or a usable reply."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {sum(map(len, pieces))}\r\n\r\n".encode())
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(BREATH_SECONDS)
        writer.close()

    async def story() -> str | None:
        async with await asyncio.start_server(answer, HOST, 0) as server, aiohttp.ClientSession() as session:
            port = server.sockets[0].getsockname()[1]
            connection = Connection(project="p", health_port=port, health_timeout="60s", **settings)
            (after,) = await health.check([host], connection, session)
            reachable = host.external_address if connection.reach is Reach.EXTERNAL else host.address
            assert after == host.model_copy(update={"asked": bool(reachable), "answered": after.answered})
            return after.answered

    return asyncio.run(story())


@pytest.mark.parametrize(
    "pieces", [[b'{"slice": "s1"}'], [b'{"slice"', b': "s1"}'], [b'{"sl', b'ice": ', b'"s1"', b"}"]], ids=len
)
def test_an_answer_counts_in_however_many_pieces_it_comes(pieces: Sequence[bytes]) -> None:
    assert answered(*pieces) == "s1"


def test_a_host_is_checked_at_the_address_that_the_settings_select_and_not_without_it() -> None:
    outside = Host(name="h", address="", external_address=HOST)
    assert answered(b'{"slice": "s1"}', host=outside, reach="external") == "s1"
    assert answered(b'{"slice": "s1"}', host=outside, reach="internal") is None
    assert answered(b'{"slice": "s1"}', host=REACHED, reach="external") is None


def test_an_answer_that_is_not_one_is_silence() -> None:
    assert answered(b'{"slice": "s1"}', status="503 Service Unavailable") is None
    assert answered(b'{"slice"') is None
    assert answered(b'{"slice": "s1"', b" " * health.LONGEST_REPLY, b"}") is None
