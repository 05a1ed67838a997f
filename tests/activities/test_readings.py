"""Readings of a cluster that thousands of watches and audits share."""

import asyncio
from typing import cast

import pytest
from temporalio.client import Client

from activities import temporal_reads
from activities.temporal_reads import CachedReadings, ClusterReading
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.location import Location
from penstock.model.slices import Slice, SliceState

CONFIG = ClusterConfig.model_validate(
    {"cluster": "c", "groups": [{"name": name, "zone": f"z-{name}", "host": {"cpu": 1}, "max_slices": 9} for name in ("a", "b")]}
)


def test_all_who_wait_for_a_fresh_reading_share_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = 0

    async def state_of(_client: Client, _cluster: str) -> AutoscalerState:
        nonlocal readings
        readings += 1
        await asyncio.sleep(0)
        return AutoscalerState()

    async def running_slices(_client: Client, _cluster: str) -> dict[str, str]:
        return {}

    monkeypatch.setattr(temporal_reads, "state_of", state_of)
    monkeypatch.setattr(temporal_reads, "running_slices", running_slices)

    async def story() -> None:
        cached = CachedReadings(cast(Client, None))
        await asyncio.gather(*(cached.of("c", oldest_seconds=0) for _ in range(1000)))
        assert readings <= 2, "one under way when the others came, and one for them"
        await cached.of("c", oldest_seconds=0)
        assert readings <= 3

    asyncio.run(story())


def test_slices_are_found_by_location_with_those_whose_place_only_their_workflow_knows() -> None:
    def piece(slice_id: str, group: str, location: Location | None = None) -> Slice:
        return Slice(id=slice_id, group=group, state=SliceState.READY, location=location)

    moved = Location(provider="sim", account="sim", name="z-b")
    slices = (piece("here", "a"), piece("there", "b"), piece("moved", "a", moved), piece("unknown", "gone"))
    reading = ClusterReading(AutoscalerState(config=CONFIG, slices=slices), {})
    assert [one.id for one in reading.slices_at("sim/z-a")] == ["here", "unknown"]
    assert [one.id for one in reading.slices_at("sim/z-b")] == ["there", "moved", "unknown"]
    assert list(reading.locations) == ["sim/z-a", "sim/z-b"]


def test_a_copied_configuration_finds_its_own_groups() -> None:
    assert CONFIG.group("a") is CONFIG.groups[0]
    raised = CONFIG.groups[0].model_copy(update={"max_slices": 10, "zone": "z-c"})
    copied = CONFIG.model_copy(update={"groups": (raised,)})
    assert (copied.group("a"), copied.group("b"), copied.groups_at("sim/z-c")) == (raised, None, (raised,))
