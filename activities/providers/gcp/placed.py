"""What a process remembers of the orders that it placed. It may forget, and another process knows nothing of it."""

import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from activities.providers.gcp.errors import Fault
from activities.providers.gcp.naming import request_id
from activities.providers.gcp.quoting import without
from activities.providers.port import Order, Ref

_ORDERS = 10_000
"""Orders that are remembered: those that are on their way at once, with much to spare."""
_TRIES = 3
"""Request ids that one call may find used up: the next call goes on from there."""
_IDS = 32
"""Request ids of one order: more than an order is placed before its slice gives up."""


class _Order(NamedTuple):
    failed: int = 0
    """How many of its request ids have an operation that failed."""
    secrets: tuple[str, ...] | None = None
    """What its machines were told in confidence, if this process told them."""


class Placed:
    """The orders placed by this process in one project."""

    def __init__(self, project: str) -> None:
        self._project = project
        self._orders: dict[str, _Order] = {}

    def told(self, order: Order, secrets: Iterable[str]) -> None:
        """Remember the secrets of an order that is about to be placed."""
        self._remember(order.name, self._of(order)._replace(secrets=tuple(map(sys.intern, secrets))))

    def request_ids(self, order: Order) -> Iterator[str]:
        """Ids to place the order under in one call; to ask for another is to say that the operation of the last has failed.

        The cloud gives an operation that failed again for its id, so the order needs another one. An id is used only when
        those before it have failed: whoever repeats the order, knowing how many or not, comes upon the operation that lives.
        """
        for _ in range(_TRIES):
            attempt = self._of(order).failed
            yield request_id(order, project=self._project, attempt=attempt)
            failed = max(self._of(order).failed, min(attempt + 1, _IDS - 1))
            self._remember(order.name, self._of(order)._replace(failed=failed))

    def all_request_ids(self, ref: Ref) -> list[str]:
        """Every id that an order can have been placed under, in the order in which they are used."""
        return [request_id(ref, project=self._project, attempt=attempt) for attempt in range(_IDS)]

    def spoken(self, ref: Ref, fault: Fault) -> Fault:
        """The fault of an order in words that hold none of its secrets: without Google's, if they are not known here."""
        secrets = self._of(ref).secrets
        if secrets is not None:
            return fault._replace(message=without(fault.message, secrets))
        meaning = fault.meaning.replace("_", " ")
        return fault._replace(
            message=f"{meaning}; Google's words may quote secrets, and only the worker that ordered repeats them"
        )

    def _of(self, order: Order | Ref) -> _Order:
        return self._orders.get(order.name, _Order())

    def _remember(self, name: str, order: _Order) -> None:
        self._orders.pop(name, None)
        self._orders[name] = order
        if len(self._orders) > _ORDERS:
            del self._orders[next(iter(self._orders))]
