"""Metrics of the autoscaler's own steps. They never affect the history."""

from temporalio import workflow

from penstock.contract import metrics


def count_failed_evaluation(cluster: str) -> None:
    """Count an evaluation that failed. The workflow counts: an attempt that hangs or dies with its worker could not."""
    metric = metrics.EVALUATION_FAILURES
    counter = workflow.metric_meter().create_counter(metric.name, metric.description, metric.unit)
    counter.add(1, {"cluster": cluster})
