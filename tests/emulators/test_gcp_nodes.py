"""The TPU API on nodes, through Google's own client."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2

from tests.activities.waiting import until
from tests.emulators.running_gcp import GcpAdmin, RunningGcp

SECONDS = 60.0
State = tpu_v2.Node.State


@pytest.fixture(scope="module")
def gcp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGcp]:
    running = RunningGcp(tmp_path_factory.mktemp("gcp") / "gcp.db")
    try:
        running.start()
        yield running
    finally:
        running.kill()


class Place(NamedTuple):
    """A zone of its own for every test, so that one emulator serves them all."""

    tpu: tpu_v2.TpuAsyncClient
    admin: GcpAdmin
    zone: str

    @property
    def parent(self) -> str:
        return f"projects/p/locations/{self.zone}"

    def name(self, node: str) -> str:
        return f"{self.parent}/nodes/{node}"

    async def create(self, node: str, **fields: Any) -> str:
        """The name of the operation."""
        asked = {
            "accelerator_type": "v5litepod-16",
            "runtime_version": "v2-alpha-tpuv5-lite",
            "labels": {"penstock-cluster": "c"},
        }
        made = tpu_v2.Node(**asked | {"metadata": {"penstock-slice": f"slice of {node}"}} | fields)
        operation = await self.tpu.create_node(parent=self.parent, node_id=node, node=made, timeout=SECONDS)
        return str(operation.operation.name)

    async def get(self, node: str) -> tpu_v2.Node:
        return await self.tpu.get_node(name=self.name(node), timeout=SECONDS)

    async def delete(self, node: str) -> None:
        await self.tpu.delete_node(name=self.name(node), timeout=SECONDS)

    async def operation(self, name: str) -> Any:
        """The operation, once it is done."""
        return await until(
            lambda: self.tpu.get_operation({"name": name}, timeout=SECONDS), lambda seen: seen.done, seconds=SECONDS
        )

    async def answered(self, address: str, slice_id: str | None) -> None:
        """Wait until the host at an address says so, or with None until it is silent."""
        await until(lambda: self.admin.health(address), lambda said: said == slice_id, seconds=SECONDS)

    async def gone(self, node: str) -> bool:
        try:
            await self.get(node)
        except exceptions.NotFound:
            return True
        return False


def play(gcp: RunningGcp, story: Callable[[Place], Awaitable[None]]) -> None:
    async def played() -> None:
        async with gcp.tpu() as tpu, gcp.admin() as admin:
            await story(Place(tpu, admin, f"zone-{uuid.uuid4().hex[:8]}-a"))

    asyncio.run(played())


def test_a_node_comes_to_be_ready_and_every_host_answers_with_its_slice(gcp: RunningGcp) -> None:
    async def story(place: Place) -> None:
        operation = await place.operation(await place.create("n-1"))
        reply = tpu_v2.Node.deserialize(operation.response.value)
        assert (reply.state, reply.health) == (State.READY, tpu_v2.Node.Health.HEALTH_UNSPECIFIED)
        node = await place.get("n-1")
        assert (node.state, node.health) == (State.READY, tpu_v2.Node.Health.HEALTHY)
        assert dict(node.labels) == {"penstock-cluster": "c"}
        addresses = [endpoint.ip_address for endpoint in node.network_endpoints]
        assert len(set(addresses)) == 4
        for address in addresses:
            await place.answered(address, "slice of n-1")

    play(gcp, story)


def test_hosts_have_addresses_before_the_node_is_ready(gcp: RunningGcp) -> None:
    async def story(place: Place) -> None:
        await place.admin.behave(place.zone, boot_latency="1h")
        await place.create("n-1")
        node = await until(lambda: place.get("n-1"), lambda seen: len(seen.network_endpoints) == 4, seconds=SECONDS)
        assert node.state == State.CREATING
        assert await place.admin.health(node.network_endpoints[0].ip_address) is None

    play(gcp, story)


def test_hosts_may_serve_long_before_the_api_says_ready(gcp: RunningGcp) -> None:
    async def story(place: Place) -> None:
        await place.admin.behave(place.zone, ready_lag="1h")
        await place.create("n-1")
        node = await place.get("n-1")
        assert node.state == State.CREATING
        await place.answered(node.network_endpoints[0].ip_address, "slice of n-1")

    play(gcp, story)


def test_a_name_is_taken_until_its_node_is_gone(gcp: RunningGcp) -> None:
    async def story(place: Place) -> None:
        await place.create("n-1")
        with pytest.raises(exceptions.AlreadyExists):
            await place.create("n-1")
        await place.delete("n-1")
        await until(lambda: place.gone("n-1"), bool, seconds=SECONDS)
        with pytest.raises(exceptions.NotFound):
            await place.delete("n-1")
        await place.create("n-1")
        assert await place.admin.times_made("n-1", zone=place.zone) == 2

    play(gcp, story)
