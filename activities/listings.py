"""Ask many locations at once, within a time that a person waits: for `verify` and `doctor`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from activities.cloud_calls import answer_to
from activities.providers.port import ProviderError, Transient
from penstock.contract.inventories import WatchedLocation

AT_ONCE = 64
"""Locations asked concurrently: 2,000 of a cloud that takes half a second each are asked in 16 s."""
ANSWER_SECONDS = 8.0
"""How long one location may take. A person waits, and an audit will ask again anyway."""
GIVE_UP_AFTER = 8
"""Locations of one account that failed without any success, before the rest of the account is not asked: its cloud is away."""

R = TypeVar("R")


async def ask_each(
    locations: Sequence[WatchedLocation], ask: Callable[[WatchedLocation], Awaitable[R]]
) -> list[R | ProviderError]:
    """The answer of each location, in order, or its error. One that is silent costs seconds, and holds up no other account."""
    slots = asyncio.Semaphore(AT_ONCE)
    failures: dict[str, int] = {}

    async def one(location: WatchedLocation) -> R | ProviderError:
        account = location.account
        async with slots:
            if failures.get(account, 0) >= GIVE_UP_AFTER:
                return Transient(f"not asked, because other locations of {account} do not answer")
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    answer = await answer_to(ask(location), location)
            except TimeoutError:
                failures[account] = failures.get(account, 0) + 1
                return Transient(f"no answer within {ANSWER_SECONDS:g} s")
            except ProviderError as error:
                failures[account] = failures.get(account, 0) + 1
                return error
            failures[account] = -len(locations)  # It answers: a few bad locations say nothing of the others.
            return answer

    return list(await asyncio.gather(*(one(location) for location in locations)))
