"""`evaluate`: one state in, one decision and its orders out. Every launch and drain comes from here."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from penstock.contract import names
from penstock.contract.orders import Launch, Orders
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.decision.decide import decide
from penstock.core.state.apply import apply
from penstock.core.state.events import TimePassed
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import Code, Decision, LaunchRequest, Tier
from penstock.model.demand import Demand

MOST_LAUNCHES = 2000
"""Slices that one evaluation orders: their ids fit in one message. The next evaluation is due immediately and orders the rest."""


class Evaluation(NamedTuple):
    """One evaluation: the decision, the orders that carry it out, and the demand with ids that it placed."""

    decision: Decision
    orders: Orders
    demand: Demand


def evaluate(state: AutoscalerState, *, now: datetime, chance: Callable[[], str]) -> Evaluation:
    """Decide on a state at a moment, and name the slices to launch.

    Pure: the clock comes in as `now`, and the random part of every slice id (eight hexadecimal digits) from `chance`.
    """
    snapshot, demand = snapshot_of(apply(state, TimePassed(at=max(now, state.now))))
    decision = decide(snapshot)
    requests = _first(decision.launches)
    orders = Orders(
        at=now,
        input_version=state.input_version,
        config_revision=state.config_revision,
        launches=tuple(
            Launch(slice_id=names.slice_id(request.group, now, chance()), group=request.group, cause=request.cause)
            for request in requests
            for _ in range(request.slices)
        ),
        drains=decision.drains,
        deferred=sum(item.slices for item in decision.deferred),
        placed=_placed(decision),
        unmet=_unmet(decision),
        next_change_at=decision.next_change_at if requests == decision.launches else now,
    )
    return Evaluation(decision, orders, demand)


def _first(launches: tuple[LaunchRequest, ...]) -> tuple[LaunchRequest, ...]:
    """The launches that fit in one evaluation. A launch may be for a gang, so it is split only if it is too large by itself."""
    slices = 0
    for i, launch in enumerate(launches):
        slices += launch.slices
        if slices > MOST_LAUNCHES:
            return launches[:i] or (launch._replace(slices=MOST_LAUNCHES),)
    return launches


def _placed(decision: Decision) -> dict[Tier, int]:
    counts: dict[Tier, int] = {}
    for placed in decision.placed:
        counts[placed.tier] = counts.get(placed.tier, 0) + placed.span.entries
    return counts


def _unmet(decision: Decision) -> dict[Code, int]:
    counts: dict[Code, int] = {}
    for unmet in decision.unmet:
        counts[unmet.code] = counts.get(unmet.code, 0) + unmet.entries
    return counts
