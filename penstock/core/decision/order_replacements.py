"""Order the replacements of a finished plan, with the headroom that demand, floors and spares leave."""

from penstock.core.decision.floors import FLOORS, target_of
from penstock.core.decision.plan import Plan
from penstock.core.decision.replacement import Order
from penstock.model.decision import Cause, KeptCode, Withheld


def order_replacements(plan: Plan, standing: list[int]) -> dict[str, Withheld]:
    """Order what replaces slices, once demand is placed; returns what each slice waits for that is to be replaced.

    A slice that leaves at once is missing in the floors of its group already: what those open in its place is its replacement.
    An idle slice of a group that needs none waits for nothing: it goes like any other. A group that has more slices than reports
    of pressure want replaces none: it gives slices back first.
    """
    replacements = plan.fleet.replacements
    waiting = dict(replacements.waiting)
    moving = [0] * len(plan.fleet.groups)
    for order in replacements.orders:
        if order.piece.id in replacements.leaving:
            moving[order.group] += 1
            if _is_there(plan, standing, order, moving[order.group]):
                continue
        elif order.idle and not plan.target[order.group]:
            del waiting[order.piece.id]
            continue
        ordered = not _has_too_many(plan, order.group) and plan.replace(order.piece, order.group, order.cause)
        if not ordered and order.piece.id not in replacements.leaving:
            waiting[order.piece.id] = Withheld(order.piece.id, KeptCode.NO_REPLACEMENT)
    return waiting


def _has_too_many(plan: Plan, g: int) -> bool:
    """Whether a group has more slices than reports of pressure want."""
    return g in plan.wanted and plan.fleet.counts[g].ready + plan.fleet.counts[g].in_flight > plan.target[g]


def _is_there(plan: Plan, standing: list[int], order: Order, moving: int) -> bool:
    """Let the last slice that a floor of the group opens take the place of the one that leaves, if the group needs no other.

    `moving` are its slices whose work moves, this one included: work that moves needs a slice each, beside what demand needs.
    """
    g = order.group
    counts = plan.fleet.counts[g]
    have = counts.ready + counts.in_flight + counts.stalled + plan.opened[g] + plan.replacing[g]
    if have < target_of(plan, g, standing, counts.busy + plan.required[g] + moving):
        return False
    opened = (i for i, unit in enumerate(plan.units) if unit.cause in FLOORS and unit.parts == ((g, 1),) and not unit.replaces)
    last = max(opened, default=None)
    if last is None:
        return False
    unit = plan.units[last]
    rest = [unit._replace(times=unit.times - 1)] if unit.times > 1 else []
    plan.units[last : last + 1] = [*rest, unit._replace(times=1, cause=Cause.REPLACEMENT, replaces=order.piece.id)]
    return True
