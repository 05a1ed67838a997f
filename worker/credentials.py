"""Check once whether this process has the Google credentials that its locations need, and log the fix if not."""

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
    """Log one line about missing credentials when the first location needs them. Each failed call reports it again."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._checking: asyncio.Task[None] | None = None

    def on_locations(self, locations: Sequence[WatchedLocation]) -> None:
        """Start the check at the first location that needs credentials; later calls do nothing."""
        needing = first_needing(locations, self._environ) if self._checking is None else None
        if needing is not None:
            self._checking = asyncio.create_task(_check(needing))

    def stop(self) -> None:
        """Cancel a check in progress."""
        if self._checking is not None:
            self._checking.cancel()


def first_needing(locations: Sequence[WatchedLocation], environ: Mapping[str, str] = os.environ) -> WatchedLocation | None:
    """The first location that needs Google's credentials: one at Google itself, not at an emulator."""
    return next((location for location in locations if location.provider in gcp.KINDS and _needs_google(location, environ)), None)


async def missing_credentials() -> str | None:
    """One sentence with the fix if this process has no credentials that Google accepts, else None. May wait for the network."""
    try:
        checks = await load("credentials")
    except Invalid as error:
        return str(error)
    sentence: str | None = await asyncio.to_thread(checks.check_credentials)
    return sentence


def _needs_google(location: WatchedLocation, environ: Mapping[str, str]) -> bool:
    try:
        connection = gcp.connection_of(location.settings, environ)
    except Invalid:
        return False
    return (connection.tpu_endpoint if location.provider == "gcp-tpu" else connection.endpoint) is None


async def _check(location: WatchedLocation) -> None:
    missing = await missing_credentials()
    if missing is not None:
        log.error("%s: %s", location.account, missing)
