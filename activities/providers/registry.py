"""Which provider a group's settings mean: each is opened when it is first needed, and shared by all who mean the same."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol, runtime_checkable

import aiohttp
from pydantic import JsonValue

from activities.providers.gcp import opening as gcp
from activities.providers.port import Invalid, Provider
from activities.providers.sim import SimProvider
from activities.secrets import UnresolvedSecret, resolve
from penstock.contract.addresses import DEFAULT_SIM_URL

SIM_URL = "PENSTOCK_SIM_URL"
"""Where the simulated cloud is, for groups that do not say."""
LOCAL_URL = "PENSTOCK_LOCAL_URL"
"""Where the daemon of local hosts is, for groups that do not say."""
LOCAL_TOKEN_FILE = "PENSTOCK_LOCAL_TOKEN_FILE"  # noqa: S105 - where it is, not what it is
"""The file in the daemon's state directory that holds its token, for groups that do not say."""

CONNECTION_SETTINGS = ("url", "token")
"""Settings that say how a provider is reached, and that are no part of an order."""

Settings = Mapping[str, JsonValue]


@runtime_checkable
class Closing(Protocol):
    """A provider with connections of its own."""

    async def close(self) -> None:
        """Give them back."""
        ...


class Providers:
    """The providers of one process."""

    def __init__(self, *, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self._opened: dict[tuple[str, str], Provider] = {}
        self._session: aiohttp.ClientSession | None = None
        self._opening = asyncio.Lock()
        self._open: Mapping[str, Callable[[Settings], Awaitable[tuple[str, Callable[[], Provider]]]]] = {
            "sim": self._sim,
            "local": self._local,
        } | {kind: partial(gcp.opener, kind, session=self._http, environ=self._environ) for kind in gcp.KINDS}

    async def of(self, kind: str, settings: Settings) -> Provider:
        """The provider that is meant; `Invalid` if there is none of that kind or its settings make no sense."""
        opener = self._open.get(kind)
        if opener is None:
            raise Invalid(f"provider.kind: there is no provider {kind!r}; known: {', '.join(sorted(self._open))}")
        async with self._opening:
            key, opened = await opener(settings)
            if (kind, key) not in self._opened:
                self._opened[kind, key] = opened()
            return self._opened[kind, key]

    async def close(self) -> None:
        """Close every connection."""
        opened, self._opened = self._opened, {}
        for provider in opened.values():
            if isinstance(provider, Closing):
                await provider.close()
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _http(self) -> aiohttp.ClientSession:
        """One session for all: it must be made while the event loop runs."""
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        return self._session

    async def _sim(self, settings: Settings) -> tuple[str, Callable[[], Provider]]:
        url = _text(settings, "url") or self._environ.get(SIM_URL) or DEFAULT_SIM_URL
        return url, lambda: SimProvider(url, self._http())

    async def _local(self, settings: Settings) -> tuple[str, Callable[[], Provider]]:
        from activities.providers.local import LocalProvider

        url = _text(settings, "url") or self._environ.get(LOCAL_URL)
        if url is None:
            raise Invalid(f"provider.url: where is the daemon of local hosts? Say it here, or set {LOCAL_URL} for the worker")
        token = self._token(settings)
        return f"{url} {token}", lambda: LocalProvider(url, self._http(), token=token)

    def _token(self, settings: Settings) -> str:
        try:
            given = resolve(settings.get("token"), environ=self._environ, where=("provider", "token"))
        except UnresolvedSecret as error:
            raise Invalid(str(error)) from None
        if isinstance(given, str) and given:
            return given
        file = self._environ.get(LOCAL_TOKEN_FILE)
        if file is None:
            told = f"write {{secret: file:PATH}} here, or set {LOCAL_TOKEN_FILE} for the worker"
            raise Invalid(f"provider.token: the daemon of local hosts wants the token of its state directory; {told}")
        try:
            return Path(file).read_text().strip()
        except OSError as error:
            raise Invalid(f"{LOCAL_TOKEN_FILE}: {file} cannot be read here: {error.strerror}") from None


def _text(settings: Settings, name: str) -> str | None:
    value = settings.get(name)
    if value is not None and not (isinstance(value, str) and value):
        raise Invalid(f"provider.{name}: must be text")
    return value
