"""The local provider: what a group may ask for, whom it believes, and what its messages never repeat."""

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import JsonValue

from activities.providers.local import DEFAULT_COMMAND, LocalProvider, settings_of
from activities.providers.port import Host, Invalid, Order, Sighting, Transient

ORDER = Order(cluster="prod", group="workers", slice="a1", location="here")


def test_a_group_may_say_nothing() -> None:
    assert settings_of({}).command == DEFAULT_COMMAND


@pytest.mark.parametrize("command", ["exec worker --port 80", ["worker", "--port", "80"]])
def test_a_command_is_a_line_for_the_shell_or_a_list(command: JsonValue) -> None:
    settings = settings_of({"command": command, "env": {"MODE": "fast"}, "project": "mine"})
    assert settings.model_dump(mode="json") == {"command": command, "env": {"MODE": "fast"}, "project": "mine"}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"command": []}, "provider.command: must be a line for the shell, or a list of strings"),
        ({"command": " "}, "provider.command: must be a line for the shell, or a list of strings"),
        ({"command": ["worker", 80]}, "provider.command: must be a line for the shell, or a list of strings"),
        ({"comand": ["worker"]}, "provider.comand: unknown key"),
        ({"env": {"PORT": 80}}, "provider.env.PORT: Input should be a valid string"),
        ({"env": {"TOKEN": {"secret": "env:NOT_SET_ANYWHERE"}}}, "provider.env.TOKEN: there is no environment variable"),
        ({"env": {"TOKEN": {"secret": "hunter2"}}}, "provider.env.TOKEN: a secret is written as"),
        ({"env": {"TOKEN": ["hunter2"]}}, "provider.env.TOKEN: Input should be a valid string"),
    ],
)
def test_settings_that_cannot_be_used_are_invalid_and_named_by_field(settings: dict[str, JsonValue], told: str) -> None:
    with pytest.raises(Invalid) as raised:
        settings_of(settings)
    assert str(raised.value).startswith(told)
    assert "hunter2" not in str(raised.value)


def test_a_secret_is_in_the_call_and_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_PROD", "hunter2")
    asked: list[Any] = []

    async def refuse(request: web.Request) -> web.Response:
        asked.append(await request.json())
        return web.Response(status=500, text="no")

    async def created() -> None:
        app = web.Application()
        app.add_routes([web.post("/zones/here/resources", refuse)])
        async with TestServer(app) as server, aiohttp.ClientSession() as session:
            provider = LocalProvider(str(server.make_url("/")), session, token="t")
            settings: dict[str, JsonValue] = {"env": {"TOKEN": {"secret": "env:TOKEN_OF_PROD"}}}
            await provider.create(ORDER.model_copy(update={"settings": settings}))

    with pytest.raises(Transient) as raised:
        asyncio.run(created())
    assert asked[0]["env"] == {"TOKEN": "hunter2"}
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("status", "text", "answered"),
    [
        (200, '{"slice": "a1"}', "a1"),
        (200, '{"slice": "b2"}', "b2"),
        (503, '{"slice": "a1"}', None),
        (200, "busy", None),
        (200, '{"slice": null}', None),
    ],
)
def test_a_host_that_does_not_say_which_slice_it_is_of_is_silent(status: int, text: str, answered: str | None) -> None:
    async def observed() -> tuple[Sighting, str, list[str | None]]:
        tokens: list[str | None] = []

        async def health(request: web.Request) -> web.Response:
            tokens.append(request.headers.get("Authorization"))
            return web.Response(status=status, text=text)

        async def show(request: web.Request) -> web.Response:
            labels = {"penstock-cluster": "prod", "penstock-group": "workers", "penstock-slice": "a1"}
            shown = {
                "name": ORDER.name,
                "zone": "here",
                "labels": labels,
                "phase": "running",
                "hosts": [{"address": request.host}],
            }
            return web.json_response(shown | {"created_at": "2026-01-01T00:00:00Z"})

        app = web.Application()
        app.add_routes([web.get("/health", health), web.get("/resources/{name}", show)])
        async with TestServer(app) as server, aiohttp.ClientSession() as session:
            provider = LocalProvider(str(server.make_url("/")), session, token="t")
            return await provider.observe(ORDER.ref), f"{server.host}:{server.port}", tokens

    seen, address, tokens = asyncio.run(observed())
    assert seen.hosts == (Host(address=address, asked=True, answered=answered),)
    assert tokens == [None], "a host is no location for the daemon's token"
