"""Connect a command to its server and cluster: common options, connection, deadlines, readable failures."""

import asyncio
import functools
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import click

from penstock.cli.completion import complete_clusters
from penstock.cli.discovery import (
    describe_rpc_error,
    no_answer,
    no_such_cluster,
    not_connected,
    only_cluster,
    pollers,
    task_queue,
    waiting_for,
)
from penstock.cli.failures import EXIT_INTERRUPTED, BadFiles, CommandFailed, Interrupted, report, unexpected, wants_json
from penstock.config.problems import BadInput
from penstock.contract.error_codes import ErrorCode
from penstock.exits import finish

if TYPE_CHECKING:
    from pydantic import ValidationError
    from temporalio.client import Client

    from penstock.client import AutoscalerClient

ANSWER_SECONDS = 30.0
"""Answers take milliseconds; a worker that just took over a cluster may replay its history for seconds."""
_CONNECT_SECONDS = 10.0
"""Deadline for the connection: enough for a server on another continent."""
_SUSPICIOUS_SECONDS = 3.0
"""After this time without an answer, check whether any worker runs."""

F = TypeVar("F", bound=Callable[..., Any])


class Target(NamedTuple):
    """The cluster and the server that the command line names; None where it names none."""

    cluster: str | None = None
    address: str | None = None
    namespace: str | None = None


def server_options(command: F) -> F:
    """Add --address and --namespace; the command receives them as `target`."""

    @functools.wraps(command)
    def with_target(
        *args: Any, address: str | None, namespace: str | None, cluster_option: str | None = None, **rest: Any
    ) -> Any:
        return command(*args, target=Target(cluster_option, address, namespace), **rest)

    address = click.option("--address", metavar="HOST:PORT", help="Temporal server, else TEMPORAL_ADDRESS.")
    namespace = click.option("--namespace", help="Temporal namespace, else TEMPORAL_NAMESPACE.")
    return address(namespace(with_target))  # type: ignore[return-value]


def cluster_options(command: F) -> F:
    """Add --cluster, --address and --namespace; the command receives them as `target`."""
    cluster = click.option(
        "--cluster",
        "cluster_option",
        metavar="NAME",
        envvar="PENSTOCK_CLUSTER",
        shell_complete=complete_clusters,
        help="Cluster, else PENSTOCK_CLUSTER, else the only one that runs.",
    )
    return cluster(server_options(command))


def json_option(command: F) -> F:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def perform(work: Coroutine[Any, Any, int], *, until_interrupted: bool = False) -> NoReturn:
    """Run a command, report its failure, and end the process with its exit status.

    A command that runs until it is interrupted prints nothing then: Ctrl-C is how it ends.
    """
    try:
        status = asyncio.run(work)
    except CommandFailed as failed:
        status = report(failed, as_json=wants_json())
    except BadInput as bad:
        status = report(BadFiles(bad.problems), as_json=wants_json())
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED if until_interrupted else report(Interrupted(), as_json=wants_json())
    except click.ClickException as failed:
        status = report(failed, as_json=wants_json())
    except Exception as error:
        status = report(unexpected(error), as_json=wants_json())
    finish(status)


@asynccontextmanager
async def at_server(target: Target, *, seconds: float | None = ANSWER_SECONDS, ordering: bool = False) -> AsyncIterator["Client"]:
    """A connection to the server. Failures while it is used become `CommandFailed`, and so do `seconds` without an answer.

    With `ordering` the failure adds that the order may be carried out nevertheless.
    """
    from penstock.connection import BadConnection, connect, connect_settings, flush_traces

    try:
        settings = connect_settings(address=target.address, namespace=target.namespace)
        address = settings["target_host"]
        async with asyncio.timeout(_CONNECT_SECONDS):
            client = await connect(address=address, namespace=target.namespace, quiet=True)
    except BadConnection as bad:
        raise CommandFailed(str(bad), code=ErrorCode.BAD_INPUT) from None
    except (RuntimeError, TimeoutError) as error:
        raise not_connected(address, str(error), tls=bool(settings.get("tls"))) from None
    try:
        async with failures_in_words(client, seconds, ordering=ordering):
            yield client
    finally:
        await flush_traces()


@asynccontextmanager
async def at_cluster(
    target: Target, *, seconds: float | None = ANSWER_SECONDS, ordering: bool = False
) -> AsyncIterator["AutoscalerClient"]:
    """The autoscaler of the cluster that was named, else of the only one that runs."""
    from penstock.client import AutoscalerClient

    async with at_server(target, seconds=seconds, ordering=ordering) as client:
        cluster = target.cluster or await only_cluster(client)
        yield AutoscalerClient(client, cluster, task_queue=task_queue(), lease_seconds=None)  # What a person submits stands.


@asynccontextmanager
async def failures_in_words(client: "Client", seconds: float | None, *, ordering: bool = False) -> AsyncIterator[None]:
    """Turn exceptions of the client into `CommandFailed`; raise it too after `seconds` without an answer."""
    from pydantic import ValidationError
    from temporalio.service import RPCError

    from penstock.client import ClientError, NoSuchCluster

    try:
        async with asyncio.timeout(seconds) as deadline, _ended_early_without_worker(client, deadline):
            yield
    except TimeoutError:
        raise await no_answer(client, ordering=ordering) from None
    except NoSuchCluster as unknown:
        raise await no_such_cluster(client, unknown.cluster) from None
    except ClientError as error:
        raise CommandFailed(str(error), code=error.code) from None
    except ValidationError as error:
        raise _bad_argument(error) from None
    except RPCError as error:
        raise await describe_rpc_error(client, error) from None


def _bad_argument(error: "ValidationError") -> Exception:
    """The failure for an argument that no message may carry, such as an empty name; the error itself if it is of an answer."""
    from penstock.contract import messages
    from penstock.contract.problems import describe_errors

    message = vars(messages).get(error.title)
    if message is None:
        return error
    return CommandFailed(describe_errors(error.errors(include_url=False), message), code=ErrorCode.BAD_INPUT)


@asynccontextmanager
async def _ended_early_without_worker(client: "Client", deadline: asyncio.Timeout) -> AsyncIterator[None]:
    """End a deadline early once no worker runs that could answer. On a terminal, say once that the command waits.

    Without a deadline the command waits for a worker to start.
    """
    from temporalio.service import RPCError

    async def check_workers() -> None:
        announced = False
        while True:
            await asyncio.sleep(_SUSPICIOUS_SECONDS)
            with suppress(RPCError):  # The call that waits for the answer meets the same error, and reports it.
                workers = await pollers(client)
                if not workers:
                    return deadline.reschedule(asyncio.get_running_loop().time())
                if not announced and sys.stderr.isatty():
                    click.echo(waiting_for(workers), err=True)
                announced = True

    checking = asyncio.create_task(check_workers()) if deadline.when() is not None else None
    try:
        yield
    finally:
        if checking is not None:
            checking.cancel()
