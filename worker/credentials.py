"""Credentials of the clouds that this process works for: looked for once, and told if they are missing."""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence

from activities.providers.gcp import opening as gcp
from activities.providers.gcp.packages import load
from activities.providers.port import Invalid
from penstock.contract.inventories import WatchedLocation

log = logging.getLogger("worker")


class CredentialsCheck:
    """Says in one line what is missing, as soon as there is a location that needs it. Whoever needs them says so again."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._checking: asyncio.Task[None] | None = None

    def on_locations(self, locations: Sequence[WatchedLocation]) -> None:
        """Check once, for the first location that asks for it."""
        needing = first_needing(locations, self._environ) if self._checking is None else None
        if needing is not None:
            self._checking = asyncio.create_task(_tell(needing))

    def stop(self) -> None:
        """Nobody waits for the answer any more."""
        if self._checking is not None:
            self._checking.cancel()


def first_needing(locations: Sequence[WatchedLocation], environ: Mapping[str, str] = os.environ) -> WatchedLocation | None:
    """The first location that cannot be reached without Google's credentials."""
    return next((location for location in locations if location.provider in gcp.KINDS and _asks_google(location, environ)), None)


async def missing_credentials() -> str | None:
    """One sentence with the fix if this process has no credentials that Google takes. It may wait for the network."""
    try:
        checks = await load("credentials")
    except Invalid as error:
        return str(error)
    sentence: str | None = await asyncio.to_thread(checks.check_credentials)
    return sentence


def _asks_google(location: WatchedLocation, environ: Mapping[str, str]) -> bool:
    try:
        reached = gcp.connection_of(location.settings, environ)
    except Invalid:
        return False
    return (reached.tpu_endpoint if location.provider == "gcp-tpu" else reached.endpoint) is None


async def _tell(location: WatchedLocation) -> None:
    missing = await missing_credentials()
    if missing is not None:
        log.error("%s: %s", location.account, missing)
