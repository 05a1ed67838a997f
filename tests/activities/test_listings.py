"""Asking many locations at once: every one gets an answer or an error, and a silent cloud costs seconds, not hours."""

import asyncio
import time

import pytest

from activities import listings
from activities.listings import GIVE_UP_AFTER, ask_each
from activities.providers.port import ProviderError, Transient, Unexpected
from penstock.contract.inventories import WatchedLocation

MANY = 2000


def locations(account: str, count: int) -> list[WatchedLocation]:
    return [WatchedLocation(provider="sim", account=account, name=f"z{n}", cluster="c") for n in range(count)]


def test_answers_keep_the_order_of_the_locations() -> None:
    async def ask(location: WatchedLocation) -> str:
        return location.name

    assert asyncio.run(ask_each(locations("sim", MANY), ask)) == [f"z{n}" for n in range(MANY)]


def test_a_silent_cloud_of_thousands_of_locations_is_given_up_soon_and_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "ANSWER_SECONDS", 0.1)
    asked: list[str] = []

    async def ask(location: WatchedLocation) -> str:
        asked.append(location.key)
        if location.account == "dark":
            await asyncio.Event().wait()
        return "listed"

    began = time.monotonic()
    found = asyncio.run(ask_each([*locations("dark", MANY), *locations("sim", 3)], ask))
    assert time.monotonic() - began < 5
    assert all(isinstance(answer, Transient) for answer in found[:MANY])
    assert found[MANY:] == ["listed"] * 3
    assert len(asked) < MANY


def test_a_few_bad_locations_of_a_cloud_that_answers_are_errors_of_their_own() -> None:
    async def ask(location: WatchedLocation) -> str:
        if int(location.name[1:]) % 10:
            raise Transient("no answer")
        return "listed"

    found = asyncio.run(ask_each(locations("sim", MANY), ask))
    assert sum(answer == "listed" for answer in found) == MANY // 10
    assert {str(answer) for answer in found if isinstance(answer, ProviderError)} == {"no answer"}
    assert MANY // 10 > GIVE_UP_AFTER


def test_a_defect_at_one_location_is_the_answer_of_that_location_only() -> None:
    async def ask(location: WatchedLocation) -> str:
        if location.name == "z1":
            raise ValueError("no number")
        return location.name

    first, second, third = asyncio.run(ask_each(locations("sim", 3), ask))
    assert (first, third) == ("z0", "z2")
    assert isinstance(second, Unexpected)
    assert str(second) == "ValueError: no number"
