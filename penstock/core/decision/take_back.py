"""Take draining slices back: the drains that a finished plan cancels instead of launching slices."""

from collections.abc import Collection, Iterator, Sequence

from penstock.core.decision.plan import Plan, Unit
from penstock.model.snapshot import Snapshot


def reclaimed(plan: Plan) -> tuple[Sequence[Unit], tuple[str, ...]]:
    """The units that are left to launch, and the slices whose drains are cancelled instead, the newest drains first."""
    taken = list(plan.headroom.taken_back)
    slice_ids = tuple(piece.id for g, count in enumerate(taken) for piece in plan.fleet.reclaimable[g][:count])
    if not slice_ids:
        return plan.units, ()
    return [rest for unit in plan.units for rest in _without_reclaimed(unit, taken)], slice_ids


def _without_reclaimed(unit: Unit, left: list[int]) -> Iterator[Unit]:
    """The unit without the slices that are taken back; `left` counts them down by group."""
    times = unit.times
    while times and any(left[g] for g, _ in unit.parts):
        parts = []
        for g, slices in unit.parts:
            back = min(slices, left[g])
            left[g] -= back
            if slices > back:
                parts.append((g, slices - back))
        times -= 1
        if parts:
            yield unit._replace(parts=tuple(parts), times=1)
    if times:
        yield unit._replace(times=times)


def busy_slices_taken_back(plan: Plan) -> tuple[str, ...]:
    """Of a plan with only the minimum and standing requests: the busy slices whose drains they cancel.

    Both are measured on all slices, busy or not. Idle slices come first: demand can use them, too.
    """
    fleet = plan.fleet
    idle = fleet.reclaimable_counts()
    busy = [max(0, taken - first) for taken, first in zip(plan.headroom.taken_back, idle, strict=True)]
    return tuple(piece.id for g, count in enumerate(busy) for piece in fleet.busy_drains[g][:count])


def without_drains(snapshot: Snapshot, slice_ids: Collection[str]) -> Snapshot:
    """The snapshot after the drains of some slices were cancelled: they serve as soon as they have heard so."""
    slices = tuple(
        piece.changed(drain=None, idle_since=None, returning=True) if piece.id in slice_ids else piece
        for piece in snapshot.slices
    )
    return snapshot.model_copy(update={"slices": slices})
