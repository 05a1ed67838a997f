"""Credentials of the clouds that this process works for: looked for once, and told if they are missing."""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from activities.providers.gcp import opening as gcp
from activities.providers.port import Invalid
from penstock.contract.lives import Place

log = logging.getLogger("worker")


class CredentialsCheck:
    """Says in one line what is missing, as soon as there is a place that needs it. Whoever needs them says so again."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._checking: asyncio.Task[None] | None = None

    def heard_of(self, places: Sequence[Place]) -> None:
        """Check once, for the first place that asks for it."""
        needing = first_needing(places, self._environ) if self._checking is None else None
        if needing is not None:
            self._checking = asyncio.create_task(_tell(needing))

    def stop(self) -> None:
        """Nobody waits for the answer any more."""
        if self._checking is not None:
            self._checking.cancel()


def first_needing(places: Sequence[Place], environ: Mapping[str, str] = os.environ) -> Place | None:
    """The first place that cannot be reached without Google's credentials."""
    return next((place for place in places if place.provider in gcp.KINDS and _asks_google(place, environ)), None)


async def missing_credentials() -> str | None:
    """One sentence with the fix if this process has no credentials that Google takes. It may wait for the network."""
    checks: Any = await asyncio.to_thread(import_module, "activities.providers.gcp.credentials")
    sentence: str | None = await asyncio.to_thread(checks.check_credentials)
    return sentence


def _asks_google(place: Place, environ: Mapping[str, str]) -> bool:
    try:
        reached = gcp.connection_of(place.settings, environ)
    except Invalid:
        return False
    return (reached.tpu_endpoint if place.provider == "gcp-tpu" else reached.endpoint) is None


async def _tell(place: Place) -> None:
    missing = await missing_credentials()
    if missing is not None:
        log.error("%s: %s", place.account, missing)
