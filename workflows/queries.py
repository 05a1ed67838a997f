"""Cache of an autoscaler's parsed updates and of the decision behind its queries, valid until the state changes."""

from datetime import datetime

from temporalio.exceptions import ApplicationError

from activities.last_decisions import LAST_DECISIONS, LastDecision
from penstock.contract.answers import TOO_LARGE, DecisionSummary, Explanation, SlicePage
from penstock.contract.error_codes import ErrorCode, with_code
from penstock.contract.messages import SlicesRequest
from penstock.contract.problems import BadMessage
from penstock.contract.slice_answers import SliceExplanation
from penstock.core.answers.about_slices import about_slices
from penstock.core.answers.as_of import (
    QUERY_STEPS,
    QUICK_SECONDS,
    decision_as_of,
    decision_seconds,
    explain_as_of,
    explain_slice_as_of,
)
from penstock.core.answers.explain import explain
from penstock.core.answers.explain_slice import explain_slice, needs_no_decision
from penstock.core.answers.held import held_because
from penstock.core.answers.remedy import BRIEF_EFFORT, remedies_for
from penstock.core.answers.snapshot import SnapshotWithIds, snapshot_of
from penstock.core.answers.status import page_of
from penstock.core.answers.summary import summarize
from penstock.core.decision.decide import decide
from penstock.core.decision.effort import Effort, GivenUp
from penstock.core.decision.keeping import kept_of
from penstock.core.state.apply import apply
from penstock.core.state.events import TimePassed
from penstock.core.state.size_limits import exceeds_limits
from penstock.core.state.state import AutoscalerState
from penstock.core.state.updates import ParsedUpdate, read_update
from penstock.model.decision import Decision


class QueryAnswers:
    """A cache of parsed updates and decisions. It never changes an answer."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._state: AutoscalerState | None = None
        self._made: tuple[SnapshotWithIds, Decision] | None = None
        self._read: tuple[AutoscalerState, str, bytes, ParsedUpdate] | None = None

    def checked(self, state: AutoscalerState, name: str, raw: bytes, at: datetime) -> ParsedUpdate:
        """Parse an update; raises `BadMessage` if it is impossible or exceeds a size limit.

        Cached, because the validator has just checked the same payload and 100,000 tasks take seconds.
        """
        if self._read is not None and self._read[0] is state and self._read[1:3] == (name, raw):
            return self._read[3]
        parsed = read_update(state, name, raw, at)
        for event in parsed.events:
            problem = exceeds_limits(state, event)
            if problem is not None:
                raise BadMessage(problem)
        self._read = (state, name, raw, parsed)
        return parsed

    def decision(self, state: AutoscalerState, now: datetime) -> DecisionSummary:
        """The decision on the state at `now`, or the last one if deciding takes long, with remedies that are found quickly."""
        if (made := self._decided(state, now)) is None:
            last = self._last(state)
            return decision_as_of(state, (last.view, last.decision), input_version=last.orders.input_version, now=now)
        view, decision = made
        remedies = remedies_for(view.snapshot, decision, effort=BRIEF_EFFORT)
        kept = kept_of(view.snapshot, decision)
        return summarize(decision, view.demand, remedies, kept=kept, held=held_because(state, now))

    def explanation(self, state: AutoscalerState, asked: str, now: datetime) -> Explanation:
        """Where a task, a gang or the tasks with a prefix are placed, or why they are not."""
        if (made := self._decided(state, now)) is None:
            last = self._last(state)
            return explain_as_of(state, asked, (last.view, last.decision), input_version=last.orders.input_version, now=now)
        return explain(state, asked, made=made, effort=BRIEF_EFFORT, now=now)

    def slice_explanation(self, state: AutoscalerState, slice_id: str, now: datetime) -> SliceExplanation:
        """Why a slice is kept, or why it goes."""
        if needs_no_decision(state, slice_id):
            return explain_slice(state, slice_id, now=now)
        if (made := self._decided(state, now)) is None:
            last = self._last(state)
            version = last.orders.input_version
            return explain_slice_as_of(state, slice_id, (last.view, last.decision), input_version=version, now=now)
        return explain_slice(state, slice_id, made=made, now=now)

    def page(self, state: AutoscalerState, request: SlicesRequest, now: datetime) -> SlicePage:
        """One page of the ledger; with `about` also why slices stay or go, by the last decision if that takes long."""
        page = page_of(state, request)
        if not request.about:
            return page
        made = self._decided(state, now)
        if made is None and (last := LAST_DECISIONS.of(self._cluster, state.orders)) is not None:
            made = (last.view, last.decision)
        return page.model_copy(update={"about": about_slices(state, page.slices, made)})

    def _last(self, state: AutoscalerState) -> LastDecision:
        """The decision of the last evaluation; raises `CLUSTER_TOO_LARGE` if this process does not have it."""
        last = LAST_DECISIONS.of(self._cluster, state.orders)
        if last is None:
            seconds = decision_seconds(state)
            text = f" (about {seconds:.1f} s)" if seconds > QUICK_SECONDS else ""
            raise ApplicationError(with_code(ErrorCode.CLUSTER_TOO_LARGE, TOO_LARGE.format(seconds=text)))
        return last

    def _decided(self, state: AutoscalerState, now: datetime) -> tuple[SnapshotWithIds, Decision] | None:
        """The decision on the state at `now`, decided anew if the state changed or its `next_change_at` has passed.

        None if that takes too long for a query: by what the last evaluation took, or because it was tried and did.
        """
        if state.config is None:
            raise ApplicationError("the cluster has no configuration yet; apply one")
        if decision_seconds(state) > QUICK_SECONDS:
            return None
        ends = self._made[1].next_change_at if self._made is not None else None
        if self._state is not state or (ends is not None and ends <= now):
            self._state, self._made = state, _decided_within(QUERY_STEPS, state, now)
        return self._made


def _decided_within(steps: int, state: AutoscalerState, now: datetime) -> tuple[SnapshotWithIds, Decision] | None:
    """The decision on the state at `now`; None if it takes more steps."""
    effort = Effort(stop_at=steps)
    try:
        view = snapshot_of(apply(state, TimePassed(at=max(now, state.now))), effort)
        return view, decide(view.snapshot, effort)
    except GivenUp:
        return None
