"""Calls to one cluster's workflow, and what goes wrong with them, in words."""

import asyncio
from collections.abc import Iterator
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

from penstock.contract import names
from penstock.contract.messages import LARGEST_MESSAGE, size_of

TRIES = 20
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 1.0
"""Runs change within milliseconds, and seldom twice in a row; a server that sends back for so long is in trouble."""
_NOT_READY = b"WorkflowNotReadyFailure"
"""How Temporal marks an update that met a run on its way out."""
_UNSEEN = "UnprocessedUpdate"
"""How Temporal marks an update that it gave to a worker and got no word of: no workflow has seen it."""

T = TypeVar("T")


class NoSuchCluster(LookupError):
    """No autoscaler of that name runs."""

    def __init__(self, cluster: str) -> None:
        super().__init__(f"there is no cluster {cluster!r} here; start it with its configuration")
        self.cluster = cluster


class Refused(Exception):
    """The autoscaler did not take it, and says why."""


class Calls:
    """Updates, queries and signals of one cluster. Runs of its workflow come and go; callers do not notice."""

    def __init__(self, client: Client, cluster: str) -> None:
        self._client = client
        self._cluster = cluster

    async def end(self) -> None:
        """Return once the workflow has ended."""
        with self._in_words():
            await self._handle.result()

    @property
    def _handle(self) -> "WorkflowHandle[Any, Any]":
        return self._client.get_workflow_handle(names.autoscaler_id(self._cluster))

    async def update(self, name: str, message: Any, result: type[T]) -> T:
        """Tried again while runs change: a message that meets one on its way out may be sent back. All updates are repeatable."""
        with self._in_words():
            for attempt in range(TRIES):
                try:
                    answer: T = await self._handle.execute_update(name, _fitting(name, message), result_type=result)
                    return answer
                except RPCError as error:
                    if _NOT_READY not in error.raw_grpc_status or attempt == TRIES - 1:
                        raise
                except WorkflowUpdateFailedError as error:
                    if not _is_unseen(error) or attempt == TRIES - 1:
                        raise
                await asyncio.sleep(min(FIRST_PAUSE_SECONDS * 2**attempt, LONGEST_PAUSE_SECONDS))
        raise AssertionError("the last attempt returns or raises")

    async def query(self, name: str, result: type[T], *arguments: Any) -> T:
        """The answer of the run that is there now."""
        with self._in_words():
            for attempt in range(TRIES):
                try:
                    answer: T = await self._handle.query(
                        name, args=arguments, result_type=result, reject_condition=QueryRejectCondition.NOT_OPEN
                    )
                    return answer
                except WorkflowQueryRejectedError as rejected:
                    if rejected.status != WorkflowExecutionStatus.CONTINUED_AS_NEW or attempt == TRIES - 1:
                        raise
                    # The run that was asked has just made way for the next one, which is asked now.
        raise AssertionError("the last attempt returns or raises")

    async def signal(self, name: str, message: Any) -> None:
        """Send what needs no answer."""
        with self._in_words():
            await self._handle.signal(name, _fitting(name, message))

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """What goes wrong, as one of two exceptions; anything else is the connection's own."""
        try:
            yield
        except WorkflowUpdateFailedError as error:
            raise Refused(getattr(error.cause, "message", str(error.cause))) from None
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            # The SDK's own word for both; whoever set the deadline or cancelled waits for Python's.
            task = asyncio.current_task()
            raise asyncio.CancelledError if task is not None and task.cancelling() else TimeoutError from None
        except WorkflowQueryFailedError as error:
            raise Refused(str(error)) from None
        except WorkflowQueryRejectedError:
            raise NoSuchCluster(self._cluster) from None
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise NoSuchCluster(self._cluster) from None
            raise


def _is_unseen(error: WorkflowUpdateFailedError) -> bool:
    return isinstance(error.cause, ApplicationError) and error.cause.type == _UNSEEN


def _fitting(name: str, message: Any) -> Any:
    """The message, unless it is too large to send."""
    if size_of(message) > LARGEST_MESSAGE:
        raise Refused(f"{name} takes at most {LARGEST_MESSAGE} bytes, not {size_of(message)}")
    return message
