"""Inventories: slices are notified of changes in the cloud, lost slices are replaced, orphans are adopted or deleted."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus

from activities.providers.port import resource_name
from activities.recovery import guard_inventories
from penstock.contract import names
from penstock.model.cluster import ClusterConfig
from penstock.model.failures import FailureKind
from penstock.model.slices import Slice, SliceState
from tests.workflows.ledgers import inventory, made, name_of, recent_failures, run_of, scheduled, settled, state_of, verified
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group, staged


def test_slices_become_ready_by_listings_alone_with_addresses_and_at_rest_nothing_is_recorded(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=3, hosts_per_slice=2)) as stage:
            await stage.cloud.behave(create_latency="100ms", boot_latency="100ms", init_latency="100ms", delete_latency="100ms")
            slices = await settled(stage, 3)
            for piece in slices:
                assert names.OBSERVE not in await scheduled(stage.slice_workflow(piece.group, piece.id))
            assert (await scheduled(inventory(stage))).count(names.WATCH) == 1
            assert await made(stage) == sorted(piece.id for piece in slices)
            for piece in slices:
                assert [host.address for host in piece.hosts] == _addresses(stage, piece, hosts=2)
            assert (await verified(stage)).agrees

    asyncio.run(story())


def test_a_slice_whose_workflow_was_terminated_is_adopted_and_not_made_again(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=2)) as stage:
            first, second = await settled(stage, 2)
            handle = stage.slice_workflow(first.group, first.id)
            before = await run_of(handle)
            await handle.terminate("by hand")
            await stage.eventually(lambda: run_of(handle), _is_another_than(before))
            assert {piece.id for piece in await settled(stage, 2)} == {first.id, second.id}
            assert await made(stage) == sorted([first.id, second.id])
            assert (await verified(stage)).agrees

    asyncio.run(story())


def test_an_orphan_of_a_configured_group_is_adopted_with_its_addresses(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group()) as stage:
            labels = {"penstock-cluster": stage.cluster, "penstock-group": "small", "penstock-slice": "small-found"}
            await _settled_recovery(stage)
            await stage.cloud.add(_name(stage, "small", "small-found"), labels=labels)
            (found,) = await settled(stage, 1)
            assert (found.id, found.state) == ("small-found", SliceState.READY)
            assert [host.address for host in found.hosts] == _addresses(stage, found, hosts=1)
            assert await made(stage) == ["small-found"]

    asyncio.run(story())


def test_an_orphan_of_an_unknown_group_is_deleted_after_the_grace_and_foreign_resources_are_never_touched(
    machine: Machine,
) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=1)) as stage:
            await settled(stage, 1)
            others = {"penstock-cluster": f"{stage.cluster}-other", "penstock-group": "small", "penstock-slice": "s"}
            strangers = {f"stranger-{stage.cluster}": {"owner": "another team"}, f"other-{stage.cluster}": others}
            for name, labels in strangers.items():
                await stage.cloud.add(name, labels=labels)
            orphan = {"penstock-cluster": stage.cluster, "penstock-group": "forgotten", "penstock-slice": "forgotten-1"}
            await stage.cloud.add(_name(stage, "forgotten", "forgotten-1"), labels=orphan)
            await stage.eventually(stage.cloud.existing, lambda items: len(items) == 1)
            await settled(stage, 1)
            for name in strangers:
                assert (await stage.cloud.call("GET", f"/resources/{name}"))["phase"] == "running"
            assert (await verified(stage)).agrees

    asyncio.run(story())


def test_a_slice_deleted_by_others_fails_as_gone_and_is_replaced(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=1)) as stage:
            (lost,) = await settled(stage, 1)
            await stage.cloud.delete(name_of(stage, lost))
            await _replaced(stage, lost.id, FailureKind.GONE)

    asyncio.run(story())


@pytest.mark.parametrize("queued", [False, True])
def test_a_slice_deleted_before_its_create_call_returned_fails_as_gone_and_is_replaced(machine: Machine, queued: bool) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=1, queued=queued), start=False) as stage:
            await stage.cloud.behave(reply_latency="2s", hold_queue=queued, create_latency="1h")
            await stage.autoscaler.start(stage.config)
            (made,) = await stage.eventually(stage.cloud.existing, bool)
            await stage.cloud.delete(made["name"])
            await stage.cloud.behave()
            await _replaced(stage, made["labels"]["penstock-slice"], FailureKind.GONE)

    asyncio.run(story())


def test_a_preempted_slice_is_replaced(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=1, preemptible=True)) as stage:
            (lost,) = await settled(stage, 1)
            await stage.cloud.preempt(name_of(stage, lost))
            await _replaced(stage, lost.id, FailureKind.PREEMPTED)

    asyncio.run(story())


def test_a_slice_with_one_silent_host_is_lost_and_replaced(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=1, hosts_per_slice=3)) as stage:
            (lost,) = await settled(stage, 1)
            await stage.cloud.kill_host(name_of(stage, lost), 1)
            await _replaced(stage, lost.id, FailureKind.HOST_LOST)

    asyncio.run(story())


def test_incomplete_listings_are_no_evidence_of_absence(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group("hidden", min_slices=1), group("seen", zone="b", min_slices=1)) as stage:
            slices = {piece.group: piece for piece in await settled(stage, 2)}
            await stage.cloud.behave("a", partial_lists=True)
            await stage.cloud.delete(name_of(stage, slices["seen"]))
            await stage.eventually(lambda: recent_failures(stage), lambda found: found)
            hidden = [piece for piece in await settled(stage, 2) if piece.group == "hidden"]
            assert hidden == [slices["hidden"]]
            assert await recent_failures(stage) == {(slices["seen"].id, FailureKind.GONE)}

    asyncio.run(story())


def test_a_location_that_cannot_be_listed_shows_why_in_temporal_and_is_watched_again_when_it_can(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=1)) as stage:
            (piece,) = await settled(stage, 1)
            await stage.cloud.behave(permission_denied="project")
            failures = await stage.eventually(lambda: _last_failures(stage), bool)
            assert all("cannot be listed" in message for message in failures)
            await stage.cloud.behave()
            await stage.cloud.delete(name_of(stage, piece))
            await _replaced(stage, piece.id, FailureKind.GONE)

    asyncio.run(story())


def test_an_inventory_that_was_terminated_is_started_again(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=1)) as stage:
            (piece,) = await settled(stage, 1)
            before = await run_of(inventory(stage))
            await inventory(stage).terminate("by hand")
            await guard_inventories(stage.client, task_queue=machine.task_queue)
            assert await run_of(inventory(stage)) not in (None, before)
            await stage.cloud.delete(name_of(stage, piece))
            await _replaced(stage, piece.id, FailureKind.GONE)

    asyncio.run(story())


def test_a_location_is_watched_for_as_long_as_it_has_slices_of_a_removed_group(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=1)) as stage:
            (piece,) = await settled(stage, 1)
            written = stage.config.model_dump(mode="json", by_alias=True, exclude_unset=True)
            other = group("other", zone=stage.cloud.zone("b"))
            await stage.autoscaler.apply_config(ClusterConfig.model_validate(written | {"groups": [other]}))
            await inventory(stage).terminate("by hand")
            await guard_inventories(stage.client, task_queue=machine.task_queue)
            assert await run_of(inventory(stage))
            await stage.cloud.delete(name_of(stage, piece))
            await settled(stage, 0)
            assert await made(stage) == [piece.id]

    asyncio.run(story())


def test_a_location_is_watched_for_as_long_as_it_has_slices_of_a_moved_group(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group(min_slices=1)) as stage:
            (piece,) = await settled(stage, 1)
            written = stage.config.model_dump(mode="json", by_alias=True, exclude_unset=True)
            moved = [{**group(min_slices=1), "zone": stage.cloud.zone("b")}]
            await stage.autoscaler.apply_config(ClusterConfig.model_validate(written | {"groups": moved}))
            await inventory(stage).terminate("by hand")
            await guard_inventories(stage.client, task_queue=machine.task_queue)
            assert await run_of(inventory(stage))
            await stage.cloud.preempt(name_of(stage, piece))
            await _replaced(stage, piece.id, FailureKind.PREEMPTED)

    asyncio.run(story())


def test_an_inventory_ends_once_its_location_is_unconfigured_and_empty(machine: Machine) -> None:
    async def story() -> None:
        async with staged(machine, group()) as stage:
            await stage.eventually(lambda: run_of(inventory(stage, "a")), lambda run: run)
            moved = [{**group(), "zone": stage.cloud.zone("b")}]
            written = stage.config.model_dump(mode="json", by_alias=True, exclude_unset=True)
            await stage.autoscaler.apply_config(ClusterConfig.model_validate(written | {"groups": moved}))
            await stage.eventually(lambda: _status(inventory(stage, "a")), lambda s: s is WorkflowExecutionStatus.COMPLETED)
            assert await run_of(inventory(stage, "b"))

    asyncio.run(story())


def test_an_inventory_continues_as_new_and_notifies_its_slices_of_changes_only(machine_of_short_runs: Machine) -> None:
    async def story() -> None:
        async with staged(machine_of_short_runs, group(min_slices=1)) as stage:
            (piece,) = await settled(stage, 1)
            first = await run_of(inventory(stage))
            for _ in range(20):
                await inventory(stage).signal(names.AUDIT_NOW, "a recovery that is long over")
            for milliseconds in range(20, 40):
                if await run_of(inventory(stage)) != first:
                    break
                await _another_round(stage, look=f"{milliseconds}ms")
            assert await run_of(inventory(stage)) not in (None, first)
            seen = [e for e in (await stage.slice_workflow(piece.group, piece.id).fetch_history()).events if _is_seen(e)]
            assert len(seen) <= 4, "creating, booting, addressed, healthy"

    asyncio.run(story())


def _addresses(stage: Stage, piece: Slice, *, hosts: int) -> list[str]:
    """The addresses that the simulated cloud gives."""
    return [f"{name_of(stage, piece)}-{i}.{stage.cloud.zone()}.sim" for i in range(hosts)]


def _is_another_than(before: str | None) -> Callable[[str | None], bool]:
    return lambda run: run not in (None, before)


async def _another_round(stage: Stage, **rules: str) -> None:
    """Begin another round: a changed configuration ends the present one."""
    before = await _rounds(stage)
    written = stage.config.model_dump(mode="json", by_alias=True, exclude_unset=True)
    await stage.autoscaler.apply_config(ClusterConfig.model_validate(written | {"inventory": written["inventory"] | rules}))
    await stage.eventually(lambda: _rounds(stage), lambda rounds: rounds != before)


async def _rounds(stage: Stage) -> tuple[str | None, int]:
    return await run_of(inventory(stage)), (await scheduled(inventory(stage))).count(names.WATCH)


def _is_seen(event: Any) -> bool:
    update = event.workflow_execution_update_accepted_event_attributes.accepted_request.input.name
    return names.OBSERVED in (update, event.workflow_execution_signaled_event_attributes.signal_name)


async def _status(handle: Any) -> WorkflowExecutionStatus | None:
    status: WorkflowExecutionStatus | None = (await handle.describe()).status
    return status


async def _last_failures(stage: Stage) -> list[str]:
    raw = (await inventory(stage).describe()).raw_description
    return [pending.last_failure.message for pending in raw.pending_activities if pending.last_failure.message]


async def _settled_recovery(stage: Stage) -> None:
    await stage.eventually(lambda: state_of(stage), lambda state: state.recovery is None and state.config is not None)


async def _replaced(stage: Stage, lost: str, kind: FailureKind) -> None:
    """Wait until the failure is recorded and another slice serves instead."""
    await stage.eventually(lambda: recent_failures(stage), lambda found: (lost, kind) in found)
    (other,) = await settled(stage, 1)
    assert other.id != lost
    assert await made(stage) == sorted([lost, other.id])
    assert [item["labels"]["penstock-slice"] for item in await stage.cloud.existing()] == [other.id]


def _name(stage: Stage, group_name: str, slice_id: str) -> str:
    return resource_name(cluster=stage.cluster, group=group_name, slice_id=slice_id)
