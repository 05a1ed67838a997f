"""Whether hosts are well: each is asked at its own address, and must answer with the id of its slice."""

import asyncio
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import aiohttp
from pydantic import BaseModel, ValidationError
from yarl import URL

from activities.providers.gcp.settings import Connection
from activities.providers.port import Host

PATH = "/health"
"""What hosts answer under, with `{"slice": "…"}`."""
GUEST_NAMESPACE, GUEST_KEY = "penstock", "slice"
"""The guest attribute that hosts without a route to them write their slice id to."""
AT_ONCE = 128
"""Hosts of one slice asked at once: the largest slices have more hosts than a process may have connections."""
LONGEST_REPLY = 4096
"""Bytes of a reply that are read: something else may listen there."""


class _Health(BaseModel):
    slice: str


async def ask(hosts: Sequence[str | None], connection: Connection, session: aiohttp.ClientSession) -> tuple[Host, ...]:
    """All hosts, many at once, by address; those without one are not asked."""
    room = asyncio.Semaphore(AT_ONCE)

    async def host(address: str | None) -> Host:
        if address is None:
            return Host()
        async with room:
            return Host(address=address, asked=True, answered=await _answer(address, connection, session))

    return tuple(await asyncio.gather(*map(host, hosts)))


async def _answer(address: str, connection: Connection, session: aiohttp.ClientSession) -> str | None:
    """The slice id that the host answers with; None if it is silent, ill, or no host of ours."""
    url = URL.build(scheme="http", host=address, port=connection.health_port, path=PATH)
    timeout = aiohttp.ClientTimeout(total=connection.health_timeout_seconds)
    try:
        async with session.get(url, timeout=timeout, allow_redirects=False) as reply:
            if reply.status != HTTPStatus.OK:
                return None
            said = _parsed(await _body(reply.content))
    except (aiohttp.ClientError, OSError, TimeoutError):
        return None
    return said


async def _body(content: aiohttp.StreamReader) -> bytes:
    """All of a reply, in however many pieces it comes, up to the limit."""
    body = b""
    while len(body) < LONGEST_REPLY and (piece := await content.read(LONGEST_REPLY - len(body))):
        body += piece
    return body


def _parsed(body: bytes) -> str | None:
    try:
        return _Health.model_validate_json(body).slice
    except ValidationError:
        return None


def said(entries: Iterable[Any]) -> str | None:
    """The slice id among a host's guest attributes, if it wrote one."""
    return next((str(entry.value) for entry in entries if (entry.namespace, entry.key) == (GUEST_NAMESPACE, GUEST_KEY)), None)
