"""Waits end with the awaited value, or fail with the last one."""

import asyncio

import pytest

from tests.activities.waiting import until, within


async def nothing() -> str:
    return "nothing"


def test_what_never_comes_fails_with_what_was_seen_last() -> None:
    async def story() -> None:
        await until(nothing, lambda seen: seen == "something", seconds=0.01)

    with pytest.raises(AssertionError, match="last seen: 'nothing'"):
        asyncio.run(story())


def test_a_call_that_hangs_fails_with_the_last_state() -> None:
    async def story() -> None:
        async with within(0.01, nothing):
            await asyncio.Event().wait()

    with pytest.raises(AssertionError, match="last state: nothing"):
        asyncio.run(story())


def test_a_last_look_that_fails_too_is_said() -> None:
    async def refused() -> str:
        raise ConnectionError("nobody there")

    async def story() -> None:
        async with within(0.01, refused):
            await asyncio.Event().wait()

    with pytest.raises(AssertionError, match="nobody there"):
        asyncio.run(story())


def test_a_deadline_of_the_test_itself_is_left_as_it_is() -> None:
    async def story() -> None:
        async with within(60, nothing), asyncio.timeout(0.01):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        asyncio.run(story())
