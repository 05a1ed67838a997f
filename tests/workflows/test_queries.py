"""Queries of a large cluster: answered from the last decision of the process, or refused with what to do instead."""

import time
import uuid

import pytest
from temporalio.exceptions import ApplicationError

from activities.last_decisions import LAST_DECISIONS, LastDecision
from penstock.contract.answers import TaskStatus
from penstock.contract.error_codes import ErrorCode, split_code
from penstock.contract.messages import SlicesRequest
from penstock.contract.slice_answers import SliceOutlook
from penstock.core.answers.evaluate import Evaluation, evaluate
from penstock.core.state.apply import apply
from penstock.core.state.events import Decided
from penstock.core.state.state import AutoscalerState
from tests.core.answers.test_explain import NOW, ready, state, task
from workflows.queries import QueryAnswers


def evaluated(seconds: float) -> tuple[AutoscalerState, Evaluation]:
    """A state, after a decision that took so long."""
    before = state([task("t", cpu=1)], slices=(ready("s"),))
    found = evaluate(before, now=NOW, chance=lambda: "0")
    orders = found.orders.model_copy(update={"seconds": seconds})
    return apply(before, Decided(at=NOW, orders=orders)), found._replace(orders=orders)


@pytest.fixture
def cluster() -> str:
    return f"c-{uuid.uuid4().hex}"


def test_where_deciding_is_quick_a_query_decides(cluster: str) -> None:
    now, _ = evaluated(0.01)
    answers = QueryAnswers(cluster)
    assert answers.explanation(now, "t", NOW).as_of is None
    assert answers.decision(now, NOW).as_of is None


def test_where_it_is_not_the_last_decision_of_this_process_answers(cluster: str) -> None:
    now, made = evaluated(1.5)
    LAST_DECISIONS.keep(cluster, LastDecision(made.view, made.decision, made.orders))
    answers = QueryAnswers(cluster)
    explained = answers.explanation(now, "t", NOW)
    assert (explained.as_of, explained.status) == (NOW, TaskStatus.PLACED)
    assert explained.text.startswith("As of the last evaluation at 12:00:00 UTC, 0s ago: Task t ")
    assert answers.decision(now, NOW).as_of == NOW
    assert answers.slice_explanation(now, "s", NOW).as_of == NOW
    assert answers.page(now, SlicesRequest(about=True), NOW).about["s"].why == "demand"
    LAST_DECISIONS.forget(cluster)


def test_without_it_the_query_is_refused_and_says_what_to_do(cluster: str) -> None:
    now, _ = evaluated(1.5)
    with pytest.raises(ApplicationError) as refused:
        QueryAnswers(cluster).decision(now, NOW)
    with pytest.raises(ApplicationError):
        QueryAnswers(cluster).slice_explanation(now, "s", NOW)
    assert QueryAnswers(cluster).slice_explanation(now, "other", NOW).status is SliceOutlook.GONE
    assert QueryAnswers(cluster).page(now, SlicesRequest(about=True), NOW).about["s"].why == ""
    code, message = split_code(refused.value.message)
    assert code is ErrorCode.CLUSTER_TOO_LARGE
    assert "(about 1.5 s)" in message
    assert "query `dump`" in message


def test_a_decision_that_takes_longer_than_it_seemed_is_stopped_and_the_query_refused(cluster: str) -> None:
    sizes = [task(f"t{i}", cpu=round(1 + i / 1000, 3), memory=f"{4000 + i}MiB") for i in range(4000)]
    groups = [
        {"name": f"g{i}", "host": {"cpu": 16 + i, "memory": f"{64 + i}GiB"}, "max_slices": 99, "price_per_hour": 1 + i}
        for i in range(200)
    ]
    now = state(sizes, *groups, placement="cost")
    answers = QueryAnswers(cluster)
    began = time.process_time()
    with pytest.raises(ApplicationError) as refused:
        answers.decision(now, NOW)
    assert split_code(refused.value.message)[0] is ErrorCode.CLUSTER_TOO_LARGE
    first = time.process_time() - began
    with pytest.raises(ApplicationError):
        answers.explanation(now, "t7", NOW)
    assert time.process_time() - began - first < first / 2, "it was tried again"
