"""The sim provider's hosts, and its errors for broken replies."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from activities.providers.port import Host, Invalid, Order, ProviderError, Transient
from activities.providers.sim import SimProvider

T = TypeVar("T")
ORDER = Order(cluster="prod", group="v5e-16", slice="a1", location="us-west4-a")


Call = Callable[[SimProvider], Awaitable[T]]


async def called_at(url: str, call: Call[T], *, timeout_seconds: float = 10) -> T:
    async with aiohttp.ClientSession() as session:
        return await call(SimProvider(url, session, timeout_seconds=timeout_seconds))


async def answered_with(status: int, text: str, call: Call[T]) -> T:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text)

    app = web.Application()
    app.add_routes([web.route("*", "/{path:.*}", answer)])
    async with TestServer(app) as server:
        return await called_at(str(server.make_url("/")), call)


def create(provider: SimProvider) -> Awaitable[object]:
    return provider.create(ORDER)


@pytest.mark.parametrize(
    ("status", "text", "error"),
    [
        (500, "Internal Server Error", Transient),
        (503, '{"error": {"code": "UNAVAILABLE", "message": "later"}}', Transient),
        (502, "", Transient),
        (200, "not JSON", Transient),
        (200, '{"name": "a resource without the rest"}', Transient),
        (404, "404: Not Found", Invalid),
        (400, '{"error": {"code": "A_NEW_CODE", "message": "no"}}', Invalid),
    ],
)
def test_an_answer_without_a_known_code_goes_by_its_status(status: int, text: str, error: type[ProviderError]) -> None:
    with pytest.raises(error):
        asyncio.run(answered_with(status, text, create))


def test_hosts_are_named_by_the_resource_and_have_one_address_once_they_run() -> None:
    shown = {
        "name": ORDER.name,
        "zone": ORDER.location,
        "labels": {"penstock-cluster": "prod", "penstock-group": "v5e-16", "penstock-slice": "a1"},
        "phase": "running",
        "hosts": [{"address": "a1-0.us-west4-a.sim"}, {"address": None}],
        "created_at": "2026-01-01T00:00:00Z",
    }
    listing = json.dumps({"items": [shown], "complete": True})
    found = asyncio.run(answered_with(200, listing, lambda provider: provider.list(ORDER.location, cluster="prod")))
    assert found.items[0].hosts == (
        Host(name=f"{ORDER.name}-0", address="a1-0.us-west4-a.sim", external_address=""),
        Host(name=f"{ORDER.name}-1", address="", external_address=""),
    )


def test_nobody_there_is_transient() -> None:
    with pytest.raises(Transient):
        asyncio.run(called_at(f"http://127.0.0.1:{unused_port()}", create))


def test_no_answer_in_time_is_transient() -> None:
    async def unanswered() -> None:
        async with await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await called_at(f"http://127.0.0.1:{port}", create, timeout_seconds=0.05)

    with pytest.raises(Transient):
        asyncio.run(unanswered())


def test_a_cloud_that_ignores_the_filter_cannot_pass_off_others_resources_as_ours() -> None:
    resource = {"zone": "us-west4-a", "phase": "running", "hosts": [], "created_at": "2026-01-01T00:00:00Z"}
    ours = {"penstock-cluster": "prod", "penstock-group": "v5e-16", "penstock-slice": "a1"}
    theirs, unfinished = ours | {"penstock-cluster": "test"}, {"penstock-cluster": "prod"}
    labels = {"ours": ours, "theirs": theirs, "unfinished": unfinished, "unlabelled": {}}
    reply = {"items": [resource | {"name": name, "labels": owner} for name, owner in labels.items()], "complete": True}
    listing = asyncio.run(answered_with(200, json.dumps(reply), lambda provider: provider.list("us-west4-a", cluster="prod")))
    assert [item.ref.name for item in listing.items] == ["ours"]
