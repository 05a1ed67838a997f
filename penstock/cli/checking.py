"""`penstock verify` and `penstock doctor`: short workflows on the worker, which alone can see the clouds."""

import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from penstock.cli.connect import Reach, at_server, cluster_options, json_option, perform, server_options
from penstock.cli.failures import EXIT_DIFFERS, EXIT_REFUSED, CommandFailed
from penstock.cli.presence import is_known, no_such_cluster, no_worker, only_cluster, pollers, running_clusters, task_queue, where
from penstock.cli.render_checks import examination_view, verdict_view
from penstock.cli.screen import print_json, screen
from penstock.contract.answers import DoctorReport, Finding, Verdict
from penstock.contract.error_codes import ErrorCode
from penstock.contract.names import DOCTOR, VERIFY
from penstock.contract.requests import VerifyRequest

if TYPE_CHECKING:
    from temporalio.client import Client

_CHECK_SECONDS = 300.0
"""A cloud with many locations is listed within it, with retries."""


@click.command()
@json_option
@cluster_options
def verify(reach: Reach, as_json: bool) -> None:
    """Compare ledger, workflows and cloud, now.

    Also after a cluster was deleted: --cluster NAME says whether anything of it is left. Exit status: 0 if they agree, 1 on any
    difference or if a location could not be listed.
    """
    perform(_verify(reach, as_json=as_json))


@click.command()
@json_option
@server_options
def doctor(reach: Reach, as_json: bool) -> None:
    """Check the server, the worker and its clouds.

    Exit status: 0 if all is well, 1 if something needs attention.
    """
    perform(_doctor(reach, as_json=as_json))


async def _verify(reach: Reach, *, as_json: bool) -> int:
    async with at_server(reach, seconds=_CHECK_SECONDS) as client:
        cluster = reach.cluster or await only_cluster(client)
        if not await is_known(client, cluster):
            raise await no_such_cluster(client, cluster)
        if not await pollers(client):
            raise no_worker(client)
        verdict = await _verdict(client, cluster)
    if as_json:
        print_json(verdict, agrees=verdict.agrees)
    else:
        screen().print(verdict_view(verdict))
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
        raise CommandFailed(f"{cluster} could not be verified: {cause}", code=EXIT_REFUSED) from None
    return found


async def _doctor(reach: Reach, *, as_json: bool) -> int:
    try:
        async with at_server(reach, seconds=_CHECK_SECONDS) as client:
            findings = await _findings(client)
    except CommandFailed as failed:
        findings = (Finding(subject="server", ok=False, message=failed.message, fix="; ".join(failed.hints)),)
    examination = DoctorReport(at=datetime.now(UTC), findings=findings)
    if as_json:
        print_json(examination, healthy=examination.healthy)
    else:
        screen().print(examination_view(examination))
    return 0 if examination.healthy else EXIT_DIFFERS


async def _findings(client: "Client") -> tuple[Finding, ...]:
    """What can be seen from here, then what the worker sees."""
    workers = await pollers(client)
    found = [Finding(subject="server", ok=True, message=f"answers at {where(client)}")]
    if not workers:
        missing = no_worker(client)
        return (*found, Finding(subject="worker", ok=False, message=missing.message, fix="; ".join(missing.hints)))
    found.append(Finding(subject="worker", ok=True, message=f"{len(workers)} on task queue {task_queue()!r}"))
    running = await running_clusters(client)
    found.append(Finding(subject="clusters", ok=True, message=", ".join(running) or "none runs yet: penstock config apply FILE"))
    seen: DoctorReport = await client.execute_workflow(
        DOCTOR, id=f"penstock/~doctor/{secrets.token_hex(4)}", task_queue=task_queue(), result_type=DoctorReport
    )
    return (*found, *seen.findings)
