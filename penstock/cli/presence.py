"""Who is there at a server, workers and clusters, and what to say when they are not."""

import os
import re
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING

from penstock.cli.failures import EXIT_NO_CLUSTER, EXIT_REFUSED, EXIT_UNREACHABLE, CommandFailed
from penstock.contract.names import AUTOSCALER, SEARCH_ATTRIBUTES, TASK_QUEUE, autoscaler_id

if TYPE_CHECKING:
    from temporalio.client import Client
    from temporalio.service import RPCError

_POLL_SECONDS = 70.0
"""A worker asks for work once a minute at least; the server goes on listing it for minutes after it ended."""
_POINT = "Point to one: --address HOST:PORT, or export TEMPORAL_ADDRESS=HOST:PORT"
_SAID = re.compile(r'message: "([^"]+)"|error: "?([^"{}]+?)"? }')
"""The one part of the SDK's account of a failed connection that says something to people."""
_STRANGE = re.compile(r"after connection: Status { code: (?:Cancelled|Internal|Unimplemented|Unknown),")
"""How the SDK's account begins when somebody answered in another language: HTTP without gRPC, or with TLS where we use none."""
_NAMES_ONLY = re.compile(r"[A-Z]\w*(?:\([A-Z]\w*\)*)*")
"""A sentence made of nothing but names of Rust's, such as InvalidMessage(InvalidContentType)."""


def task_queue() -> str:
    """Where workers listen."""
    return os.environ.get("PENSTOCK_TASK_QUEUE") or TASK_QUEUE


async def pollers(client: "Client") -> list[float]:
    """The workers that are there, as the seconds since each of them last asked the server for work."""
    from temporalio.api.enums.v1 import TaskQueueType
    from temporalio.api.taskqueue.v1 import TaskQueue
    from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=task_queue()),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    found = (await client.workflow_service.describe_task_queue(request)).pollers
    now = datetime.now(UTC).timestamp()
    ages = [max(0.0, now - poller.last_access_time.seconds) for poller in found]
    return [age for age in ages if age < _POLL_SECONDS]


def awaited(workers: list[float]) -> str:
    """What to tell those who wait for one of the workers, which may have ended unnoticed."""
    asked = f"waiting for a worker's answer: the last one asked for work {min(workers):.0f} s ago"
    return f"{asked}; one that ended is missed after {_POLL_SECONDS:.0f} s"


async def rpc_in_words(client: "Client", error: "RPCError") -> CommandFailed:
    """What a server refused, and what to do about it."""
    from temporalio.service import RPCStatusCode

    if error.status in (RPCStatusCode.UNAVAILABLE, RPCStatusCode.CANCELLED):
        return no_server(client.service_client.config.target_host, error.message)
    if error.status in (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.FAILED_PRECONDITION):
        return await no_answer(client, error.message)
    if any(name in error.message for name in SEARCH_ATTRIBUTES):
        return _no_attributes(client, error.message)
    return CommandFailed(f"the server at {where(client)} says: {error.message}", code=EXIT_REFUSED)


async def only_cluster(client: "Client") -> str:
    """The one cluster that runs; with none or several somebody must choose."""
    running = await running_clusters(client)
    if len(running) == 1:
        return running[0]
    if not running:
        raise CommandFailed(
            f"no cluster runs at {where(client)}",
            "Start one: penstock config apply examples/cluster.yaml",
            code=EXIT_NO_CLUSTER,
        )
    raise CommandFailed(
        f"several clusters run at {where(client)}: {', '.join(running)}",
        f"Choose one: --cluster {running[0]}, or export PENSTOCK_CLUSTER={running[0]}",
        code=EXIT_NO_CLUSTER,
    )


async def running_clusters(client: "Client") -> list[str]:
    """The names of the clusters whose autoscalers run."""
    query = f"WorkflowType = '{AUTOSCALER}' AND ExecutionStatus = 'Running'"
    return sorted({found.id.removeprefix(autoscaler_id("")) async for found in client.list_workflows(query)})


async def is_known(client: "Client", cluster: str) -> bool:
    """Whether a cluster of that name runs, or did and is remembered."""
    from temporalio.api.common.v1 import WorkflowExecution
    from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest
    from temporalio.service import RPCError, RPCStatusCode

    meant = WorkflowExecution(workflow_id=autoscaler_id(cluster))
    request = DescribeWorkflowExecutionRequest(namespace=client.namespace, execution=meant)
    try:
        await client.workflow_service.describe_workflow_execution(request)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return True


