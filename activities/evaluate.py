"""The activity that evaluates a cluster: fetch the state, run the core's `evaluate`, return the orders to record."""

import asyncio
import secrets
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from time import perf_counter

from temporalio import activity
from temporalio.client import Client
from temporalio.common import RawValue

from activities.handover import HandedOver
from activities.last_decisions import LAST_DECISIONS, LastDecision
from activities.metrics import EvaluationMetrics
from penstock.contract import names
from penstock.contract.orders import Orders
from penstock.core.answers.as_of import QUICK_SECONDS
from penstock.core.answers.evaluate import Evaluation, evaluate
from penstock.core.state.state import AutoscalerState

REMEMBERED_RUNS = 1000
"""Runs known not to come from a reset. Beyond this number the oldest are forgotten and checked again."""
RESET = "this run was reset: events after the reset point are not in its history"


class EvaluateActivities:
    """The activity that evaluates clusters.

    The state, as an argument, would enter the history each time. The workflow hands it over in the process if it runs in the same
    one; else the activity queries it.
    """

    def __init__(self, client: Client, handed_over: HandedOver | None = None) -> None:
        self._client = client
        self._handed_over = handed_over or HandedOver()
        self._metrics = EvaluationMetrics()
        self._unbroken: dict[str, None] = {}

    @activity.defn(name=names.EVALUATE)
    async def evaluate(self, cluster: str) -> Orders:
        """Evaluate the state of the calling run, as it was when this was scheduled or newer; returns the orders."""
        run_id = activity.info().workflow_run_id
        assert run_id is not None
        state = self._handed_over.take(run_id, activity.info().activity_id) or await self._dumped(cluster, run_id)
        if state.recovered_in != run_id and await self._was_reset(cluster, run_id):
            return Orders(at=datetime.now(UTC), run_id=run_id, input_version=state.input_version, recover=RESET)
        evaluation = await _until_given_up(state, run_id)
        _keep(cluster, evaluation)
        self._metrics.record(cluster, state, evaluation.decision, evaluation.orders)
        return evaluation.orders

    async def _dumped(self, cluster: str, run_id: str) -> AutoscalerState:
        """The state of a run that a worker in another process holds."""
        handle = self._client.get_workflow_handle(names.autoscaler_id(cluster), run_id=run_id)
        dumped = await handle.query(names.DUMP, result_type=RawValue)
        # Reading a large state takes a tenth of a second, in which the event loop would carry nothing else.
        return await asyncio.to_thread(AutoscalerState.model_validate_json, dumped.payload.data)

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


def _keep(cluster: str, evaluation: Evaluation) -> None:
    """Keep a decision that takes too long to be made again for a query."""
    if evaluation.orders.seconds <= QUICK_SECONDS:
        LAST_DECISIONS.forget(cluster)
        return
    LAST_DECISIONS.keep(cluster, LastDecision(evaluation.view, evaluation.decision, evaluation.orders))


async def _until_given_up(state: AutoscalerState, run_id: str) -> Evaluation:
    """The evaluation, in a thread that ends soon after this attempt is cancelled or times out."""
    given_up = threading.Event()
    try:
        return await asyncio.to_thread(_measured, state, run_id, given_up.is_set)
    finally:
        given_up.set()


def _measured(state: AutoscalerState, run_id: str, is_given_up: Callable[[], bool]) -> Evaluation:
    """One evaluation with the time that it took."""
    began = perf_counter()
    evaluation = evaluate(state, now=datetime.now(UTC), chance=lambda: secrets.token_hex(4), is_given_up=is_given_up)
    seconds = round(perf_counter() - began, 3)
    orders = evaluation.orders.model_copy(update={"run_id": run_id, "seconds": seconds})
    return evaluation._replace(orders=orders)
