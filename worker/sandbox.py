"""The two workflow runners: production runs workflows as they are, and tests in a sandbox that checks all of our code.

See docs/decisions/0017-no-sandbox-in-production.md.
"""

from temporalio import workflow
from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import StorageDriverStoreContext
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowInstanceDetails
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from penstock.contract import names
from worker.activations import ACTIVATIONS

GATHERED_FROM = 50
"""Signals of one activation from which they are given to the autoscaler together: it only stores them, and the SDK's own work for
each would take more than the two seconds for the 10,000 that a server delivers at once, on a machine four times slower."""


class _Instance(WorkflowInstance):
    """A workflow whose activations are watched, without serialization contexts.

    The SDK builds the context seven times per payload, for converters and codecs that use it. Penstock has none of those.
    """

    def __init__(self, instance: WorkflowInstance) -> None:
        self._instance = instance

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        with ACTIVATIONS.under_way(act.run_id):
            if self._instance.get_info().workflow_type == names.AUTOSCALER:
                gather_signals(act)
            return self._instance.activate(act)

    def get_serialization_context(self, command_info: object) -> None:  # noqa: ARG002 - the SDK passes it
        return None

    def get_external_store_context(self, command_info: object) -> StorageDriverStoreContext:  # noqa: ARG002
        return StorageDriverStoreContext()

    def get_info(self) -> workflow.Info:
        return self._instance.get_info()

    def get_thread_id(self) -> int | None:
        return self._instance.get_thread_id()


def gather_signals(act: WorkflowActivation) -> None:
    """Put many signals into one, in their order, each payload with the name of its signal."""
    if len(act.jobs) < GATHERED_FROM:
        return
    jobs = list(act.jobs)
    signals = [job.signal_workflow for job in jobs if job.HasField("signal_workflow")]
    if len(signals) < GATHERED_FROM:
        return
    gathered = WorkflowActivationJob()
    gathered.signal_workflow.signal_name = names.GATHERED_SIGNALS
    gathered.signal_workflow.originating_event_id = signals[0].originating_event_id
    for signal in signals:
        payload = gathered.signal_workflow.input.add()
        if signal.input:
            payload.CopyFrom(signal.input[0])
        payload.metadata[names.GATHERED_NAME] = signal.signal_name.encode()
    others = [job for job in jobs if not job.HasField("signal_workflow")]
    del act.jobs[:]
    act.jobs.extend([gathered, *others])


class _Runner(UnsandboxedWorkflowRunner):
    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _Instance(super().create_instance(det))


def production_runner() -> UnsandboxedWorkflowRunner:
    """Runs workflows without a sandbox, for speed."""
    return _Runner()


def strict_runner() -> SandboxedWorkflowRunner:
    """Sandboxes all of our code: a clock read deep in the core fails."""
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default)
