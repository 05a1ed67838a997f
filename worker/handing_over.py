"""Interceptor that lets workflows hand their state over to activities of this process."""

from temporalio.worker import Interceptor, WorkflowInboundInterceptor, WorkflowInterceptorClassInput

from activities.handover import HandedOver
from workflows.handover import HAND_OVER


class HandingOver(Interceptor):
    """Gives workflows the function that hands a state over."""

    def __init__(self, handed_over: HandedOver) -> None:
        self._handed_over = handed_over

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor] | None:  # noqa: A002 - its name in the SDK
        """No interceptor of calls; only the function."""
        input.unsafe_extern_functions[HAND_OVER] = self._handed_over.put
        return None
