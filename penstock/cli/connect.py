"""How commands reach a cluster: the options, which cluster is meant, and what to say when nobody answers."""

import asyncio
import functools
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import click

from penstock.cli.failures import (
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    EXIT_NO_CLUSTER,
    EXIT_REFUSED,
    EXIT_UNREACHABLE,
    CommandFailed,
    tell_problems,
)
from penstock.config.problems import BadInput
from penstock.contract.names import AUTOSCALER, TASK_QUEUE, autoscaler_id

if TYPE_CHECKING:
    from temporalio.client import Client
    from temporalio.service import RPCError

    from penstock.client import AutoscalerClient

ANSWER_SECONDS = 30.0
"""Answers take milliseconds; a worker that just took a cluster over may replay for seconds."""
_CONNECT_SECONDS = 10.0
"""A server on another continent answers within it."""

_SUSPICIOUS_SECONDS = 3.0
"""After so long without an answer it is worth asking whether there is a worker at all."""
_POLL_SECONDS = 90.0
"""A worker asks for work once a minute at least; the server goes on listing it for minutes after it died."""
_SAID = re.compile(r'(?:message|error): "([^"]+)"')
"""The one part of the SDK's account of a failed connection that says something to people."""
_NOTES = Path(".penstock")
"""Where a service started in this directory keeps its data and says where it listens."""

F = TypeVar("F", bound=Callable[..., Any])


class Reach(NamedTuple):
    """What the command line says about where to go; what is None is found out."""

    cluster: str | None = None
    address: str | None = None
    namespace: str | None = None


def server_options(command: F) -> F:
    """Add --address and --namespace; the command gets them as `reach`."""

    @functools.wraps(command)
    def with_reach(*args: Any, address: str | None, namespace: str | None, cluster_option: str | None = None, **rest: Any) -> Any:
        return command(*args, reach=Reach(cluster_option, address, namespace), **rest)

    address = click.option("--address", metavar="HOST:PORT", help="Temporal server; TEMPORAL_ADDRESS does the same.")
    namespace = click.option("--namespace", help="Temporal namespace; TEMPORAL_NAMESPACE does the same.")
    return address(namespace(with_reach))  # type: ignore[return-value]


def cluster_options(command: F) -> F:
    """Add --cluster, --address and --namespace; the command gets them as `reach`."""
    meant = click.option(
        "--cluster", "cluster_option", metavar="NAME", envvar="PENSTOCK_CLUSTER", help="Unless it is the only one that runs."
    )
    return meant(server_options(command))


def json_option(command: F) -> F:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)


def perform(work: Coroutine[Any, Any, int], *, interrupted: int = EXIT_INTERRUPTED) -> NoReturn:
    """Do a command's work, say what kept it from being done, and end the process with its exit code."""
    try:
        code = asyncio.run(work)
    except CommandFailed as failed:
        failed.tell()
        code = failed.code
    except BadInput as bad:
        tell_problems(bad.problems, "error")
        code = EXIT_BAD_INPUT
    except KeyboardInterrupt:
        code = interrupted
    finish(code)


