"""Find the workers and clusters of a server; build the error messages for missing ones and failed connections."""

import os
import re
from typing import TYPE_CHECKING

from penstock.cli.failures import CommandFailed, suggestions
from penstock.contract.error_codes import ErrorCode
from penstock.contract.names import AUTOSCALER, CLUSTER_ATTRIBUTE, SEARCH_ATTRIBUTES, TASK_QUEUE, autoscaler_id
from penstock.wording import listed

if TYPE_CHECKING:
    from temporalio.client import Client
    from temporalio.service import RPCError

_USE_ANOTHER = "Use another: --address HOST:PORT, or export TEMPORAL_ADDRESS=HOST:PORT"
_SDK_MESSAGE = re.compile(r'message: "([^"]+)"|error: "?([^"{}]+?)"? }')
"""The readable part of the SDK's error about a failed connection."""
_NOT_GRPC = re.compile(r"after connection: Status { code: (?:Cancelled|Internal|Unimplemented|Unknown),")
"""Matches the SDK's error for a peer that does not speak gRPC: a web server, or a server that expects TLS when none is used."""
_RUST_NAMES = re.compile(r"[A-Z]\w*(?:\([A-Z]\w*\)*)*")
"""A message that consists of names of Rust types, such as InvalidMessage(InvalidContentType)."""


def task_queue() -> str:
    """The task queue that workers poll."""
    return os.environ.get("PENSTOCK_TASK_QUEUE") or TASK_QUEUE


async def pollers(client: "Client") -> list[float]:
    """The running workers, as the seconds since each last polled the server."""
    from penstock.client.workers import polling_workers

    return list((await polling_workers(client, task_queue())).values())


def waiting_for(workers: list[float]) -> str:
    """The message of a command that waits for an answer. The server lists a worker for a while after it ended."""
    from penstock.client.workers import POLL_SECONDS

    polled = f"waiting for an answer: the last worker polled {min(workers):.0f} s ago"
    return f"{polled}; a worker that ended is noticed after {POLL_SECONDS:.0f} s"


async def describe_rpc_error(client: "Client", error: "RPCError") -> CommandFailed:
    """The failure for an error of the server, with a fix where one is known."""
    from temporalio.service import RPCStatusCode

    if error.status in (RPCStatusCode.UNAVAILABLE, RPCStatusCode.CANCELLED):
        return no_server(client.service_client.config.target_host, error.message)
    if error.status in (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.FAILED_PRECONDITION):
        return await no_answer(client, error.message)
    if any(name in error.message for name in SEARCH_ATTRIBUTES):
        return _no_attributes(client, error.message)
    return CommandFailed(f"the server at {where(client)} refused: {error.message}", code=ErrorCode.REFUSED)


async def only_cluster(client: "Client") -> str:
    """The one cluster that runs; fails if none or several run."""
    running = await running_clusters(client)
    if len(running) == 1:
        return running[0]
    if not running:
        raise CommandFailed(
            f"no cluster runs at {where(client)}",
            "If one ran before, see whether anything of it is left: penstock clusters --all, penstock verify --cluster NAME",
            "Start one: penstock config apply examples/cluster.yaml",
            code=ErrorCode.NO_SUCH_CLUSTER,
        )
    raise CommandFailed(
        f"several clusters run at {where(client)}: {listed(running)}",
        f"Choose one: --cluster {running[0]}, or export PENSTOCK_CLUSTER={running[0]}",
        code=ErrorCode.SEVERAL_CLUSTERS,
    )


async def running_clusters(client: "Client") -> list[str]:
    """The names of the clusters whose autoscalers run."""
    query = f"WorkflowType = '{AUTOSCALER}' AND ExecutionStatus = 'Running'"
    return sorted({found.id.removeprefix(autoscaler_id("")) async for found in client.list_workflows(query)})


async def is_known(client: "Client", cluster: str) -> bool:
    """Whether a cluster of that name runs, or ran and Temporal still has its history."""
    from temporalio.api.common.v1 import WorkflowExecution
    from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest
    from temporalio.service import RPCError, RPCStatusCode

    execution = WorkflowExecution(workflow_id=autoscaler_id(cluster))
    request = DescribeWorkflowExecutionRequest(namespace=client.namespace, execution=execution)
    try:
        await client.workflow_service.describe_workflow_execution(request)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return True


async def has_traces(client: "Client", cluster: str) -> bool:
    """Whether Temporal knows anything of the cluster: its autoscaler, running or ended, or running slices and inventories."""
    if await is_known(client, cluster):
        return True
    if "'" in cluster:
        return False
    query = f"{CLUSTER_ATTRIBUTE} = '{cluster}' AND ExecutionStatus = 'Running'"
    async for _ in client.list_workflows(query, limit=1):
        return True
    return False


