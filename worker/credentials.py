"""The check of cloud credentials: once per provider kind, with one log line if they are missing."""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence

from activities.providers.port import Invalid
from activities.providers.runtime import runtime_of
from penstock.contract.inventories import WatchedLocation

log = logging.getLogger("worker")


class CredentialsCheck:
    """Logs missing credentials as soon as a location needs them. Calls without them fail with the same message."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._checks: dict[str, asyncio.Task[None]] = {}
        self._logged: set[str] = set()

    def on_locations(self, locations: Sequence[WatchedLocation]) -> None:
        """Check each provider kind once, for the first location that needs credentials."""
        for kind, location in needing_credentials(locations, self._environ).items():
            if kind not in self._checks:
                self._checks[kind] = asyncio.create_task(self._check(location))

    def stop(self) -> None:
        """Cancel the checks in progress."""
        for check in self._checks.values():
            check.cancel()

    async def _check(self, location: WatchedLocation) -> None:
        missing = await runtime_of(location.provider).missing_credentials()
        if missing is not None and missing not in self._logged:
            self._logged.add(missing)
            log.error("%s: %s", location.account, missing)


def needing_credentials(
    locations: Sequence[WatchedLocation], environ: Mapping[str, str] = os.environ
) -> dict[str, WatchedLocation]:
    """The first location of each provider kind that cannot be used without credentials."""
    found: dict[str, WatchedLocation] = {}
    for location in locations:
        if location.provider not in found and _needs_credentials(location, environ):
            found[location.provider] = location
    return found


async def missing_credentials(locations: Sequence[WatchedLocation], environ: Mapping[str, str] = os.environ) -> list[str]:
    """One sentence with the fix for each kind of credentials that the locations need and this process lacks.

    It may wait for the network.
    """
    kinds = needing_credentials(locations, environ)
    missing = await asyncio.gather(*(runtime_of(kind).missing_credentials() for kind in kinds))
    return list(dict.fromkeys(sentence for sentence in missing if sentence is not None))


def _needs_credentials(location: WatchedLocation, environ: Mapping[str, str]) -> bool:
    try:
        return runtime_of(location.provider).needs_credentials(location.settings, environ)
    except Invalid:
        return False
