"""Many signals of one activation reach the autoscaler as one: in their order, each with its name, and nothing else changes."""

from temporalio.api.common.v1 import Payload
from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob

from penstock.contract import names
from worker.sandbox import GATHERED_FROM, gather_signals


def activation(signals: int) -> WorkflowActivation:
    """An activation that brings a start, an update, and signals of two kinds, every third of them without a payload."""
    act = WorkflowActivation()
    act.jobs.add().initialize_workflow.workflow_id = "w"
    for number in range(signals):
        signal = act.jobs.add().signal_workflow
        signal.signal_name = names.REPORT if number % 2 else names.DEMAND
        signal.originating_event_id = 7 + number
        if number % 3:
            signal.input.append(Payload(metadata={"encoding": b"json/plain"}, data=str(number).encode()))
    act.jobs.add().do_update.name = names.PAUSE
    return act


def test_many_signals_become_one_in_their_order() -> None:
    act = activation(2 * GATHERED_FROM)
    gather_signals(act)
    gathered, *others = act.jobs
    assert gathered.signal_workflow.signal_name == names.GATHERED_SIGNALS
    assert gathered.signal_workflow.originating_event_id == 7
    found = [(one.metadata[names.GATHERED_NAME].decode(), one.data.decode()) for one in gathered.signal_workflow.input]
    assert found == [
        (names.REPORT if number % 2 else names.DEMAND, str(number) if number % 3 else "") for number in range(2 * GATHERED_FROM)
    ]
    assert [job.WhichOneof("variant") for job in others] == ["initialize_workflow", "do_update"]


def test_few_signals_stay_as_they_are() -> None:
    few, same = activation(GATHERED_FROM - 1), activation(GATHERED_FROM - 1)
    gather_signals(few)
    assert few == same
    none = WorkflowActivation(jobs=[WorkflowActivationJob() for _ in range(2 * GATHERED_FROM)])
    gather_signals(none)
    assert len(none.jobs) == 2 * GATHERED_FROM
