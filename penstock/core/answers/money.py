"""What slices cost an hour, by group and by use, and what idle ones have cost in the last day."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from penstock.contract.cost import CostByUse, Use
from penstock.core.decision.prices import cost_of, price_of
from penstock.core.state.spending import accrued, of_last_day, use_of
from penstock.core.state.state import AutoscalerState
from penstock.model.slices import Slice

DECIMALS = 6
"""Decimals of amounts that are told: differences beyond them come from floating-point arithmetic."""


class Costs(NamedTuple):
    """What a cluster and its groups cost an hour, and the groups whose price is not known."""

    cluster: CostByUse
    groups: dict[str, CostByUse]
    unpriced: tuple[str, ...]


def costs_of(state: AutoscalerState) -> Costs:
    """The cost of all slices by the last word on them."""
    if state.config is None:
        return Costs(CostByUse(), {}, ())
    kinds = Counter((piece.group, piece.left, use_of(piece, state.usage, state.idle_slices)) for piece in state.slices)
    groups: dict[str, dict[Use, float]] = {}
    unpriced = set()
    for (name, left, use), count in kinds.items():
        price = price_of(name, left, state.config)
        amounts = groups.setdefault(name, {})
        amounts[use] = amounts.get(use, 0.0) + count * (price or 0.0)
        if price is None:
            unpriced.add(name)
    in_all = {use: sum(amounts.get(use, 0.0) for amounts in groups.values()) for use in Use}
    return Costs(_told(in_all), {name: _told(amounts) for name, amounts in groups.items()}, tuple(sorted(unpriced)))


def price_per_hour(state: AutoscalerState, slices: Iterable[Slice]) -> float:
    """What some slices cost an hour, as far as prices are known."""
    return round(cost_of(slices, state.config), DECIMALS) if state.config else 0.0


def idle_cost_of_day(state: AutoscalerState, now: datetime) -> float:
    """What idle slices have cost in the 24 hours before now."""
    until_now = accrued(state.idle_cost, state.idle_rate, state.now, max(now, state.now))
    return round(of_last_day(until_now, now), DECIMALS)


def _told(amounts: Mapping[Use, float]) -> CostByUse:
    return CostByUse.model_validate({use: round(amount, DECIMALS) for use, amount in amounts.items()})
