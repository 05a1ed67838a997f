"""Calls to the clouds of watches, audits and checks: an exception that no provider should raise counts as no answer."""

import traceback
from collections.abc import Awaitable
from typing import TypeVar

from temporalio import activity
from temporalio.exceptions import TemporalError

from activities.providers.port import ProviderError, Unexpected
from penstock.contract.inventories import WatchedLocation
from penstock.wording import shortened

LONGEST_TEXT = 300
"""Characters kept of an exception's text: client libraries quote whole replies."""
REMEMBERED = 10_000
"""Defects that this process has logged. Beyond this number the oldest are forgotten and logged again."""

T = TypeVar("T")
_LOGGED: dict[tuple[str, str, str], None] = {}
"""Defects that were logged, each by its location, its type and the place in the code that raised it."""


async def answer_to(call: Awaitable[T], location: WatchedLocation) -> T:
    """The answer to a call of the location's provider; an exception that is neither the port's nor Temporal's is `Unexpected`."""
    try:
        return await call
    except (ProviderError, TemporalError):
        raise
    except Exception as error:  # A client library or a provider may raise anything; unreported, it would repeat for ever.
        text = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": ")
        unexpected = Unexpected(shortened(text, LONGEST_TEXT))
        _log_once(location, error, unexpected)
        raise unexpected from error


def _log_once(location: WatchedLocation, error: Exception, unexpected: Unexpected) -> None:
    """Log a defect with its traceback the first time only: the call is repeated every few seconds."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    defect = f"{location.cluster}/{location.key}", type(error).__name__, f"{place.filename}:{place.lineno}"
    if defect in _LOGGED:
        return
    _LOGGED[defect] = None
    if len(_LOGGED) > REMEMBERED:
        del _LOGGED[next(iter(_LOGGED))]
    activity.logger.error(
        "%s of %s counts as silent, because its provider has a defect (logged once): %s",
        *(location.key, location.cluster, unexpected),
        exc_info=error,
    )
