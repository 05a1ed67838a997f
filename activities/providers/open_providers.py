"""Cache of open providers in a process: opened on first use, shared by groups with the same connection."""

import asyncio
import os
from collections.abc import Mapping

import aiohttp

from activities.providers.port import Provider
from activities.providers.runtime import ProcessContext, Settings, runtime_of


class Providers:
    """Opens providers by kind and settings, and closes them all."""

    def __init__(self, *, environ: Mapping[str, str] | None = None) -> None:
        self._context = ProcessContext(os.environ if environ is None else environ, self._http)
        self._opened: dict[tuple[str, str], Provider] = {}
        self._session: aiohttp.ClientSession | None = None
        self._opening = asyncio.Lock()

    async def of(self, kind: str, settings: Settings) -> Provider:
        """The provider of the kind for the settings; raises `Invalid` if the kind is unknown or the settings are unusable."""
        runtime = runtime_of(kind)
        async with self._opening:
            opener = await runtime.opener(settings, self._context)
            if (kind, opener.key) not in self._opened:
                self._opened[kind, opener.key] = opener.open()
            return self._opened[kind, opener.key]

    async def close(self) -> None:
        """Close every provider and the HTTP session."""
        opened, self._opened = self._opened, {}
        for provider in opened.values():
            await provider.close()
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _http(self) -> aiohttp.ClientSession:
        """The shared session, created on first use because that must happen inside the event loop."""
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        return self._session
