"""`TaskReader`: lists of tasks as demand. What a source repeats in every list is read once, so a report costs what it changes."""

from collections.abc import Iterator, Sequence
from itertools import compress, count
from operator import ne
from typing import Any, NamedTuple

from pydantic_core import PydanticSerializationError, from_json, to_json

from penstock.client.demand_messages import Tasks, as_demand
from penstock.model.demand import Demand
from penstock.model.demand_builder import DemandBuilder, joined, without
from penstock.model.gc_pause import gc_paused


class _Stretch(NamedTuple):
    """Neighbours in a list: `first` to `end` of the last list if they are unchanged, else new items of this list."""

    first: int
    end: int
    new: Sequence[Any] = ()


class TaskReader:
    """Reads the lists of one source. It keeps a copy of the last, because a controller may change its own in place.

    The copy of 100,000 tasks takes some 50 MB; a controller that keeps a `Demand` instead needs none.
    """

    def __init__(self) -> None:
        self._written: list[Any] = []
        self._demand = Demand()

    @gc_paused
    def read(self, tasks: Tasks) -> Demand:
        """The tasks as demand; raises `Refused` if one is invalid."""
        if isinstance(tasks, Demand):
            return as_demand(tasks)
        stretches = list(self._stretches(tasks)) if self._written else []
        demand = self._changed(stretches)
        if demand is None:
            demand, self._written = as_demand(tasks), _copy(tasks)
        elif stretches:
            self._written = [item for each in stretches for item in (*self._written[each.first : each.end], *_copy(each.new))]
        self._demand = demand
        return demand

    def _stretches(self, tasks: Sequence[Any]) -> Iterator[_Stretch]:
        """What of the list is unchanged, and what is new. The unchanged beginning and end are compared without a loop."""
        before = self._written
        same = _alike(before, tasks)
        rest = min(len(before), len(tasks)) - same
        last = _alike(before[: -rest - 1 : -1], tasks[: -rest - 1 : -1]) if rest else 0
        if same:
            yield _Stretch(0, same)
        yield from _middle(before, same, len(before) - last, tasks[same : len(tasks) - last])
        if last:
            yield _Stretch(len(before) - last, len(before))

    def _changed(self, stretches: Sequence[_Stretch]) -> Demand | None:
        """The last demand, changed; None if the list has to be read as a whole."""
        new = [item for each in stretches for item in each.new]
        if not stretches or not all(map(_is_plain, new)):
            return None
        ganged = self._demand.gang_ids or any(item.get("gang") is not None for item in new)
        if ganged or len(self._demand.task_ids) != len(self._written):
            return self._shortened_and_extended(stretches, new)
        builder = DemandBuilder()
        for each in stretches:
            builder.extend_entries(self._demand, each.first, each.end)
            if each.new:
                added = as_demand(each.new)
                builder.extend(added, 0, len(added.workload.runs))
        demand = builder.build()
        return None if demand.duplicate is not None else demand

    def _shortened_and_extended(self, stretches: Sequence[_Stretch], new: Sequence[Any]) -> Demand | None:
        """The last demand without some tasks and with others at its end; None if more has changed."""
        if any(each.new for each in stretches[:-1]):
            return None
        kept = [(each.first, each.end) for each in stretches if each.first < each.end]
        gone, at = list[Any](), 0
        for first, end in (*kept, (len(self._written), 0)):
            gone += self._written[at:first]
            at = end
        if not all(map(_is_plain, gone)):
            return None
        left = without(self._demand, {item["id"] for item in gone})
        demand = joined([left, as_demand(new)]) if new else left
        disagree = any(run.fault for run in demand.workload.runs)
        return None if disagree or demand.duplicate is not None else demand


def _alike(before: Sequence[Any], after: Sequence[Any]) -> int:
    """How many items at the beginning of both are equal."""
    return next(compress(count(), map(ne, before, after)), min(len(before), len(after)))


def _middle(before: Sequence[Any], first: int, end: int, tasks: Sequence[Any]) -> Iterator[_Stretch]:
    """Stretches between the unchanged beginning and end, where items are found again by their ids, if in the same order."""
    known = {_id_of(before[i]): i for i in range(first, end)}
    new, at, began = list[Any](), first, first
    for task in tasks:
        i = known.get(_id_of(task), -1)
        if i < at or before[i] != task:
            if began < at:
                yield _Stretch(began, at)
            began = at
            new.append(task)
            continue
        if new:
            yield _Stretch(0, 0, new)
            new, began, at = [], i, i
        elif i > at:
            if began < at:
                yield _Stretch(began, at)
            began = i
        at = i + 1
    if began < at:
        yield _Stretch(began, at)
    if new:
        yield _Stretch(0, 0, new)


def _id_of(task: Any) -> Any:
    name = task.get("id") if isinstance(task, dict) else None
    return name if isinstance(name, str) else None


def _is_plain(task: Any) -> bool:
    """Whether the item is one task, as a plain object; of a gang, one member."""
    if not isinstance(task, dict) or _id_of(task) is None or "count" in task:
        return False
    gang = task.get("gang")
    return gang is None or (isinstance(gang, dict) and gang.get("id") is not None)


def _copy(tasks: Sequence[Any]) -> list[Any]:
    """The items as plain JSON; none if they are not JSON, so that the next list is read as a whole."""
    try:
        copied: list[Any] = from_json(to_json(list(tasks)))
    except (PydanticSerializationError, ValueError):
        return []
    return copied
