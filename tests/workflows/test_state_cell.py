"""The inbox of an autoscaler: everything is stored first, and read in its turn, a bounded amount at once."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.contract import names
from penstock.contract.problems import BadMessage
from penstock.core.state.inbox import WORK
from penstock.core.state.state import AutoscalerState
from workflows.state_cell import StateCell

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def demand(revision: int) -> bytes:
    """A snapshot of as many tasks as its revision."""
    return json.dumps({"source": "q", "epoch": 1, "revision": revision, "tasks": [{"id": "t", "count": revision}]}).encode()


def tasks_of(cell: StateCell) -> int:
    source = cell.state.demand.get("q")
    return 0 if source is None else len(source.demand.task_ids)


async def asked(cell: StateCell, *, work: int = 1) -> "asyncio.Task[int]":
    """An update that answers how many tasks wait, once it is in the inbox."""
    update = asyncio.create_task(cell.in_turn(lambda: tasks_of(cell), work=work))
    await asyncio.sleep(0)
    return update


def test_an_update_counts_the_messages_before_it_and_none_after_it() -> None:
    async def story() -> list[int]:
        cell = StateCell(AutoscalerState())
        cell.receive(names.DEMAND, demand(1), NOW)
        first = await asked(cell)
        cell.receive(names.DEMAND, demand(2), NOW)
        second = await asked(cell)
        assert cell.unread == 4
        cell.read()
        assert cell.unread == 0
        return [await first, await second]

    assert asyncio.run(story()) == [1, 2]


def test_signals_and_updates_beyond_the_work_of_one_activation_stay_for_the_next() -> None:
    async def story() -> None:
        cell = StateCell(AutoscalerState())
        updates = [await asked(cell, work=WORK // 2) for _ in range(5)]
        for left in (3, 1, 0):
            cell.read()
            assert cell.unread == left
            await asyncio.sleep(0)
            assert [update.done() for update in updates].count(True) == 5 - left
        for _ in range(5_000):
            cell.receive(names.USAGE, b"?", NOW)
        cell.read()
        assert 0 < cell.unread < 5_000

    asyncio.run(story())


def test_an_update_that_costs_more_than_an_activation_has_is_carried_out_alone() -> None:
    async def story() -> None:
        cell = StateCell(AutoscalerState())
        large, small = await asked(cell, work=9 * WORK), await asked(cell)
        cell.read()
        await asyncio.sleep(0)
        assert (large.done(), small.done()) == (True, False)
        cell.read()
        assert await small == 0

    asyncio.run(story())


def test_an_update_that_cannot_be_carried_out_fails_alone() -> None:
    async def story() -> None:
        cell = StateCell(AutoscalerState())

        def refuse() -> Any:
            raise BadMessage("no")

        bad = asyncio.create_task(cell.in_turn(refuse, work=1))
        good = await asked(cell)
        cell.read()
        with pytest.raises(BadMessage, match="no"):
            await bad
        assert await good == 0

    asyncio.run(story())
