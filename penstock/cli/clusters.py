"""`penstock clusters`: every cluster of the namespace, with its state."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from penstock.cli.connect import Target, at_server, json_option, perform, server_options
from penstock.cli.discovery import pollers, task_queue, where
from penstock.cli.render_clusters import ClusterSummary, clusters_view
from penstock.cli.terminal import print_json_data, terminal
from penstock.contract.names import AUTOSCALER, autoscaler_id

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowExecution

    from penstock.contract.answers import ClusterStatus

_ANSWER_SECONDS = 5.0
"""Deadline for each cluster's answer; all are queried at once."""
_AT_ONCE = 20
"""Queries in flight: a namespace may have hundreds of clusters."""


@click.command()
@click.option("--all", "ended_too", is_flag=True, help="Also clusters that ended and that Temporal still remembers.")
@json_option
@server_options
def clusters(target: Target, ended_too: bool, as_json: bool) -> None:
    """The state, slices, demand and age of each, and whether a worker answers for it."""
    perform(_show(target, ended_too=ended_too, as_json=as_json))


async def _show(target: Target, *, ended_too: bool, as_json: bool) -> int:
    async with at_server(target) as client:
        found = await summaries(client, ended_too=ended_too)
        server = where(client)
    if as_json:
        print_json_data({"clusters": [each.model_dump(mode="json") for each in found]})
    else:
        terminal().print(clusters_view(found, server, datetime.now(UTC)))
    return 0


async def summaries(client: "Client", *, ended_too: bool) -> list[ClusterSummary]:
    """Every cluster by name: its last run, its first run's start, and its status if a worker answers."""
    latest: dict[str, WorkflowExecution] = {}
    query = f"WorkflowType = '{AUTOSCALER}'" + ("" if ended_too else " AND ExecutionStatus = 'Running'")
    async for execution in client.list_workflows(query):
        known = latest.get(execution.id)
        if known is None or execution.start_time > known.start_time:
            latest[execution.id] = execution
    workers = await pollers(client)
    limit = asyncio.Semaphore(_AT_ONCE)
    return list(
        await asyncio.gather(*(_summary(client, latest[name], limit, answerable=bool(workers)) for name in sorted(latest)))
    )


async def _summary(
    client: "Client", execution: "WorkflowExecution", limit: asyncio.Semaphore, *, answerable: bool
) -> ClusterSummary:
    from temporalio.client import WorkflowExecutionStatus

    name = execution.id.removeprefix(autoscaler_id(""))
    running = execution.status in (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW)
    async with limit:
        since = await _first_start(client, execution)
        status = await _status(client, name) if running and answerable else None
    if not running:
        completed = execution.status is WorkflowExecutionStatus.COMPLETED
        ended = "deleted" if completed or execution.status is None else execution.status.name.lower()
        return ClusterSummary(cluster=name, state=ended, since=since, ended=execution.close_time)
    if status is None:
        return ClusterSummary(cluster=name, state="no answer", since=since)
    return ClusterSummary(
        cluster=name,
        state=_state(status),
        since=since,
        slices=status.slices,
        tasks=sum(source.tasks for source in status.demand.values()),
        unmet=sum(status.unmet.values()),
        worker_answers=True,
    )


def _state(status: "ClusterStatus") -> str:
    if status.closing:
        return "deleting"
    if status.paused is not None:
        return "paused"
    return "recovering" if status.recovery is not None else "running"


async def _status(client: "Client", cluster: str) -> "ClusterStatus | None":
    """The cluster's status; None if no worker answers in time."""
    from temporalio.service import RPCError

    from penstock.client import AutoscalerClient, ClientError

    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await AutoscalerClient(client, cluster, task_queue=task_queue()).status()
    except (TimeoutError, RPCError, ClientError):
        return None


async def _first_start(client: "Client", execution: "WorkflowExecution") -> datetime:
    """When the cluster was started: the start of the first run in its chain, or of this one if the first is forgotten."""
    from temporalio.service import RPCError

    first = execution.raw_info.first_run_id
    if not first or first == execution.run_id:
        return execution.start_time
    try:
        return (await client.get_workflow_handle(execution.id, run_id=first).describe()).start_time
    except RPCError:
        return execution.start_time
