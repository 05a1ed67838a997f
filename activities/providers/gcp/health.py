"""Health checks of hosts: a healthy host answers with the id of its slice."""

import asyncio
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import aiohttp
from pydantic import BaseModel, ValidationError
from yarl import URL

from activities.providers.gcp.settings import Connection, Reach
from activities.providers.port import Host, checked

PATH = "/health"
"""The path of the HTTP check; the answer is `{"slice": "…"}`."""
GUEST_NAMESPACE, GUEST_KEY = "penstock", "slice"
"""The guest attribute with the slice id, for hosts that workers cannot connect to."""
AT_ONCE = 128
"""Concurrent checks of one slice: the largest slices have more hosts than a process may have connections."""
LONGEST_REPLY = 4096
"""Bytes of a reply that are read: another program may listen on the port."""


class _Health(BaseModel):
    slice: str


async def check(hosts: Sequence[Host], connection: Connection, session: aiohttp.ClientSession) -> tuple[Host, ...]:
    """The hosts after HTTP checks at the address that `reach` selects; hosts without that address are not checked."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def check_one(host: Host) -> Host:
        address = host.address if connection.reach is Reach.INTERNAL else host.external_address
        if not address:
            return host
        async with slots:
            return checked(host, await _answer(address, connection, session))

    return tuple(await asyncio.gather(*map(check_one, hosts)))


async def _answer(address: str, connection: Connection, session: aiohttp.ClientSession) -> str | None:
    """The slice id in the host's answer; None without an answer that has one."""
    url = URL.build(scheme="http", host=address, port=connection.health_port, path=PATH)
    timeout = aiohttp.ClientTimeout(total=connection.health_timeout_seconds)
    try:
        async with session.get(url, timeout=timeout, allow_redirects=False) as reply:
            if reply.status != HTTPStatus.OK:
                return None
            return _parsed(await _body(reply.content))
    except (aiohttp.ClientError, OSError, TimeoutError):
        return None


async def _body(content: aiohttp.StreamReader) -> bytes:
    """The body, in however many chunks it comes, up to the limit."""
    body = b""
    while len(body) < LONGEST_REPLY and (piece := await content.read(LONGEST_REPLY - len(body))):
        body += piece
    return body


def _parsed(body: bytes) -> str | None:
    try:
        return _Health.model_validate_json(body).slice
    except ValidationError:
        return None


def slice_id_in(entries: Iterable[Any]) -> str | None:
    """The slice id in a host's guest attributes, if it wrote one."""
    return next((str(entry.value) for entry in entries if (entry.namespace, entry.key) == (GUEST_NAMESPACE, GUEST_KEY)), None)
