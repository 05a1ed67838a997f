"""The last decisions of a process: the one that the workflow has recorded, of the latest clusters."""

from datetime import timedelta

from activities.last_decisions import MOST_KEPT, LastDecision, LastDecisions
from penstock.core.answers.evaluate import evaluate
from tests.core.answers.test_explain import NOW, state, task


def decision(seconds: float = 0) -> LastDecision:
    evaluation = evaluate(state([task("t", cpu=1)]), now=NOW + timedelta(seconds=seconds), chance=lambda: "0")
    return LastDecision(evaluation.view, evaluation.decision, evaluation.orders)


def test_the_decision_that_the_workflow_has_recorded_is_the_last_one() -> None:
    kept, last = LastDecisions(), decision()
    kept.keep("c", last)
    assert kept.of("c", last.orders) is last
    assert kept.of("other", last.orders) is None


def test_a_decision_of_another_process_or_of_an_earlier_life_of_the_cluster_leaves_none() -> None:
    kept = LastDecisions()
    kept.keep("c", decision())
    assert kept.of("c", decision(1).orders) is None
    assert kept.of("c", None) is None


def test_only_those_of_the_latest_clusters_are_kept() -> None:
    kept, last = LastDecisions(), decision()
    for number in range(MOST_KEPT + 1):
        kept.keep(f"c{number}", last)
    assert [number for number in range(MOST_KEPT + 1) if kept.of(f"c{number}", last.orders) is None] == [0]
    kept.forget("c1")
    assert kept.of("c1", last.orders) is None
