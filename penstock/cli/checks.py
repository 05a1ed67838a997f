"""`penstock verify` and `penstock doctor`: checks that run as short workflows on the worker, which has the credentials."""

import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from penstock.cli.connect import Target, at_server, cluster_options, json_option, perform, server_options
from penstock.cli.discovery import (
    has_traces,
    no_such_cluster,
    no_worker,
    only_cluster,
    pollers,
    running_clusters,
    task_queue,
    where,
)
from penstock.cli.failures import EXIT_DIFFERS, CommandFailed
from penstock.cli.render_checks import doctor_view, verdict_view
from penstock.cli.terminal import print_json, terminal
from penstock.contract.answers import DoctorReport, Finding, Verdict
from penstock.contract.error_codes import ErrorCode
from penstock.contract.names import DOCTOR, VERIFY
from penstock.contract.requests import VerifyRequest
from penstock.wording import listed

if TYPE_CHECKING:
    from temporalio.client import Client

_CHECK_SECONDS = 300.0
"""Deadline for one check: enough to list a cloud with many locations, with retries."""


@click.command()
@json_option
@cluster_options
def verify(target: Target, as_json: bool) -> None:
    """Also if the autoscaler is gone, deleted or not: --cluster NAME reports whether anything of it is left.

    Exit status: 0 if they agree, 1 on any difference or if a location could not be listed.
    """
    perform(_verify(target, as_json=as_json))


@click.command()
@json_option
@server_options
def doctor(target: Target, as_json: bool) -> None:
    """Every location of every cluster is listed with the worker's own credentials.

    Exit status: 0 if all is well, 1 if something needs attention.
    """
    perform(_doctor(target, as_json=as_json))


async def _verify(target: Target, *, as_json: bool) -> int:
    async with at_server(target, seconds=_CHECK_SECONDS) as client:
        cluster = target.cluster or await only_cluster(client)
        if not await has_traces(client, cluster):
            raise await no_such_cluster(client, cluster)
        if not await pollers(client):
            raise no_worker(client)
        verdict = await _verdict(client, cluster)
    if as_json:
        print_json(verdict, agrees=verdict.agrees)
    else:
        terminal().print(verdict_view(verdict))
    return 0 if verdict.agrees else EXIT_DIFFERS


async def _verdict(client: "Client", cluster: str) -> Verdict:
    from temporalio.client import WorkflowFailureError
    from temporalio.exceptions import ActivityError, ApplicationError

    try:
        found: Verdict = await client.execute_workflow(
            VERIFY,
            VerifyRequest(cluster=cluster),
            id=f"penstock/{cluster}/~verify/{secrets.token_hex(4)}",
            task_queue=task_queue(),
            result_type=Verdict,
        )
    except WorkflowFailureError as failure:
        cause = failure.cause.cause if isinstance(failure.cause, ActivityError) else failure.cause
        if isinstance(cause, ApplicationError) and cause.type == ErrorCode.NO_SUCH_CLUSTER:
            raise await no_such_cluster(client, cluster) from None
        raise CommandFailed(f"{cluster} could not be verified: {cause}", code=ErrorCode.REFUSED) from None
    return found


async def _doctor(target: Target, *, as_json: bool) -> int:
    try:
        async with at_server(target, seconds=_CHECK_SECONDS) as client:
            findings = await _findings(client)
    except CommandFailed as failed:
        findings = (Finding(subject="server", ok=False, message=failed.message, fix="; ".join(failed.fixes)),)
    found = DoctorReport(at=datetime.now(UTC), findings=findings)
    if as_json:
        print_json(found, healthy=found.healthy)
    else:
        terminal().print(doctor_view(found))
    return 0 if found.healthy else EXIT_DIFFERS


async def _findings(client: "Client") -> tuple[Finding, ...]:
    """The findings of this process, then those of the worker."""
    workers = await pollers(client)
    found = [Finding(subject="server", ok=True, message=f"answers at {where(client)}")]
    if not workers:
        missing = no_worker(client)
        return (*found, Finding(subject="worker", ok=False, message=missing.message, fix="; ".join(missing.fixes)))
    found.append(Finding(subject="worker", ok=True, message=f"{len(workers)} on task queue {task_queue()!r}"))
    running = await running_clusters(client)
    found.append(Finding(subject="clusters", ok=True, message=listed(running) or "none runs: penstock config apply FILE"))
    by_worker: DoctorReport = await client.execute_workflow(
        DOCTOR, id=f"penstock/~doctor/{secrets.token_hex(4)}", task_queue=task_queue(), result_type=DoctorReport
    )
    return (*found, *by_worker.findings)
