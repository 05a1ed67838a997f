"""Updates, queries and signals to one cluster's workflow, with retries, and its failures as `ClientError`."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import QueryRejectCondition
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from penstock.client.errors import NoSuchCluster, Refused
from penstock.contract import names
from penstock.contract.error_codes import ErrorCode, split_code
from penstock.contract.messages import LARGEST_MESSAGE, size_of

TRIES = 20
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 1.0
"""A workflow continues as new within milliseconds, and seldom twice in a row; twenty rejections mean that something is wrong."""
_NOT_READY = b"WorkflowNotReadyFailure"
"""Temporal's mark for an update that reached a run about to continue as new."""
_UNPROCESSED = "UnprocessedUpdate"
"""Temporal's mark for an update that a worker received and did not answer: no workflow has processed it."""
ASK_AGAIN_SECONDS = 0.25
"""How long a query may take before it is asked once more. One that waits for the last workflow task of a run is answered from the
history of that run, which takes seconds; the next one reaches the run that follows."""
UPDATES_AT_ONCE = 8
"""Updates that one client has in flight; further ones wait. Temporal takes 10 per workflow: two are left for other clients."""
_TOO_MANY = "updates"
"""In Temporal's refusal of an update because 10 are in flight, or because a run about to continue as new has had 2,000."""
_TOO_MANY_QUERIES = "query buffer is full"
"""In Temporal's refusal of a query because others wait for the workflow task that is under way."""
_ABORTED = "update was aborted"
"""In Temporal's refusal of an update that no worker took in time."""

T = TypeVar("T")


class Calls:
    """Calls to one cluster's autoscaler. They follow the workflow when it continues as new."""

    def __init__(self, client: Client, cluster: str) -> None:
        self._client = client
        self._cluster = cluster
        self._updates = asyncio.Semaphore(UPDATES_AT_ONCE)
        self._slower: set[asyncio.Task[Any]] = set()
        """Queries that were asked twice and need no answer any more."""

    async def end(self) -> None:
        """Return once the workflow has ended."""
        with self._client_errors():
            await self._handle.result()

    @property
    def _handle(self) -> "WorkflowHandle[Any, Any]":
        return self._client.get_workflow_handle(names.autoscaler_id(self._cluster))

    async def update(self, name: str, message: Any, result: type[T]) -> T:
        """Send an update, after those of this client that are in flight.

        Retried when it reaches a run that is about to continue as new, which is safe because all updates are idempotent; and,
        for as long as the caller waits, while other clients fill the server's limit of updates in flight or no worker runs.
        """
        fitting, attempt = _fitting(name, message), 0
        with self._client_errors():
            async with self._updates:
                while True:
                    try:
                        answer: T = await self._handle.execute_update(name, fitting, result_type=result)
                        return answer
                    except RPCError as error:
                        crowded = _is_crowded(error)
                        if not crowded and (_NOT_READY not in error.raw_grpc_status or attempt >= TRIES - 1):
                            raise
                    except WorkflowUpdateFailedError as error:
                        crowded = False
                        if not _is_unprocessed(error) or attempt >= TRIES - 1:
                            raise
                    await asyncio.sleep(min(FIRST_PAUSE_SECONDS * 2 ** min(attempt, TRIES), LONGEST_PAUSE_SECONDS))
                    attempt += not crowded

    async def query(self, name: str, result: type[T], *arguments: Any) -> T:
        """The answer of the current run. Asked again, for as long as the caller waits, while too many others are asking."""
        with self._client_errors():
            attempt = 0
            while attempt < TRIES:
                try:
                    return await self._first_answer(name, result, arguments)
                except WorkflowQueryRejectedError as rejected:
                    if rejected.status != WorkflowExecutionStatus.CONTINUED_AS_NEW or attempt == TRIES - 1:
                        raise
                    attempt += 1  # The run has just continued as new; the next attempt reaches the new run.
                except RPCError as error:
                    if error.status is not RPCStatusCode.RESOURCE_EXHAUSTED or _TOO_MANY_QUERIES not in error.message:
                        raise
                    await asyncio.sleep(LONGEST_PAUSE_SECONDS)
        raise AssertionError("the last attempt returns or raises")

    async def _first_answer(self, name: str, result: type[T], arguments: Sequence[Any]) -> T:
        """The answer to a query, or to the same one asked again after a while, whichever comes first."""
        asked = [asyncio.create_task(self._ask(name, result, arguments))]
        try:
            await asyncio.wait(asked, timeout=ASK_AGAIN_SECONDS)
            if not asked[0].done():
                asked.append(asyncio.create_task(self._ask(name, result, arguments)))
                await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            return await min(asked, key=_haste)
        except asyncio.CancelledError:
            for task in asked:
                task.cancel()
            raise
        finally:
            # The slower one goes on: to call it off would be a warning in the log of the worker that answers it.
            for task in asked:
                self._slower.add(task)
                task.add_done_callback(self._forget)

    async def _ask(self, name: str, result: type[T], arguments: Sequence[Any]) -> T:
        answer: T = await self._handle.query(
            name, args=arguments, result_type=result, reject_condition=QueryRejectCondition.NOT_OPEN
        )
        return answer

    def _forget(self, asked: "asyncio.Task[Any]") -> None:
        self._slower.discard(asked)
        if not asked.cancelled():
            asked.exception()  # Looked at, so that Python does not report it.

    async def signal(self, name: str, message: Any) -> None:
        """Send a signal, which is not answered."""
        with self._client_errors():
            await self._handle.signal(name, _fitting(name, message))

    @contextmanager
    def _client_errors(self) -> Iterator[None]:
        """Turn Temporal's exceptions into `ClientError`; those of the connection itself pass."""
        try:
            yield
        except WorkflowUpdateFailedError as error:
            raise Refused(getattr(error.cause, "message", str(error.cause))) from None
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            # The SDK raises this for a deadline and for a cancelled caller alike; callers expect Python's own exceptions.
            task = asyncio.current_task()
            raise asyncio.CancelledError if task is not None and task.cancelling() else TimeoutError from None
        except WorkflowQueryFailedError as error:
            code, message = split_code(str(error))
            raise Refused(message, code) from None
        except WorkflowQueryRejectedError:
            raise NoSuchCluster(self._cluster) from None
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise NoSuchCluster(self._cluster) from None
            raise


def _haste(asked: "asyncio.Task[Any]") -> int:
    """Which of several equal queries to go by: one that is answered, else one under way, else one that failed."""
    if not asked.done():
        return 1
    return 0 if not asked.cancelled() and asked.exception() is None else 2


def _is_crowded(error: RPCError) -> bool:
    """Whether the workflow has too many updates in flight, or nobody takes them: sent again, the update fits at some time."""
    crowded = error.status is RPCStatusCode.RESOURCE_EXHAUSTED and _TOO_MANY in error.message
    return crowded or _ABORTED in error.message


def _is_unprocessed(error: WorkflowUpdateFailedError) -> bool:
    return isinstance(error.cause, ApplicationError) and error.cause.type == _UNPROCESSED


def _fitting(name: str, message: Any) -> Any:
    """The message, unless it is too large to send."""
    if (size := size_of(message)) > LARGEST_MESSAGE:
        raise Refused(f"{name} takes at most {LARGEST_MESSAGE} bytes, not {size}", ErrorCode.MESSAGE_TOO_LARGE)
    return message
