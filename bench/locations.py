"""`python -m bench.locations`: one worker that watches thousands of locations; how soon it buys, verifies and diagnoses.

A server, a simulated cloud and one worker are started. Clusters of some hundred locations each are created, together as many as
asked for; then one task is submitted to the first, and the time until its slice is READY counts from the start of the clusters.
"""

import asyncio
import time
import uuid

import click
from temporalio.service import RPCError

from bench.temporal import scene
from bench.temporal.scene import Scene, staged
from penstock.client import AutoscalerClient
from penstock.contract import names
from penstock.contract.answers import DoctorReport, Verdict
from penstock.contract.requests import VerifyRequest
from penstock.model.cluster import ClusterConfig

LOCATIONS = 2000
PER_CLUSTER = 1000
"""A configuration of more groups would come near the size limit of a message."""
FIRST_SLICE_SECONDS = 120.0
CHECK_SECONDS = 30.0


def _config(cluster: str, locations: int) -> ClusterConfig:
    groups = [
        {"name": f"g{n:04}", "zone": f"{cluster}-{n:04}-a", "host": {"cpu": 4}, "max_slices": 2, "priority": n}
        for n in range(locations)
    ]
    return ClusterConfig.model_validate({"cluster": cluster, "evaluation": {"interval": "1s"}, "groups": groups})


async def _measure(here: Scene, locations: int) -> dict[str, float]:
    counts = [min(PER_CLUSTER, locations - begun) for begun in range(0, locations, PER_CLUSTER)]
    configs = [_config(f"c{n}", count) for n, count in enumerate(counts)]
    clients = [AutoscalerClient(here.client, config.cluster) for config in configs]
    began = time.monotonic()
    for client, config in zip(clients, configs, strict=True):
        await client.start(config)
    await clients[0].submit_demand([{"id": "first", "resources": {"cpu": 1}}])

    async def is_ready() -> bool:
        return await _finds(here, f"{names.STATE_ATTRIBUTE} = 'READY'")

    await scene.until(is_ready)
    found = {"first slice READY": time.monotonic() - began}

    async def is_watched() -> bool:
        try:
            return all([(await client.status()).recovery is None for client in clients])
        except RPCError:
            await asyncio.sleep(1)
            return False

    await scene.until(is_watched)
    found["every location listed"] = time.monotonic() - began
    found["verify"], verdict = await _checked(here, names.VERIFY, Verdict, VerifyRequest(cluster=configs[0].cluster))
    assert isinstance(verdict, Verdict)
    assert verdict.agrees, verdict
    assert verdict.locations == counts[0], verdict
    found["doctor"], report = await _checked(here, names.DOCTOR, DoctorReport)
    assert isinstance(report, DoctorReport)
    assert len([each for each in report.findings if each.ok]) > locations, [each for each in report.findings if not each.ok]
    return found


async def _finds(here: Scene, query: str) -> bool:
    """Whether a workflow is found. Asking the autoscaler all the time would take its time."""
    return (await here.client.count_workflows(query)).count > 0


async def _checked(here: Scene, workflow: str, kind: type, *request: object) -> tuple[float, object]:
    began = time.monotonic()
    answer = await here.client.execute_workflow(
        workflow, args=request, id=f"bench-{uuid.uuid4()}", task_queue=names.TASK_QUEUE, result_type=kind
    )
    return time.monotonic() - began, answer


async def _run(locations: int) -> dict[str, float]:
    scene.DEADLINE_SECONDS = 600.0
    async with staged() as here:
        return await _measure(here, locations)


@click.command()
@click.option("--locations", default=LOCATIONS, show_default=True, help="Locations on the one worker.")
def main(locations: int) -> None:
    """Measure one worker with many locations."""
    found = asyncio.run(_run(locations))
    limits = {"first slice READY": FIRST_SLICE_SECONDS, "verify": CHECK_SECONDS, "doctor": CHECK_SECONDS}
    for name, seconds in found.items():
        limit = limits.get(name)
        verdict = "" if limit is None else f"  {'reached' if seconds <= limit else 'MISSED'} (at most {limit:g} s)"
        click.echo(f"{name:24}{seconds:8.1f} s{verdict}")


if __name__ == "__main__":
    main()
