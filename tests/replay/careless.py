"""Workflows after a change: a careless one, and the same change behind a patch."""

from typing import Any, cast

from temporalio import workflow

from penstock.client import AutoscalerClient
from penstock.contract import names
from penstock.contract.slices import SliceLifecycle
from penstock.core.state.state import AutoscalerState
from workflows.autoscaler import AutoscalerWorkflow
from workflows.slice_lifecycle import SliceLifecycleWorkflow


@workflow.defn(name=names.SLICE)
class Hesitant(SliceLifecycleWorkflow):
    """It waits before it does the same as before."""

    @workflow.init
    def __init__(self, lifecycle: SliceLifecycle) -> None:
        super().__init__(lifecycle)

    @workflow.run
    async def run(self, lifecycle: SliceLifecycle) -> SliceLifecycle:
        await workflow.sleep(1)
        return await super().run(lifecycle)


@workflow.defn(name=names.SLICE)
class ClockReading(SliceLifecycleWorkflow):
    """It does the same as before, after a part of the library has read the clock."""

    @workflow.init
    def __init__(self, lifecycle: SliceLifecycle) -> None:
        super().__init__(lifecycle)

    @workflow.run
    async def run(self, lifecycle: SliceLifecycle) -> SliceLifecycle:
        AutoscalerClient(cast(Any, None), lifecycle.spec.cluster)  # Its revisions begin with the time.
        return await super().run(lifecycle)


@workflow.defn(name=names.AUTOSCALER)
class Settling(AutoscalerWorkflow):
    """It waits before it launches, also in runs that launched without waiting."""

    @workflow.init
    def __init__(self, state: AutoscalerState) -> None:
        super().__init__(state)

    @workflow.run
    async def run(self, state: AutoscalerState) -> dict[str, str | int]:
        return await super().run(state)

    async def _launch(self) -> None:
        if self._state.unstarted:
            await workflow.sleep(1, summary="let the decision settle")
        await super()._launch()


@workflow.defn(name=names.AUTOSCALER)
class SettlingFromNowOn(AutoscalerWorkflow):
    """It waits before it launches, except in runs that launched without waiting."""

    @workflow.init
    def __init__(self, state: AutoscalerState) -> None:
        super().__init__(state)

    @workflow.run
    async def run(self, state: AutoscalerState) -> dict[str, str | int]:
        return await super().run(state)

    async def _launch(self) -> None:
        if self._state.unstarted and workflow.patched("settle-before-launch"):
            await workflow.sleep(1, summary="let the decision settle")
        await super()._launch()