def finish(code: int) -> NoReturn:
    """End the process at once: the SDK's own threads crash interpreters that take their time (sdk-python#300)."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 1  # Whoever read our output has gone; there is nobody left to tell.
    os._exit(code)


@asynccontextmanager
async def at_server(reach: Reach, *, seconds: float | None = ANSWER_SECONDS) -> AsyncIterator["Client"]:
    """A connection; what goes wrong while it is used is told in words, after `seconds` that nobody answers."""
    from penstock.connection import connect, flush_traces

    address = address_of(reach)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            client = await connect(address=address, namespace=reach.namespace)
    except (RuntimeError, TimeoutError) as error:
        said = _SAID.search(str(error))
        raise no_server(address, said[1] if said else str(error)) from None
    try:
        async with _in_words(client, seconds):
            yield client
    finally:
        await flush_traces()


@asynccontextmanager
async def at_cluster(reach: Reach, *, seconds: float | None = ANSWER_SECONDS) -> AsyncIterator["AutoscalerClient"]:
    """The autoscaler that is meant: the one that was named, or the only one."""
    from penstock.client import AutoscalerClient

    async with at_server(reach, seconds=seconds) as client:
        yield AutoscalerClient(client, reach.cluster or await only_cluster(client), task_queue=task_queue())


@asynccontextmanager
async def _in_words(client: "Client", seconds: float | None) -> AsyncIterator[None]:
    """Turn what the client raises into what to say about it."""
    from temporalio.service import RPCError

    from penstock.client import NoSuchCluster, Refused

    try:
        async with asyncio.timeout(seconds) as deadline, _ended_early_without_worker(client, deadline):
            yield
    except TimeoutError:
        raise await no_answer(client) from None
    except NoSuchCluster as unknown:
        raise await no_such_cluster(client, unknown.cluster) from None
    except Refused as refused:
        raise CommandFailed(str(refused), code=EXIT_REFUSED) from None
    except RPCError as error:
        raise await _rpc_in_words(client, error) from None


@asynccontextmanager
async def _ended_early_without_worker(client: "Client", deadline: asyncio.Timeout) -> AsyncIterator[None]:
    """Bring a deadline forward if nobody is there who could answer; without a deadline somebody may come."""

    async def look() -> None:
        await asyncio.sleep(_SUSPICIOUS_SECONDS)
        if not await pollers(client):
            deadline.reschedule(asyncio.get_running_loop().time())

    looking = asyncio.create_task(look()) if deadline.when() is not None else None
    try:
        yield
    finally:
        if looking is not None:
            looking.cancel()


async def _rpc_in_words(client: "Client", error: "RPCError") -> CommandFailed:
    from temporalio.service import RPCStatusCode

    if error.status in (RPCStatusCode.UNAVAILABLE, RPCStatusCode.CANCELLED):
        return no_server(client.service_client.config.target_host, error.message)
    if error.status in (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.FAILED_PRECONDITION):
        return await no_answer(client, error.message)
    return CommandFailed(f"the server at {where(client)} says: {error.message}", code=EXIT_REFUSED)


async def pollers(client: "Client") -> int:
    """How many workers ask the server for work."""
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
    return sum(now - poller.last_access_time.seconds < _POLL_SECONDS for poller in found)


def address_of(reach: Reach) -> str:
    """Where the server is: as told, as the environment says, or where the one that was started in this directory said it is."""
    from temporalio.envconfig import ClientConfig

    from penstock.connection import DEFAULT_ADDRESS

    told = reach.address or ClientConfig.load_client_connect_config().get("target_host")
    return told or noted("address") or DEFAULT_ADDRESS


def noted(name: str) -> str | None:
    """What a service that was started in this directory wrote down for those who look for it."""
    try:
        return (_NOTES / name).read_text().strip() or None
    except OSError:
        return None


def task_queue() -> str:
    """Where workers listen."""
    return os.environ.get("PENSTOCK_TASK_QUEUE") or TASK_QUEUE


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


def where(client: "Client") -> str:
    """The server's address, and its namespace where that is not the usual one."""
    address = client.service_client.config.target_host
    return address if client.namespace == "default" else f"{address}, namespace {client.namespace}"


def no_server(address: str, why: str) -> CommandFailed:
    """Nobody listens there."""
    return CommandFailed(
        f"no Temporal server answers at {address}" + (f" ({why})" if why else ""),
        "Start one here: make run",
        "Or point to one: --address HOST:PORT, or export TEMPORAL_ADDRESS=HOST:PORT",
        code=EXIT_UNREACHABLE,
    )


async def no_such_cluster(client: "Client", cluster: str) -> CommandFailed:
    """No autoscaler of that name runs; those that do are listed."""
    from temporalio.service import RPCError

    try:
        running = await running_clusters(client)
    except RPCError as error:  # Not the cluster is unknown then, but its namespace.
        return await _rpc_in_words(client, error)
    close = get_close_matches(cluster, running, n=1)
    known = f"Clusters that run there: {', '.join(running)}" if running else "No cluster runs there"
    hints = [f"Did you mean {close[0]}?"] if close else []
    hints += [known, "Start one: penstock config apply FILE"]
    return CommandFailed(f"no cluster {cluster!r} runs at {where(client)}", *hints, code=EXIT_NO_CLUSTER)


async def no_answer(client: "Client", why: str = "") -> CommandFailed:
    """The server is there and the answer did not come: most often no worker runs."""
    if not await pollers(client):
        return no_worker(client)
    told = f"the server says: {why}" if why else "it may be busy: try again"
    return CommandFailed(f"no answer, though a worker runs; {told}", code=EXIT_UNREACHABLE)


def no_worker(client: "Client") -> CommandFailed:
    """The server is there and nobody works for it."""
    return CommandFailed(
        f"no worker runs on task queue {task_queue()!r} at {where(client)}",
        f"Start one: TEMPORAL_ADDRESS={client.service_client.config.target_host} python -m worker",
        code=EXIT_UNREACHABLE,
    )
