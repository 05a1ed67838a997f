"""States that workflows hand over to activities of their own process."""

from activities import handover
from activities.handover import HandedOver
from penstock.core.state.state import AutoscalerState


def test_an_activity_takes_the_state_that_was_handed_over_to_it_once() -> None:
    handed_over, state = HandedOver(), AutoscalerState()
    handed_over.put("run", "evaluate-1", state)
    assert handed_over.take("run", "evaluate-1") is state
    assert handed_over.take("run", "evaluate-1") is None


def test_an_older_state_of_the_run_or_that_of_another_run_is_not_taken() -> None:
    handed_over = HandedOver()
    handed_over.put("run", "evaluate-1", AutoscalerState())
    assert handed_over.take("run", "evaluate-2") is None, "the workflow has gone on elsewhere since"
    assert handed_over.take("later run", "evaluate-1") is None


def test_states_that_nobody_takes_are_forgotten() -> None:
    handed_over, state = HandedOver(), AutoscalerState()
    for n in range(handover.KEPT_RUNS + 1):
        handed_over.put(f"run {n}", "evaluate-1", state)
    assert handed_over.take("run 0", "evaluate-1") is None
    assert handed_over.take("run 1", "evaluate-1") is state
