"""`evaluate`: one state in, one decision and its orders out. Every launch and drain comes from here."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from penstock.contract import names
from penstock.contract.orders import MOST_SOURCES, Launch, Orders
from penstock.core.answers.as_of import size_of
from penstock.core.answers.figures import figures_of, owners_met, standing_unmet
from penstock.core.answers.on_ready import tasks_on_ready
from penstock.core.answers.snapshot import SnapshotWithIds, snapshot_of
from penstock.core.answers.summary import tasks_in
from penstock.core.decision.decide import decide
from penstock.core.decision.effort import Effort
from penstock.core.state.apply import apply
from penstock.core.state.events import TimePassed
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ScaleDown
from penstock.model.decision import Code, Decision, LaunchRequest, Tier
from penstock.model.demand import Workload

MOST_LAUNCHES = 2000
"""Slices that one evaluation orders: their ids fit in one message. The next evaluation is due immediately and orders the rest."""


class Evaluation(NamedTuple):
    """One evaluation: the decision, the orders that carry it out, and the snapshot that it was made on."""

    decision: Decision
    orders: Orders
    view: SnapshotWithIds


def evaluate(
    state: AutoscalerState, *, now: datetime, chance: Callable[[], str], is_given_up: Callable[[], bool] | None = None
) -> Evaluation:
    """Decide on a state at a moment, and name the slices to launch.

    Pure: the clock comes in as `now`, and the random part of every slice id (eight hexadecimal digits) from `chance`.
    Once `is_given_up` says that nobody waits for it any more, it raises `GivenUp`.
    """
    effort = Effort(is_given_up)
    view = snapshot_of(apply(state, TimePassed(at=max(now, state.now))), effort)
    snapshot = view.snapshot
    decision = decide(snapshot, effort)
    requests = _first(decision.launches)
    drains = snapshot.config.scale_down is ScaleDown.ON
    orders = Orders(
        at=now,
        input_version=state.input_version,
        config_revision=state.config_revision,
        launches=tuple(
            Launch(
                slice_id=names.slice_id(request.group, now, chance()),
                group=request.group,
                cause=request.cause,
                source=request.source,
                replaces=request.replaces,
                home=request.home,
            )
            for request in requests
            for _ in range(request.slices)
        ),
        drains=decision.drains if drains else (),
        observed_drains=0 if drains else len(decision.drains),
        cancelled_drains=decision.cancelled_drains,
        unneeded=decision.unneeded,
        desired=decision.desired,
        waiting_since=decision.waiting_since,
        on_ready=tasks_on_ready(state, decision, view.demand, now),
        figures=figures_of(decision),
        standing_met=owners_met(decision),
        standing_unmet=standing_unmet(decision),
        deferred=sum(item.slices for item in decision.deferred),
        placed=_placed(decision, snapshot.workload),
        unmet=_unmet(decision, snapshot.workload),
        demand=revisions_of(state),
        thorough=decision.thorough,
        decided_on=size_of(state),
        next_change_at=decision.next_change_at if requests == decision.launches else now,
    )
    return Evaluation(decision, orders, view)


def _first(launches: tuple[LaunchRequest, ...]) -> tuple[LaunchRequest, ...]:
    """The launches that fit in one evaluation. A launch may be for a gang, so it is split only if it is too large by itself."""
    slices = 0
    for i, launch in enumerate(launches):
        slices += launch.slices
        if slices > MOST_LAUNCHES:
            return launches[:i] or (launch._replace(slices=MOST_LAUNCHES),)
    return launches


def revisions_of(state: AutoscalerState) -> dict[str, tuple[int, int]]:
    """Epoch and revision of the demand of each source: of the first, if there are very many."""
    return {name: state.demand[name].stamp for name in sorted(state.demand)[:MOST_SOURCES]}


def _placed(decision: Decision, workload: Workload) -> dict[Tier, int]:
    counts: dict[Tier, int] = {}
    for placed in decision.placed:
        counts[placed.tier] = counts.get(placed.tier, 0) + tasks_in(placed.span, workload)
    return counts


def _unmet(decision: Decision, workload: Workload) -> dict[Code, int]:
    counts: dict[Code, int] = {}
    for unmet in decision.unmet:
        counts[unmet.code] = counts.get(unmet.code, 0) + sum(tasks_in(span, workload) for span in unmet.spans)
    return counts
