"""Answers to those who ask a running autoscaler: decided again from its state, once per state."""

from temporalio.exceptions import ApplicationError

from penstock.core.decide import decide
from penstock.core.explain import Explanation, explain
from penstock.core.remedy import BRIEF_EFFORT, remedies_for
from penstock.core.state import AutoscalerState
from penstock.core.summary import DecisionSummary, summarize
from penstock.core.view import View, view_of
from penstock.model.decision import Decision


class Answers:
    """The decision on the state that was asked about last. Only a cache: whatever it holds, answers are the same."""

    def __init__(self) -> None:
        self._state: AutoscalerState | None = None
        self._made: tuple[View, Decision] | None = None

    def decision(self, state: AutoscalerState) -> DecisionSummary:
        """The whole decision, summed up, with remedies where they are found quickly."""
        view, decision = self._decided(state)
        return summarize(decision, view.demand, remedies_for(view.snapshot, decision, effort=BRIEF_EFFORT))

    def explanation(self, state: AutoscalerState, task_id: str) -> Explanation:
        """What becomes of one task, and why."""
        return explain(state, task_id, made=self._decided(state), effort=BRIEF_EFFORT)

    def _decided(self, state: AutoscalerState) -> tuple[View, Decision]:
        if state.config is None:
            raise ApplicationError("the cluster has no configuration yet; apply one")
        if self._state is not state or self._made is None:
            view = view_of(state)
            self._state, self._made = state, (view, decide(view.snapshot))
        return self._made
