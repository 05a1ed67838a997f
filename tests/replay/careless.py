"""Workflows as a careless change leaves them."""

from typing import Any, cast

from temporalio import workflow

from penstock.client import AutoscalerClient
from penstock.contract import names
from penstock.contract.lives import SliceLife
from workflows.slice_lifecycle import SliceLifecycleWorkflow


@workflow.defn(name=names.SLICE)
class Hesitant(SliceLifecycleWorkflow):
    """It waits before it does what it always did."""

    @workflow.init
    def __init__(self, life: SliceLife) -> None:
        super().__init__(life)

    @workflow.run
    async def run(self, life: SliceLife) -> SliceLife:
        await workflow.sleep(1)
        return await super().run(life)


@workflow.defn(name=names.SLICE)
class ClockReading(SliceLifecycleWorkflow):
    """It does what it always did, after something in the library has read the clock."""

    @workflow.init
    def __init__(self, life: SliceLife) -> None:
        super().__init__(life)

    @workflow.run
    async def run(self, life: SliceLife) -> SliceLife:
        AutoscalerClient(cast(Any, None), life.spec.cluster)  # Its revisions begin with the time.
        return await super().run(life)
