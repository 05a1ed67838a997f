"""Since when tasks have been placed on READY slices, of which their controllers should start them."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain, islice
from operator import attrgetter

from penstock.contract.orders import OnReady
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import Decision, Tier
from penstock.model.demand import Demand

WATCHED_OF_GROUP, WATCHED = 3, 30
"""Tasks of a group, and in all, of which orders record since when they are on READY slices: an alert needs only a few."""


def tasks_on_ready(state: AutoscalerState, decision: Decision, demand: Demand, now: datetime) -> tuple[OnReady, ...]:
    """Some tasks of each group that are placed on its READY slices; those that already were keep their place and time.

    A task that is started makes way for the next, so tasks that nobody starts are found sooner or later, however many there are.
    """
    spans: dict[str, list[Sequence[str]]] = {}
    for span, group, tier, _ in decision.placed:
        if tier is Tier.READY:
            spans.setdefault(group, []).append(demand.span_task_ids(*span))
    before = state.orders.on_ready if state.orders else ()
    found = (_of_group(group, before, spans[group], now) for group in sorted(spans))
    return tuple(islice(chain.from_iterable(found), WATCHED))


def _of_group(group: str, before: Iterable[OnReady], spans: Sequence[Sequence[str]], now: datetime) -> list[OnReady]:
    watched = {item.task_id: item for item in before if item.group == group}
    still = {task_id for ids in spans for task_id in watched.keys() & ids} if watched else set[str]()
    kept = sorted((watched[task_id] for task_id in still), key=attrgetter("since", "task_id"))
    fresh = (task_id for ids in spans for task_id in ids if task_id not in watched)
    new = dict.fromkeys(islice(fresh, WATCHED_OF_GROUP - len(kept)))
    return [*kept, *(OnReady(task_id=task_id, group=group, since=now) for task_id in new)]
