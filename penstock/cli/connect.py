"""How commands reach a cluster: the options, the connection, and an end when nobody answers."""

import asyncio
import functools
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import click

from penstock.cli.failures import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_REFUSED, CommandFailed, tell_problems
from penstock.cli.presence import (
    awaited,
    no_answer,
    no_such_cluster,
    not_connected,
    only_cluster,
    pollers,
    rpc_in_words,
    task_queue,
)
from penstock.config.problems import BadInput

if TYPE_CHECKING:
    from temporalio.client import Client

    from penstock.client import AutoscalerClient

ANSWER_SECONDS = 30.0
"""Answers take milliseconds; a worker that just took a cluster over may replay for seconds."""
_CONNECT_SECONDS = 10.0
"""A server on another continent answers within it."""

_SUSPICIOUS_SECONDS = 3.0
"""Whenever there was no answer for so long it is worth asking whether there is a worker at all."""

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
async def at_server(reach: Reach, *, seconds: float | None = ANSWER_SECONDS, ordering: bool = False) -> AsyncIterator["Client"]:
    """A connection; what goes wrong while it is used is told in words, after `seconds` that nobody answers.

    With `ordering` they say that an order may be carried out all the same.
    """
    from penstock.connection import BadConnection, connect, connect_settings, flush_traces

    try:
        settings = connect_settings(address=reach.address, namespace=reach.namespace)
        address = settings["target_host"]
        async with asyncio.timeout(_CONNECT_SECONDS):
            client = await connect(address=address, namespace=reach.namespace, quiet=True)
    except BadConnection as bad:
        raise CommandFailed(str(bad), code=EXIT_BAD_INPUT) from None
    except (RuntimeError, TimeoutError) as error:
        raise not_connected(address, str(error), tls=bool(settings.get("tls"))) from None
    try:
        async with in_words(client, seconds, ordering=ordering):
            yield client
    finally:
        await flush_traces()


@asynccontextmanager
async def at_cluster(
    reach: Reach, *, seconds: float | None = ANSWER_SECONDS, ordering: bool = False
) -> AsyncIterator["AutoscalerClient"]:
    """The autoscaler that is meant: the one that was named, or the only one."""
    from penstock.client import AutoscalerClient

    async with at_server(reach, seconds=seconds, ordering=ordering) as client:
        yield AutoscalerClient(client, reach.cluster or await only_cluster(client), task_queue=task_queue())


@asynccontextmanager
async def in_words(client: "Client", seconds: float | None, *, ordering: bool = False) -> AsyncIterator[None]:
    """Turn what the client raises into what to say about it, and say so after `seconds` without an answer."""
    from temporalio.service import RPCError

    from penstock.client import NoSuchCluster, Refused

    try:
        async with asyncio.timeout(seconds) as deadline, _ended_early_without_worker(client, deadline):
            yield
    except TimeoutError:
        raise await no_answer(client, ordering=ordering) from None
    except NoSuchCluster as unknown:
        raise await no_such_cluster(client, unknown.cluster) from None
    except Refused as refused:
        raise CommandFailed(str(refused), code=EXIT_REFUSED) from None
    except RPCError as error:
        raise await rpc_in_words(client, error) from None


@asynccontextmanager
async def _ended_early_without_worker(client: "Client", deadline: asyncio.Timeout) -> AsyncIterator[None]:
    """Bring a deadline forward as soon as nobody is there who could answer; without a deadline somebody may come.

    Whoever waits at a terminal is told so once.
    """
    from temporalio.service import RPCError

    async def look() -> None:
        told = False
        while True:
            await asyncio.sleep(_SUSPICIOUS_SECONDS)
            with suppress(RPCError):  # Whoever waits for the answer meets it too, and tells it.
                workers = await pollers(client)
                if not workers:
                    return deadline.reschedule(asyncio.get_running_loop().time())
                if not told and sys.stderr.isatty():
                    click.echo(awaited(workers), err=True)
                told = True

    looking = asyncio.create_task(look()) if deadline.when() is not None else None
    try:
        yield
    finally:
        if looking is not None:
            looking.cancel()