def where(client: "Client") -> str:
    """The server's address, and its namespace where that is not the usual one."""
    address = client.service_client.config.target_host
    return address if client.namespace == "default" else f"{address}, namespace {client.namespace}"


def no_server(address: str, why: str, *, tls: bool = False) -> CommandFailed:
    """Nobody listens there, or nobody who speaks as we do."""
    from penstock.connection import TLS_ADVICE

    return CommandFailed(
        f"no Temporal server answers at {address}" + (f" ({why})" if why else ""),
        *([TLS_ADVICE] if tls else []),
        "Start one here: make run",
        f"Or {_POINT[0].lower()}{_POINT[1:]}",
        code=EXIT_UNREACHABLE,
    )


def not_connected(address: str, account: str, *, tls: bool) -> CommandFailed:
    """What the SDK's account of a failed connection comes down to."""
    from penstock.connection import TLS_ADVICE

    if not _STRANGE.search(account):
        return no_server(address, _sentence(account), tls=tls)
    return CommandFailed(
        f"something answers at {address} that is not a Temporal server (is this the UI's port?)",
        TLS_ADVICE if tls else "If it is one that wants TLS: export TEMPORAL_TLS=true",
        _POINT,
        code=EXIT_UNREACHABLE,
    )


def _sentence(account: str) -> str:
    """The first thing that an account says to people."""
    found = _SAID.search(account)
    said = (found[1] or found[2]) if found else account.partition(" {")[0]
    if not _NAMES_ONLY.fullmatch(said):
        return said
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", said).lower().replace("(", ": ").replace(")", "")


async def no_such_cluster(client: "Client", cluster: str) -> CommandFailed:
    """No autoscaler of that name runs; those that do are listed."""
    from temporalio.service import RPCError

    try:
        running = await running_clusters(client)
    except RPCError as error:  # Not the cluster is unknown then, but its namespace.
        return await rpc_in_words(client, error)
    close = get_close_matches(cluster, running, n=1)
    known = f"Clusters that run there: {', '.join(running)}" if running else "No cluster runs there"
    hints = [f"Did you mean {close[0]}?"] if close else []
    hints += [known, "Start one: penstock config apply FILE"]
    return CommandFailed(f"no cluster {cluster!r} runs at {where(client)}", *hints, code=EXIT_NO_CLUSTER)


async def no_answer(client: "Client", why: str = "", *, ordering: bool = False) -> CommandFailed:
    """The server is there and the answer did not come: most often no worker runs. It keeps an order that it was given."""
    hints = ("The server may have the order: then it is carried out once a worker runs, and penstock status shows it",)
    found = await pollers(client)
    if not found:
        return no_worker(client, *(hints if ordering else ()))
    told = f"the server says: {why}" if why else "it may be busy, or have stopped since: try again"
    return CommandFailed(
        f"no answer, though a worker asked for work {min(found):.0f} s ago; {told}",
        *(hints if ordering else ()),
        code=EXIT_UNREACHABLE,
    )


def no_worker(client: "Client", *hints: str) -> CommandFailed:
    """The server is there and nobody works for it."""
    return CommandFailed(
        f"no worker runs on task queue {task_queue()!r} at {where(client)}",
        f"Start one: {_worker_command(client)}",
        *hints,
        code=EXIT_UNREACHABLE,
    )


def _no_attributes(client: "Client", why: str) -> CommandFailed:
    """No worker has run there yet, or it may not register what it needs."""
    wanted = " ".join(f"--name {name} --type Keyword" for name in SEARCH_ATTRIBUTES)
    address = client.service_client.config.target_host
    return CommandFailed(
        f"the server at {where(client)} lacks search attributes: {why}",
        f"A worker registers them when it starts: {_worker_command(client)}",
        f"Or: temporal operator search-attribute create --address {address} --namespace {client.namespace} {wanted}",
        "In Temporal Cloud they are added in the namespace's settings",
        code=EXIT_REFUSED,
    )


def _worker_command(client: "Client") -> str:
    namespace = "" if client.namespace == "default" else f"TEMPORAL_NAMESPACE={client.namespace} "
    return f"TEMPORAL_ADDRESS={client.service_client.config.target_host} {namespace}python -m worker"
