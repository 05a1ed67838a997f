"""Figures of a decision that the state keeps for the status: pressure on groups, and whether standing requests are met."""

from collections.abc import Mapping

from penstock.contract.capacity import GroupFigures, PoolStatus, StandingStatus
from penstock.contract.orders import MOST_SOURCES, Orders
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.decision import Decision, GroupDecision, Pressure, StandingOutcome
from penstock.wording import shortened

MOST_GROUPS = 200
"""Groups whose figures are kept, of those that have any: 10 kB."""
MOST_UNMET = 20
"""Unmet standing requests whose reasons are kept."""
LONGEST_REASON = 300
"""Characters of such a reason."""


def figures_of(decision: Decision) -> dict[str, GroupFigures]:
    """The figures of groups that have any, in rank order."""
    found = ((group.name, _figures(group)) for group in decision.groups)
    return dict([(name, figures) for name, figures in found if any(figures)][:MOST_GROUPS])


def _figures(group: GroupDecision) -> GroupFigures:
    launching = group.launch or group.deferred
    spare = 0 if launching else max(0, group.have + group.in_flight - group.target)
    pressure = group.pressure
    return GroupFigures(spare, pressure.capacity, pressure.logical, pressure.accounted_for)


def owners_met(decision: Decision) -> tuple[str, ...]:
    """The owners whose standing requests are met: of the first, if there are very many."""
    return tuple(outcome.owner for outcome in decision.standing if outcome.met)[:MOST_SOURCES]


def standing_unmet(decision: Decision) -> tuple[StandingOutcome, ...]:
    """Standing requests that are not met, with short reasons: the first, if there are very many."""
    unmet = [outcome for outcome in decision.standing if not outcome.met][:MOST_UNMET]
    return tuple(each.model_copy(update={"message": shortened(each.message, LONGEST_REASON)}) for each in unmet)


def pools_of(config: ClusterConfig, orders: Orders | None, charged: Mapping[str, int]) -> tuple[PoolStatus, ...]:
    """Every pool, by name. Its pressure is that of its groups, times the chips of their slices."""
    known = orders.figures if orders else {}
    pressed = [(group, known[group.name]) for group in config.groups if group.name in known]
    found = []
    for pool in sorted(config.pools, key=lambda pool: pool.name):
        members = [(figures, group.chips_per_slice) for group, figures in pressed if group.pool == pool.name]
        pressure = Pressure(
            capacity=sum(figures.capacity * chips for figures, chips in members),
            logical=sum(figures.logical * chips for figures, chips in members),
            accounted_for=sum(figures.accounted_for * chips for figures, chips in members),
        )
        kept = {"name": pool.name, "chips": pool.chips, "system": pool.system, "charged": charged[pool.name]}
        found.append(PoolStatus(**kept, pressure=pressure))
    return tuple(found)


def standing_of(state: AutoscalerState, orders: Orders | None) -> tuple[StandingStatus, ...]:
    """Every standing request, by owner, as the last decision judged it."""
    met = frozenset(orders.standing_met if orders else ())
    unmet = {outcome.owner: outcome for outcome in orders.standing_unmet} if orders else {}
    found = []
    for owner, request in sorted(state.standing.items()):
        outcome = unmet.get(owner, StandingOutcome(owner=owner, met=owner in met))
        judged = outcome.met if owner in met or owner in unmet else None
        found.append(StandingStatus(owner=owner, met=judged, code=outcome.code, message=outcome.message, expires=request.expires))
    return tuple(found)
