"""Metrics and trace spans of a slice's transitions and drains. They never affect the history."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

from temporalio import workflow

from penstock.contract import metrics
from penstock.contract.slices import SliceLifecycle
from penstock.core.slices.drain_counts import DrainCount, drain_counts, first_drain_counts
from penstock.model.slices import SliceState

WRITE_SPAN = "penstock_write_span"
"""The external function through which spans leave the workflow sandbox, on a worker with tracing."""


class StateSpan(NamedTuple):
    """The time a slice spent in one state, and the failure that ended it, if one did."""

    state: SliceState
    began: datetime
    ended: datetime
    lifecycle: SliceLifecycle
    failure: str | None = None


SpanWriter = Callable[[StateSpan], None]


def record(before: SliceLifecycle, after: SliceLifecycle) -> None:
    """Record the transition of a slice. A replay records nothing: it was recorded the first time."""
    labels = {"cluster": after.spec.cluster, "group": after.spec.group}
    if after.deletion_overdue and not before.deletion_overdue:
        metric = metrics.DELETIONS_OVERDUE
        workflow.metric_meter().create_counter(metric.name, metric.description, metric.unit).add(1, labels)
    _count_drains(after, drain_counts(before, after))
    if after.state is before.state:
        return
    if after.state is SliceState.READY and before.state.in_flight:
        metric = metrics.TIME_TO_READY_SECONDS
        seconds = max((after.since - after.ordered_at).total_seconds(), 0.0)
        workflow.metric_meter().create_histogram_float(metric.name, metric.description, metric.unit).record(seconds, labels)
    write: SpanWriter | None = workflow.extern_functions().get(WRITE_SPAN)
    if write is not None and not workflow.unsafe.is_replaying():
        for span in _state_spans(before, after):
            write(span)


def record_first(lifecycle: SliceLifecycle) -> None:
    """Record what the slice had behind it when its first workflow began."""
    _count_drains(lifecycle, first_drain_counts(lifecycle))


def _count_drains(lifecycle: SliceLifecycle, counts: Iterable[DrainCount]) -> None:
    """Count drains where they happen, in the slice's own workflow: a reset of its autoscaler repeats none of them."""
    for count in counts:
        labels = {"cluster": lifecycle.spec.cluster, "group": lifecycle.spec.group, "cause": count.cause}
        metric = metrics.DRAINS_BEGUN if count.end is None else metrics.DRAINS_ENDED
        how = {} if count.end is None else {"how": count.end.value}
        workflow.metric_meter().create_counter(metric.name, metric.description, metric.unit).add(1, labels | how)


def _state_spans(before: SliceLifecycle, after: SliceLifecycle) -> list[StateSpan]:
    """The spans of a transition: the state that ended; and READY or an end state as a moment.

    A slice may be READY for days, so its span is not written at the end of that time.
    """
    spans = []
    if before.state is not SliceState.READY:
        failed = after.failure is not None and before.failure is None
        failure = f"{after.failure.kind}: {after.failure.message}" if failed and after.failure is not None else None
        spans.append(StateSpan(before.state, before.since, max(before.since, after.since), after, failure))
    if after.state is SliceState.READY or after.state.ended:
        spans.append(StateSpan(after.state, after.since, after.since, after))
    return spans
