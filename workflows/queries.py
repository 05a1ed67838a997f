"""Cache of an autoscaler's parsed updates and of the decision behind its queries, valid until the state changes."""

from datetime import datetime

from temporalio.exceptions import ApplicationError

from penstock.contract.answers import TOO_LARGE, DecisionSummary, Explanation
from penstock.contract.error_codes import ErrorCode, with_code
from penstock.contract.problems import BadMessage
from penstock.core.answers.explain import explain
from penstock.core.answers.remedy import BRIEF_EFFORT, remedies_for
from penstock.core.answers.snapshot import SnapshotWithIds, snapshot_of
from penstock.core.answers.summary import summarize
from penstock.core.decision.decide import decide
from penstock.core.state.size_limits import exceeds_limits
from penstock.core.state.state import AutoscalerState
from penstock.core.state.updates import ParsedUpdate, read_update
from penstock.model.decision import Decision

LARGEST_DECIDED = 50_000
"""Runs plus slices above which a query refuses to decide. Below it, a decision takes a tenth of Temporal's two seconds."""


class QueryAnswers:
    """A cache of parsed updates and decisions. It never changes an answer."""

    def __init__(self) -> None:
        self._state: AutoscalerState | None = None
        self._made: tuple[SnapshotWithIds, Decision] | None = None
        self._read: tuple[AutoscalerState, str, bytes, ParsedUpdate] | None = None

    def update(self, state: AutoscalerState, name: str, raw: bytes, at: datetime) -> ParsedUpdate:
        """Parse an update. Cached, because the validator has just parsed the same payload and 100,000 tasks take seconds."""
        if self._read is not None and self._read[0] is state and self._read[1:3] == (name, raw):
            return self._read[3]
        parsed = read_update(state, name, raw, at)
        self._read = (state, name, raw, parsed)
        return parsed

    def check(self, state: AutoscalerState, name: str, raw: bytes, at: datetime) -> None:
        """Raise `BadMessage` if the update is impossible or exceeds a size limit. A replay does not check again."""
        for event in self.update(state, name, raw, at).events:
            problem = exceeds_limits(state, event)
            if problem is not None:
                raise BadMessage(problem)

    def decision(self, state: AutoscalerState) -> DecisionSummary:
        """A summary of the current decision, with those remedies that are found quickly."""
        view, decision = self._decided(state)
        return summarize(decision, view.demand, remedies_for(view.snapshot, decision, effort=BRIEF_EFFORT))

    def explanation(self, state: AutoscalerState, task_id: str) -> Explanation:
        """Where one task is placed, or why it is not."""
        return explain(state, task_id, made=self._decided(state), effort=BRIEF_EFFORT)

    def _decided(self, state: AutoscalerState) -> tuple[SnapshotWithIds, Decision]:
        if state.config is None:
            raise ApplicationError("the cluster has no configuration yet; apply one")
        runs = sum(len(source.demand.workload.runs) for source in state.demand.values())
        if runs + len(state.slices) > LARGEST_DECIDED:
            raise ApplicationError(with_code(ErrorCode.CLUSTER_TOO_LARGE, TOO_LARGE))
        if self._state is not state or self._made is None:
            view = snapshot_of(state)
            self._state, self._made = state, (view, decide(view.snapshot))
        return self._made
