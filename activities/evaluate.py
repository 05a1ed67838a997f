"""The activity that evaluates a cluster: fetch the state, run the core's `evaluate`, return the orders to record."""

import asyncio
import secrets
from datetime import UTC, datetime
from time import perf_counter

from temporalio import activity
from temporalio.client import Client

from activities.metrics import EvaluationMetrics
from penstock.contract import names
from penstock.contract.orders import Orders
from penstock.core.answers.evaluate import Evaluation, evaluate
from penstock.core.state.state import AutoscalerState

REMEMBERED_RUNS = 1000
"""Runs known not to come from a reset. Beyond this number the oldest are forgotten and checked again."""
RESET = "this run was reset: events after the reset point are not in its history"


class EvaluateActivities:
    """The activity that evaluates clusters. It queries the state, which as an argument would enter the history each time."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._metrics = EvaluationMetrics()
        self._unbroken: dict[str, None] = {}

    @activity.defn(name=names.EVALUATE)
    async def evaluate(self, cluster: str) -> Orders:
        """Evaluate the state of the calling run; returns the orders."""
        run_id = activity.info().workflow_run_id
        assert run_id is not None
        handle = self._client.get_workflow_handle(names.autoscaler_id(cluster), run_id=run_id)
        state = await handle.query(names.DUMP, result_type=AutoscalerState)
        if state.recovered_in != run_id and await self._was_reset(cluster, run_id):
            return Orders(at=datetime.now(UTC), run_id=run_id, input_version=state.input_version, recover=RESET)
        evaluation = await asyncio.to_thread(_measured, state, run_id)
        self._metrics.record(cluster, state, evaluation.decision, evaluation.orders)
        return evaluation.orders

    async def _was_reset(self, cluster: str, run_id: str) -> bool:
        """Whether the run continues another one after a reset: its first event then names that other run."""
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


def _measured(state: AutoscalerState, run_id: str) -> Evaluation:
    """One evaluation with the time that it took."""
    began = perf_counter()
    evaluation = evaluate(state, now=datetime.now(UTC), chance=lambda: secrets.token_hex(4))
    seconds = round(perf_counter() - began, 3)
    orders = evaluation.orders.model_copy(update={"run_id": run_id, "seconds": seconds})
    return evaluation._replace(orders=orders)
