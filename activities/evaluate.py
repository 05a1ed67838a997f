"""The activity that evaluates a cluster: fetch the state, run the core, return the orders to record."""

import asyncio
import secrets
from datetime import UTC, datetime
from time import perf_counter

from temporalio import activity
from temporalio.client import Client

from activities.metrics import EvaluationMetrics
from penstock.contract import names
from penstock.contract.orders import Launch, Orders
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.decision.decide import decide
from penstock.core.state.apply import apply
from penstock.core.state.events import TimePassed
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import Code, Decision, Tier
from penstock.model.decision import LaunchRequest as Wanted

MOST_LAUNCHES = 2000
"""Slices that one evaluation orders: their ids fit in one message. The rest is ordered at once after it."""
REMEMBERED_RUNS = 1000
"""Runs of which it is remembered that nobody reset them."""
RESET = "this run was reset: what happened after that point is not in its history"


class EvaluateActivities:
    """Evaluations of clusters. The state is asked for here instead of being an argument, which would be recorded each time."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._metrics = EvaluationMetrics()
        self._unbroken: dict[str, None] = {}

    @activity.defn(name=names.EVALUATE)
    async def decide(self, cluster: str) -> Orders:
        """What to order now, by the state of the run that asks."""
        run_id = activity.info().workflow_run_id
        assert run_id is not None
        handle = self._client.get_workflow_handle(names.autoscaler_id(cluster), run_id=run_id)
        state = await handle.query(names.DUMP, result_type=AutoscalerState)
        if state.recovered_in != run_id and await self._was_reset(cluster, run_id):
            return Orders(at=datetime.now(UTC), run_id=run_id, input_version=state.input_version, recover=RESET)
        decision, orders = await asyncio.to_thread(evaluated, state, run_id, datetime.now(UTC))
        self._metrics.record(cluster, state, decision, orders)
        return orders

    async def _was_reset(self, cluster: str, run_id: str) -> bool:
        """Whether the run continues another one from the middle: its first event then names that one."""
        if run_id in self._unbroken:
            return False
        handle = self._client.get_workflow_handle(names.autoscaler_id(cluster), run_id=run_id)
        async for event in handle.fetch_history_events(page_size=1):
            if event.workflow_execution_started_event_attributes.original_execution_run_id != run_id:
                return True
            break
        self._unbroken[run_id] = None
        if len(self._unbroken) > REMEMBERED_RUNS:
            del self._unbroken[next(iter(self._unbroken))]
        return False


def evaluated(state: AutoscalerState, run_id: str, at: datetime) -> tuple[Decision, Orders]:
    """A decision on a state at a moment, and its orders. Slices get their names here: they are recorded with the orders."""
    assert state.config is not None
    began = perf_counter()
    decision = decide(snapshot_of(apply(state, TimePassed(at=max(at, state.now)))).snapshot)
    wanted = _first(decision.launches)
    orders = Orders(
        at=at,
        run_id=run_id,
        input_version=state.input_version,
        config_revision=state.config_revision,
        launches=tuple(
            Launch(slice_id=names.slice_id(launch.group, at, secrets.token_hex(4)), group=launch.group, cause=launch.cause)
            for launch in wanted
            for _ in range(launch.slices)
        ),
        drains=decision.drains,
        deferred=sum(item.slices for item in decision.deferred),
        placed=_placed(decision),
        unmet=_unmet(decision),
        next_change_at=decision.next_change_at if wanted == decision.launches else at,
        seconds=round(perf_counter() - began, 3),
    )
    return decision, orders


def _first(launches: tuple[Wanted, ...]) -> tuple[Wanted, ...]:
    """As many launches as one evaluation orders. One is not split, for it may be a gang's, unless it alone is too large."""
    ordered = 0
    for i, launch in enumerate(launches):
        ordered += launch.slices
        if ordered > MOST_LAUNCHES:
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
