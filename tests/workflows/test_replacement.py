"""Slices are replaced on a real server and in the simulated cloud: what runs there moves first, and nothing is doubled."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from penstock.contract.slices import SliceLifecycle
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.failures import Notice, NoticeKind
from penstock.model.slices import DrainCause, Slice, SliceState
from tests.journeys.facts import accounts, agreed_by_command, nothing_doubled, quiet
from tests.workflows.ledgers import name_of, settled, state_of
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group
from tests.workflows.test_configuration import changed
from tests.workflows.test_demand import played, ready, tasks
from tests.workflows.test_resets import recovered_from_reset

KEPT: dict[str, Any] = {"idle_timeout": "1h", "timeouts": {"drain": "1h"}}
NEW_IMAGE = {"kind": "sim", "image": "of-today"}


async def busy(stage: Stage, count: int) -> tuple[Slice, ...]:
    """So many slices, all READY and busy by the word of their controller."""
    slices = await settled(stage, count)
    await stage.autoscaler.usage({piece.id: "busy" for piece in slices})
    return await settled(stage, count)


async def work_moved(stage: Stage) -> None:
    """What a controller does at each look: work moves from draining slices to the others, and drains are confirmed."""
    drains = (await stage.autoscaler.status()).drains
    serving = [piece.id async for piece in stage.autoscaler.all_slices(state="READY")]
    await stage.autoscaler.usage({slice_id: "busy" for slice_id in serving if slice_id not in {each.slice_id for each in drains}})
    if drains:
        await stage.autoscaler.confirm_drain(*drains)


async def replaced(stage: Stage, old: Collection[Slice], fingerprint: str) -> AutoscalerState:
    """Wait until no old slice is left and every slice is READY with the new fingerprint, while a controller moves the work."""
    ids = {piece.id for piece in old}

    async def step() -> AutoscalerState:
        await work_moved(stage)
        await nothing_doubled(stage)
        return await state_of(stage)

    def done(state: AutoscalerState) -> bool:
        fresh = all(piece.state is SliceState.READY and piece.fingerprint == fingerprint for piece in state.slices)
        return fresh and len(state.slices) == len(ids) and ids.isdisjoint(state.by_id)

    return await stage.eventually(step, done)


def drained(lifecycle: SliceLifecycle) -> tuple[datetime, datetime]:
    """When the drain of a slice that is gone began and ended."""
    return reached(lifecycle, SliceState.DRAINING), reached(lifecycle, SliceState.DELETING)


def reached(lifecycle: SliceLifecycle, state: SliceState) -> datetime:
    """When a slice was in a state first."""
    return next(move.at for move in lifecycle.transitions if move.state is state)


async def replacing(stage: Stage, slice_id: str) -> Slice:
    """The slice that takes the place of another, once it is in the ledger."""

    async def found() -> list[Slice]:
        return [piece for piece in (await state_of(stage)).slices if piece.replaces == slice_id]

    (piece,) = await stage.eventually(found, bool)
    return piece


def image(stage: Stage, **rest: Any) -> ClusterConfig:
    """The configuration with a new image."""
    return changed(stage, group(provider=NEW_IMAGE, **rest))


def test_a_new_image_replaces_busy_slices_one_at_a_time_each_once_its_replacement_is_ready(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        old = await busy(stage, 3)
        wanted = image(stage, min_slices=3, **KEPT)
        await stage.autoscaler.apply_config(wanted)
        state = await replaced(stage, old, wanted.groups[0].fingerprint)
        lives = {piece.id: await stage.autoscaler.lifecycle(piece.id) for piece in (*old, *state.slices)}
        by_begin = sorted(drained(lives[piece.id]) for piece in old)
        assert all(ended <= begun for (_, ended), (begun, _) in pairwise(by_begin)), by_begin
        for new in state.slices:
            assert reached(lives[new.id], SliceState.READY) <= drained(lives[new.replaces])[0], (new, lives[new.replaces])
        assert {lives[piece.id].cause for piece in old} == {DrainCause.DRIFT}
        assert {new.replaces for new in state.slices} == {piece.id for piece in old}
        assert len(await stage.cloud.ever_made()) == 6
        await quiet(stage, small=3)
        await agreed_by_command(stage)

    played(machine, story, group(min_slices=3, **KEPT))


def test_a_notice_drains_a_busy_slice_at_once_orders_its_replacement_with_it_and_deletes_it_at_its_moment(
    machine: Machine,
) -> None:
    async def story(stage: Stage) -> None:
        (old,) = await busy(stage, 1)
        notice = Notice(kind=NoticeKind.MAINTENANCE, until=datetime.now(UTC) + timedelta(seconds=4))
        await stage.cloud.announce(name_of(stage, old), notice)
        state = await stage.eventually(lambda: state_of(stage), lambda state: state.by_id[old.id].drain)
        assert [piece.replaces for piece in state.slices if piece.id != old.id] == [old.id], "one decision orders both"
        (drain,) = (await stage.autoscaler.status()).drains
        assert (drain.slice_id, drain.cause, drain.deadline, drain.force) == (old.id, DrainCause.NOTICE, notice.until, True)
        (new,) = await stage.eventually(lambda: settled(stage, 1), lambda found: found[0].id != old.id)
        lifecycle = await stage.autoscaler.lifecycle(old.id)
        deleted = next(move for move in lifecycle.transitions if move.state is SliceState.DELETING)
        assert deleted.at >= notice.until
        assert deleted.why == f"not empty by {notice.until:%Y-%m-%d %H:%M:%S}Z; notice"
        assert len(await stage.cloud.ever_made()) == 2
        await stage.autoscaler.usage({new.id: "busy"})
        await quiet(stage, small=1)

    played(machine, story, group(min_slices=1, **KEPT))


def test_after_a_stockout_a_slice_returns_home_and_drains_only_once_that_at_home_is_ready(machine: Machine) -> None:
    async def story(stage: Stage) -> None:
        await stage.cloud.behave("a", stockout=True)
        await stage.autoscaler.submit_demand(tasks(1, cpu=4))
        await ready(stage, "dear", 1)
        (dear,) = (await stage.autoscaler.slices(group="dear", state="READY")).slices
        assert dear.home == "home"
        await stage.autoscaler.report([], usage={dear.id: [{"tasks": ["task-0"], "reserved": {"cpu": 4}}]})
        await stage.cloud.behave("a")
        status = await stage.eventually(stage.autoscaler.status, lambda status: status.drains)
        assert [(drain.slice_id, drain.cause) for drain in status.drains] == [(dear.id, DrainCause.RETURN_HOME)]
        at_home = await replacing(stage, dear.id)
        assert (at_home.group, at_home.state, at_home.cause) == ("home", SliceState.READY, "return home")
        await work_moved(stage)
        await stage.eventually(stage.cloud.existing, lambda found: len(found) == 1)
        begun, _ = drained(await stage.autoscaler.lifecycle(dear.id))
        assert reached(await stage.autoscaler.lifecycle(at_home.id), SliceState.READY) <= begun
        await quiet(stage, home=1)

    home = group("home", priority=1, price_per_hour=1, **KEPT)
    dear = group("dear", zone="b", priority=2, price_per_hour=2, **KEPT)
    played(machine, story, home, dear, return_home={"settle": "1s"}, backoff={"first": "500ms", "longest": "1s"})


@pytest.mark.parametrize("how", ["terminated", "reset"])
def test_an_autoscaler_lost_in_the_middle_of_a_replacement_goes_on_with_it(machine: Machine, how: str) -> None:
    async def story(stage: Stage) -> None:
        old = await busy(stage, 2)
        known = (await stage.workflow.fetch_history()).events[-1].event_id
        await stage.cloud.behave(boot_latency="3s")
        wanted = image(stage, min_slices=2, **KEPT)
        await stage.autoscaler.apply_config(wanted)
        before = await stage.eventually(lambda: state_of(stage), lambda state: _boots(state))
        if how == "terminated":
            await stage.workflow.terminate("by hand")
            await stage.autoscaler.start(wanted)
            await stage.eventually(lambda: state_of(stage), lambda state: state.evaluations and state.recovery is None)
        else:
            await recovered_from_reset(stage, after=known)
        after = await state_of(stage)
        for piece in before.slices:
            found = after.by_id[piece.id]
            assert (found.fingerprint, found.replaces, found.home) == (piece.fingerprint, piece.replaces, piece.home)
        await stage.cloud.behave()
        state = await replaced(stage, old, wanted.groups[0].fingerprint)
        assert {piece.replaces for piece in state.slices} == {piece.id for piece in old}
        assert len(await stage.cloud.ever_made()) == 4
        assert (await accounts(stage)).groups == {"small": 2}
        await quiet(stage, small=2)

    played(machine, story, group(min_slices=2, **KEPT))


def _boots(state: AutoscalerState) -> bool:
    """Whether a replacement has a resource and is not READY yet."""
    return any(piece.replaces and piece.state is SliceState.BOOTING for piece in state.slices)
