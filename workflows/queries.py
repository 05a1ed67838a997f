"""QueryAnswers to those who ask a running autoscaler: worked out from its state, once per state."""

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
"""Runs and slices on which a query decides: a tenth of the two seconds that Temporal allows, on a quiet machine."""


class QueryAnswers:
    """What was last worked out. Only a cache: whatever it holds, answers are the same."""

    def __init__(self) -> None:
        self._state: AutoscalerState | None = None
        self._made: tuple[SnapshotWithIds, Decision] | None = None
        self._read: tuple[AutoscalerState, str, bytes, ParsedUpdate] | None = None

    def update(self, state: AutoscalerState, name: str, raw: bytes, at: datetime) -> ParsedUpdate:
        """What an update means. Its validator has just asked the same, and large demand takes long to read."""
        if self._read is not None and self._read[0] is state and self._read[1:3] == (name, raw):
            return self._read[3]
        accepted = read_update(state, name, raw, at)
        self._read = (state, name, raw, accepted)
        return accepted

    def check(self, state: AutoscalerState, name: str, raw: bytes, at: datetime) -> None:
        """Raise `BadMessage` for what cannot be done or carried. A replay does not ask again: what was taken in stays so."""
        for event in self.update(state, name, raw, at).events:
            problem = exceeds_limits(state, event)
            if problem is not None:
                raise BadMessage(problem)

    def decision(self, state: AutoscalerState) -> DecisionSummary:
        """The whole decision, summed up, with remedies where they are found quickly."""
        view, decision = self._decided(state)
        return summarize(decision, view.demand, remedies_for(view.snapshot, decision, effort=BRIEF_EFFORT))

    def explanation(self, state: AutoscalerState, task_id: str) -> Explanation:
        """What becomes of one task, and why."""
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
