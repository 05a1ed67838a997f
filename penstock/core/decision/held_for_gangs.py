"""Slices that an incomplete gang would use: they are held while it waits for the others, for as long as `patience`."""

import json
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import chain
from typing import NamedTuple

from penstock.core.decision.cursors import ShapeCursor
from penstock.core.decision.plan import Plan
from penstock.core.decision.surplus import Surplus
from penstock.model.shape import GangPlacement, Shape

MOST_WAITING = 100
"""Shapes of gangs, in order of arrival, for which slices are held. Since when each waits is kept with the orders."""


class HeldForGangs(NamedTuple):
    """Since when gangs of each shape have been unmet, by digest; and until when slices are held for them, by slice id."""

    waiting_since: dict[str, datetime]
    until: dict[str, datetime]


class _Waiting(NamedTuple):
    """Unmet gangs of one shape, the number of slices that they need of each group, and since when they wait."""

    slices: dict[int, int]
    since: datetime


def digest_of(shape: Shape) -> str:
    """Sixteen hexadecimal digits that stand for a shape from one decision to the next."""
    return sha256(json.dumps(shape.key).encode()).hexdigest()[:16]


def held_for_gangs(plan: Plan, surplus: Sequence[Surplus], *, lapsed: Collection[str]) -> HeldForGangs:
    """Hold slices of every group that could complete the gang, if its maximums allow that at all.

    The slices that would be the last to go are held. `lapsed` are sources of demand that keep no slice.
    """
    waiting = list(_waiting(plan, lapsed))
    since = {digest_of(shape): each.since for shape, each in waiting}
    config, until = plan.fleet.snapshot.config, dict[str, datetime]()
    for each in surplus if waiting else ():
        patience = timedelta(seconds=config.patience_of(each.group))
        ends = [(found.since + patience, found.slices[each.g]) for _, found in waiting if each.g in found.slices]
        until |= _held(each, [end for end in ends if end[0] > plan.fleet.snapshot.now])
    return HeldForGangs(since, until)


def _held(surplus: Surplus, ends: Sequence[tuple[datetime, int]]) -> dict[str, datetime]:
    """Until when slices of a group are held, given ends with numbers of slices. What cannot go is held anyway."""
    may_go = surplus.serving()
    lasts = [end for end, slices in sorted(ends, reverse=True) for _ in range(min(slices, surplus.unused))]
    return dict(zip((piece.id for piece in reversed(may_go)), lasts[surplus.unused - len(may_go) :], strict=False))


def _waiting(plan: Plan, lapsed: Collection[str]) -> Iterator[tuple[Shape, _Waiting]]:
    """The first shapes of gangs that are unmet though their maximums allow them."""
    snapshot = plan.fleet.snapshot
    runs, shapes = snapshot.workload.runs, snapshot.workload.shapes
    gangs: dict[int, list[int]] = {}
    for number, _, count in chain(plan.unplaced, plan.held_unplaced):
        run = runs[number]
        if shapes[run.shape].gang is not None and number not in plan.untried and run.source not in lapsed:
            if run.shape not in gangs and len(gangs) == MOST_WAITING:
                break
            gangs.setdefault(run.shape, []).extend([run.pending] * count)
    for s, pending in gangs.items():
        slices = _slices_needed(plan, shapes[s], pending)
        if slices:
            yield shapes[s], _Waiting(slices, snapshot.waiting_since.get(digest_of(shapes[s]), snapshot.now))


def _slices_needed(plan: Plan, shape: Shape, pending: Sequence[int]) -> dict[int, int]:
    """Slices of each group that the gangs would use; empty if no maximum allows even one of them."""
    assert shape.gang is not None
    candidates, groups = plan.fleet.matcher.candidates(shape), plan.fleet.groups
    if shape.gang.placement is GangPlacement.WHOLE_SLICES:
        each = {g: shape.gang.hosts // groups[g].hosts_per_slice for g in candidates.order}
        return {g: slices * len(pending) for g, slices in each.items() if plan.headroom.never(g, slices) is None}
    cursor, least = ShapeCursor(shape, candidates), min(pending)
    tasks = {g: groups[g].hosts_per_slice * cursor.tasks_in_new(groups[g], least) for g in candidates.order}
    if sum(plan.headroom.most(g) * held for g, held in tasks.items()) < least:
        return {}
    return {g: sum(-(-members // held) for members in pending) for g, held in tasks.items()}