def where(client: "Client") -> str:
    """The server's address, and the namespace unless it is the default."""
    address = client.service_client.config.target_host
    return address if client.namespace == "default" else f"{address}, namespace {client.namespace}"


def no_server(address: str, why: str, *, tls: bool = False) -> CommandFailed:
    """No server answers at the address."""
    from penstock.connection import TLS_ADVICE

    return CommandFailed(
        f"no Temporal server answers at {address}" + (f" ({why})" if why else ""),
        *([TLS_ADVICE] if tls else []),
        "Start one: make run",
        f"Or {_USE_ANOTHER[0].lower()}{_USE_ANOTHER[1:]}",
        code=ErrorCode.NO_SERVER,
    )


def not_connected(address: str, error: str, *, tls: bool) -> CommandFailed:
    """The failure for the SDK's error about a connection."""
    from penstock.connection import TLS_ADVICE

    if not _NOT_GRPC.search(error):
        return no_server(address, _sentence(error), tls=tls)
    return CommandFailed(
        f"what answers at {address} is not a Temporal server; is it the port of the UI?",
        TLS_ADVICE if tls else "If the server requires TLS: export TEMPORAL_TLS=true",
        _USE_ANOTHER,
        code=ErrorCode.NO_SERVER,
    )


def _sentence(error: str) -> str:
    """The readable part of an error of the SDK."""
    found = _SDK_MESSAGE.search(error)
    sentence = (found[1] or found[2]) if found else error.partition(" {")[0]
    if not _RUST_NAMES.fullmatch(sentence):
        return sentence
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", sentence).lower().replace("(", ": ").replace(")", "")


async def no_such_cluster(client: "Client", cluster: str) -> CommandFailed:
    """No autoscaler of that name runs; lists those that do."""
    from temporalio.service import RPCError

    try:
        running = await running_clusters(client)
    except RPCError as error:  # The namespace does not exist.
        return await describe_rpc_error(client, error)
    known = f"Running clusters: {listed(running)}" if running else "No cluster runs there"
    ended = await _ended(client, cluster)
    restorable = (f"Its autoscaler was {ended}: penstock restore {cluster}",) if ended else ()
    left = (f"Something of it may still exist: penstock verify --cluster {cluster}",) if await has_traces(client, cluster) else ()
    fixes = (*restorable, *suggestions(cluster, running), known, *left, "Start one: penstock config apply FILE")
    return CommandFailed(f"no cluster {cluster!r} runs at {where(client)}", *fixes, code=ErrorCode.NO_SUCH_CLUSTER)


async def _ended(client: "Client", cluster: str) -> str:
    """How the cluster's autoscaler ended, if not because the cluster was deleted; empty otherwise."""
    from temporalio.client import WorkflowExecutionStatus

    from penstock.client.last_run import last_run

    run = await last_run(client, cluster)
    wanted = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED)
    return "" if run is None or run.status is None or run.status in wanted else run.status.name.lower()


async def no_answer(client: "Client", why: str = "", *, ordering: bool = False) -> CommandFailed:
    """No answer in time: most often no worker runs. An order that reached the server is carried out later."""
    later = ("The order may have reached the server: then it is carried out once a worker runs, and penstock status shows it",)
    found = await pollers(client)
    if not found:
        return no_worker(client, *(later if ordering else ()))
    reason = f"the server reports: {why}" if why else "it may be busy, or have stopped since: try again"
    return CommandFailed(
        f"no answer, though a worker polled {min(found):.0f} s ago; {reason}",
        *(later if ordering else ()),
        code=ErrorCode.NO_ANSWER,
    )


def no_worker(client: "Client", *fixes: str) -> CommandFailed:
    """The server runs, but no worker polls the task queue."""
    return CommandFailed(
        f"no worker runs on task queue {task_queue()!r} at {where(client)}",
        f"Start one: {_worker_command(client)}",
        *fixes,
        code=ErrorCode.NO_WORKER,
    )


def _no_attributes(client: "Client", why: str) -> CommandFailed:
    """Search attributes are missing: no worker has run there yet, or it may not register them."""
    names = " ".join(f"--name {name} --type Keyword" for name in SEARCH_ATTRIBUTES)
    address = client.service_client.config.target_host
    return CommandFailed(
        f"the server at {where(client)} lacks search attributes: {why}",
        f"A worker registers them within 30 s: {_worker_command(client)}",
        f"Or: temporal operator search-attribute create --address {address} --namespace {client.namespace} {names}",
        "In Temporal Cloud: add them in the settings of the namespace",
        code=ErrorCode.REFUSED,
    )


def _worker_command(client: "Client") -> str:
    namespace = "" if client.namespace == "default" else f"TEMPORAL_NAMESPACE={client.namespace} "
    return f"TEMPORAL_ADDRESS={client.service_client.config.target_host} {namespace}python -m worker"
