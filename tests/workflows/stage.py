"""A cluster for one test on a running machine: fresh names, short intervals, and control of its cloud."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiohttp
import pytest
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError

from activities.providers.sim import SIM_URL
from penstock.client import AutoscalerClient
from penstock.contract.names import autoscaler_id, slice_workflow_id
from penstock.model.cluster import ClusterConfig
from penstock.model.failures import Notice
from tests.activities.waiting import STORY_SECONDS, until, within
from tests.workflows.machine import Machine
from worker.serving import working
from worker.settings import Settings

T = TypeVar("T")
SECONDS = 60.0
"""Far beyond what anything here takes, also on two busy cores."""
QUICK: dict[str, Any] = {
    "evaluation": {"interval": "50ms"},
    "inventory": {
        "look": "50ms",
        "rest": "200ms",
        "audit": "500ms",
        "lost_misses": 2,
        "lost_after": "200ms",
        "orphan_grace": "500ms",
    },
}


def group(name: str = "small", *, zone: str = "a", max_slices: int = 4, **rest: Any) -> dict[str, Any]:
    """A group of machines with 4 CPUs; its zone is one of the stage's own."""
    return {"name": name, "zone": zone, "max_slices": max_slices, "host": {"cpu": 4, "memory": "16GiB"}} | rest


def placed(given: dict[str, Any], region: str) -> dict[str, Any]:
    """The group in a zone of its stage's region."""
    return given | {"zone": f"{region}-{given['zone']}"} if given.get("zone") else given


class StagedCloud:
    """The simulated cloud as the stage's cluster sees it. Zones go by their last suffix."""

    def __init__(self, url: str, session: aiohttp.ClientSession, *, cluster: str, region: str) -> None:
        self.url = url
        self.cluster = cluster
        self.region = region
        self._session = session

    def zone(self, suffix: str = "a") -> str:
        """The full name of a zone of this stage."""
        return f"{self.region}-{suffix}"

    async def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        async with self._session.request(method, self.url + path, json=body) as response:
            response.raise_for_status()
            return await response.json()

    async def behave(self, suffix: str = "a", **behaviour: Any) -> None:
        """Set the behaviour of a zone; everything else returns to the default."""
        await self.call("PUT", f"/zones/{self.zone(suffix)}", behaviour)

    async def ever_made(self) -> list[dict[str, Any]]:
        """Every resource ever created for this cluster, gone or not."""
        items: list[dict[str, Any]] = (await self.call("GET", f"/resources?label=penstock-cluster={self.cluster}"))["items"]
        return items

    async def existing(self) -> list[dict[str, Any]]:
        """The resources that are not gone."""
        return [item for item in await self.ever_made() if item["phase"] != "gone"]

    async def add(self, name: str, suffix: str = "a", *, labels: dict[str, str], hosts: int = 1) -> None:
        """Create a resource without the autoscaler."""
        await self.call("POST", f"/zones/{self.zone(suffix)}/resources", {"name": name, "labels": labels, "hosts": hosts})

    async def delete(self, name: str) -> None:
        """Delete a resource without the autoscaler."""
        await self.call("DELETE", f"/resources/{name}")

    async def preempt(self, name: str) -> None:
        await self.call("POST", f"/resources/{name}/preempt")

    async def announce(self, name: str, notice: Notice | None) -> None:
        """Announce it for a resource; None takes back what was announced."""
        path = f"/resources/{name}/notice"
        if notice is None:
            await self.call("DELETE", path)
        else:
            await self.call("PUT", path, notice.model_dump(mode="json"))

    async def admit(self, name: str) -> None:
        await self.call("POST", f"/resources/{name}/admit")

    async def kill_host(self, name: str, host: int = 0) -> None:
        await self.call("POST", f"/resources/{name}/hosts/{host}/kill")


class Stage:
    """A cluster, its autoscaler's client, and its cloud."""

    def __init__(self, machine: Machine, client: Client, cloud: StagedCloud, config: ClusterConfig) -> None:
        self.machine = machine
        self.client = client
        self.cloud = cloud
        self.config = config
        self.cluster = config.cluster
        self.autoscaler = AutoscalerClient(client, config.cluster)

    @property
    def workflow(self) -> "WorkflowHandle[Any, Any]":
        """The autoscaler's newest run."""
        return self.client.get_workflow_handle(autoscaler_id(self.cluster))

    def slice_workflow(self, group_name: str, slice_id: str) -> "WorkflowHandle[Any, Any]":
        """The workflow of a slice."""
        return self.client.get_workflow_handle(slice_workflow_id(self.cluster, group_name, slice_id))

    async def eventually(self, look: Callable[[], Awaitable[T]], holds: Callable[[T], object], *, seconds: float = SECONDS) -> T:
        """The first value for which the condition holds. Wait only for a condition that lasts."""
        return await until(look, holds, seconds=seconds)

    async def last_state(self) -> str:
        """For a test that hangs: the activities and the status of the autoscaler."""
        described = await self.workflow.describe()
        pending = [each.activity_type.name for each in described.raw_description.pending_activities]
        doing = f"{described.status}, {described.history_length} events, activities under way: {pending}"
        return f"{doing}\n{(await self.autoscaler.status()).model_dump_json(indent=1)}"


@asynccontextmanager
async def staged(
    machine: Machine, *groups: dict[str, Any], start: bool = True, story_seconds: float = STORY_SECONDS, **config: Any
) -> AsyncIterator[Stage]:
    """A fresh cluster, started unless `start` is false; its workflows are ended with the test, which may not hang."""
    name = uuid.uuid4().hex[:8]
    region = f"region{name}"
    wanted = ClusterConfig.model_validate(
        QUICK | config | {"cluster": f"c{name}", "groups": [placed(each, region) for each in groups or (group(),)]}
    )
    client = await machine.client()
    async with aiohttp.ClientSession() as session:
        cloud = StagedCloud(machine.url, session, cluster=wanted.cluster, region=region)
        stage = Stage(machine, client, cloud, wanted)
        try:
            async with within(story_seconds, stage.last_state):
                if start:
                    await stage.autoscaler.start(wanted)
                yield stage
        finally:
            await cleared(client, wanted.cluster)


@asynccontextmanager
async def served_here(stage: Stage, patched: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """A worker in this process, made of whatever is patched, and the stage's cluster started on its own task queue."""
    patched.setenv(SIM_URL, stage.machine.url)
    queue = f"own-{stage.cluster}"
    async with working(stage.client, Settings(task_queue=queue)):
        await AutoscalerClient(stage.client, stage.cluster, task_queue=queue).start(stage.config)
        yield


async def cleared(client: Client, cluster: str) -> None:
    """End every workflow of the cluster, so that the next test has the machine to itself."""
    ids = [autoscaler_id(cluster)]
    query = f"WorkflowId STARTS_WITH 'penstock/{cluster}' AND ExecutionStatus = 'Running'"
    ids += [found.id async for found in client.list_workflows(query)]
    for workflow_id in dict.fromkeys(ids):
        try:
            await client.get_workflow_handle(workflow_id).terminate("the test is over")
        except RPCError:
            continue  # It had ended.
