"""Process-local cache of create requests (retry ids, secrets to redact). Best effort: correctness must not depend on it."""

import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from activities.providers.gcp.errors import Fault
from activities.providers.gcp.naming import request_id
from activities.providers.gcp.redaction import redact
from activities.providers.port import Order, Ref

_ORDERS = 10_000
"""Cached orders: many more than are in flight at once."""
_TRIES = 3
"""Used request ids that one call may skip; the next call continues from there."""
_IDS = 32
"""Request ids of one order: more than a slice retries its create before it gives up."""


class _Order(NamedTuple):
    failed: int = 0
    """The number of its request ids whose operation failed."""
    secrets: tuple[str, ...] | None = None
    """The secrets in its metadata; None if another process sent the order."""


class OrderCache:
    """The orders that this process sent to one project."""

    def __init__(self, project: str) -> None:
        self._project = project
        self._orders: dict[str, _Order] = {}

    def remember_secrets(self, order: Order, secrets: Iterable[str]) -> None:
        """Remember the secrets of an order that is about to be sent."""
        self._remember(order.name, self._of(order)._replace(secrets=tuple(map(sys.intern, secrets))))

    def request_ids(self, order: Order) -> Iterator[str]:
        """The request ids for one create call. Taking the next one means that the operation of the last one failed.

        For a request id that was used, the cloud returns the old operation, so a failed order needs a new id. An id is used only
        if all before it failed: a worker without this cache goes through the failed ones and finds the running operation.
        """
        for _ in range(_TRIES):
            attempt = self._of(order).failed
            yield request_id(order, project=self._project, attempt=attempt)
            failed = max(self._of(order).failed, min(attempt + 1, _IDS - 1))
            self._remember(order.name, self._of(order)._replace(failed=failed))

    def all_request_ids(self, ref: Ref) -> list[str]:
        """Every request id that the order may have been sent with, in order of use."""
        return [request_id(ref, project=self._project, attempt=attempt) for attempt in range(_IDS)]

    def redacted_fault(self, ref: Ref, fault: Fault) -> Fault:
        """The fault without the order's secrets; without Google's message at all if this process does not know the secrets."""
        secrets = self._of(ref).secrets
        if secrets is not None:
            return fault._replace(message=redact(fault.message, secrets))
        meaning = fault.meaning.replace("_", " ")
        return fault._replace(
            message=f"{meaning}; Google's message may quote secrets, so only the worker that sent the order shows it"
        )

    def _of(self, order: Order | Ref) -> _Order:
        return self._orders.get(order.name, _Order())

    def _remember(self, name: str, order: _Order) -> None:
        self._orders.pop(name, None)
        self._orders[name] = order
        if len(self._orders) > _ORDERS:
            del self._orders[next(iter(self._orders))]
