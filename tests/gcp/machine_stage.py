"""A cluster of one test on Google's emulated clouds: its project, zones and resources, and the checks of a quiet cluster."""

import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp

from activities.providers.port import resource_name
from activities.temporal_reads import running_slices
from penstock.model.cluster import ClusterConfig
from penstock.model.slices import Slice, SliceState
from tests.emulators.running_gcp import GcpAdmin
from tests.gcp.machine import GcpMachine
from tests.workflows.ledgers import state_of, verified
from tests.workflows.stage import QUICK, Stage, StagedCloud, cleared

IMAGE = "projects/debian-cloud/global/images/family/debian-12"


def tpu(name: str, zone: str, *, variant: str = "v5litepod-16", **rest: Any) -> dict[str, Any]:
    """A group of TPU slices. Zones are named as in `west-a`."""
    device = {"type": "tpu", "variant": variant}
    return (
        {"name": name, "zone": zone, "max_slices": 3, "device": device, "host": {"cpu": 112, "memory": "192GiB"}}
        | {"provider": {"kind": "gcp-tpu"}}
        | rest
    )


def vm(name: str, zone: str, **rest: Any) -> dict[str, Any]:
    """A group of machines with 4 CPUs."""
    provider = {"kind": "gce", "machine_type": "n2-standard-4", "image": IMAGE}
    return {"name": name, "zone": zone, "max_slices": 3, "host": {"cpu": 4, "memory": "16GiB"}, "provider": provider} | rest


def gangs(count: int, *, variant: str = "v5litepod-16", name: str = "train") -> list[dict[str, Any]]:
    """Gangs of four, each of which fills a slice."""
    device = {"type": "tpu", "variants": [variant]}
    return [{"id": name, "count": count, "gang": {"size": 4}, "device": device, "resources": {"tpu": 4}}]


class GcpStagedCloud(StagedCloud):
    """The resources of the stage's project on the emulator."""

    def __init__(self, admin: GcpAdmin, session: aiohttp.ClientSession, *, cluster: str, prefix: str, project: str) -> None:
        super().__init__("", session, cluster=cluster, region=prefix)
        self.admin = admin
        self.project = project

    async def behave(self, suffix: str = "west-a", **behaviour: Any) -> None:
        """Set the behaviour of a zone."""
        await self.admin.behave(self.zone(suffix), **behaviour)

    async def ever_made(self) -> list[dict[str, Any]]:
        """Every resource ever made in the stage's zones, deleted ones included."""
        items = (await self.admin.call("GET", f"/resources?project={self.project}"))["items"]
        return [item for item in items if item["zone"].startswith(f"{self.region}-")]

    async def existing(self) -> list[dict[str, Any]]:
        return [item for item in await self.ever_made() if item["exists"]]

    async def names(self) -> set[str]:
        """Names of the slices that have a resource of any kind."""
        return {item.get("labels", {}).get("penstock-resource", item["name"]) for item in await self.existing()}

    async def preempt(self, name: str) -> None:
        await self.admin.call("POST", f"/resources/{name}/preempt?project={self.project}")

    async def delete_machine(self, suffix: str, name: str) -> None:
        """Delete a machine by hand."""
        await self.admin.delete_machine(name, project=self.project, zone=self.zone(suffix))


class GcpStage(Stage):
    """A cluster on Google's clouds."""

    cloud: GcpStagedCloud

    def name_of(self, piece: Slice) -> str:
        """A slice's name in the cloud."""
        return resource_name(cluster=self.cluster, group=piece.group, slice_id=piece.id)

    async def quiet(self, **groups: int) -> tuple[Slice, ...]:
        """Wait until the groups have this many slices, each READY with one workflow and one resource; then verify the cluster."""
        found = await self.eventually(lambda: accounts(self), lambda seen: seen.quiet and seen.groups == groups)
        made = [item for item in await self.cloud.ever_made() if not item.get("failed")]
        doubled = [key for key, times in Counter((item["kind"], item["name"]) for item in made).items() if times > 1]
        assert not doubled, doubled
        verdict = await verified(self)
        assert verdict.agrees, verdict
        assert (verdict.slices, verdict.workflows, verdict.resources) == (len(found.ledger),) * 3
        return found.ledger


class Accounts(NamedTuple):
    """Ledger, workflows and cloud at one moment, and whether work is left; resources are compared by name."""

    ledger: tuple[Slice, ...]
    workflows: frozenset[str]
    resources: frozenset[str]
    wanted: frozenset[str]
    busy: bool

    @property
    def quiet(self) -> bool:
        ids = {piece.id for piece in self.ledger}
        ready = all(piece.state is SliceState.READY for piece in self.ledger)
        return ready and not self.busy and ids == self.workflows and self.wanted == self.resources

    @property
    def groups(self) -> dict[str, int]:
        return dict(Counter(piece.group for piece in self.ledger))


async def accounts(stage: GcpStage) -> Accounts:
    """Read ledger, workflows and cloud."""
    state = await state_of(stage)
    return Accounts(
        state.slices,
        frozenset(await running_slices(stage.client, stage.cluster)),
        frozenset(await stage.cloud.names()),
        frozenset(stage.name_of(piece) for piece in state.slices),
        busy=bool(state.recovery or state.unstarted or state.outbox or state.draining),
    )


@asynccontextmanager
async def staged(
    machine: GcpMachine, *groups: dict[str, Any], start: bool = True, project: str | None = None, **config: Any
) -> AsyncIterator[GcpStage]:
    """A fresh cluster in its own project or a given one; its workflows end with the test."""
    name = uuid.uuid4().hex[:8]
    prefix, project = f"r{name}", project or f"project-{name}"
    placed = [
        each | {"zone": f"{prefix}-{each['zone']}", "provider": {"create_wait": "5s"} | each["provider"] | {"project": project}}
        for each in groups
    ]
    wanted = ClusterConfig.model_validate(QUICK | config | {"cluster": f"c{name}", "groups": placed})
    client = await machine.client()
    async with aiohttp.ClientSession() as session, machine.gcp.admin() as admin:
        cloud = GcpStagedCloud(admin, session, cluster=wanted.cluster, prefix=prefix, project=project)
        stage = GcpStage(machine, client, cloud, wanted)
        try:
            if start:
                await stage.autoscaler.start(wanted)
            yield stage
        finally:
            await cleared(client, wanted.cluster)
