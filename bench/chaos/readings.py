"""Read the facts of a run: cloud, ledger, slice workflows, demand, and which workflows answer."""

import asyncio
import uuid
from collections.abc import Awaitable, Mapping
from datetime import timedelta
from typing import Any

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.common import QueryRejectCondition
from temporalio.service import RPCError

from activities.temporal_reads import is_running, lifecycle_of, running_slices, watched_locations
from bench.chaos.accounts import Facts, Held
from bench.chaos.cloud import CloudAdmin
from penstock.client import AutoscalerClient
from penstock.contract import names
from penstock.contract.answers import Verdict
from penstock.contract.requests import VerifyRequest

ANSWER_SECONDS = 45.0
"""A workflow that a new worker must replay first takes seconds; one that is silent for longer is wedged."""
VERIFY_SECONDS = 60.0
_RETRY_SECONDS = 0.5


class Reader:
    """Reads the cluster from outside, as an operator could."""

    def __init__(self, client: Client, autoscaler: AutoscalerClient, cloud: CloudAdmin) -> None:
        self._client = client
        self._autoscaler = autoscaler
        self._cloud = cloud

    async def facts(self, sent: Mapping[str, frozenset[str]]) -> Facts:
        """Everything but the answers of workflows and `verify`; raises what the calls raise."""
        async with asyncio.timeout(ANSWER_SECONDS):
            state = await self._autoscaler.dump()
            decision = await self._autoscaler.decision()
        held = {source: frozenset(held.demand.task_ids) for source, held in state.demand.items()}
        waiting = sum(decision.launches.values()) + sum(unmet.tasks for unmet in decision.unmet)
        rest = (state.recovery is not None) + len(state.unstarted) + len(state.outbox)
        return Facts(
            made=await self._cloud.ever_made(),
            ledger={piece.id: piece.state for piece in state.slices},
            workflows=await self._workflows(),
            ordered=await self._ordered(),
            demand={source: Held(tasks, held.get(source, frozenset())) for source, tasks in sent.items()},
            waiting=waiting + rest,
            missing_foreign=await self._cloud.missing_foreign(),
        )

    async def facts_after_deletion(self) -> Facts:
        """What is left in the cloud and of workflows; an autoscaler that still runs counts as one."""
        running = await self._workflows()
        if await is_running(self._client, names.autoscaler_id(self._cloud.cluster)):
            running = {**running, "the autoscaler": "closing"}
        return Facts(
            made=await self._cloud.ever_made(),
            workflows=running,
            ordered=await self._ordered(),
            missing_foreign=await self._cloud.missing_foreign(),
        )

    async def with_verdict(self, facts: Facts) -> Facts:
        """The facts, with what `penstock verify` says and which workflows give no answer."""
        silent = await self.silent()
        verdict = await self._verdict()
        if verdict is None:
            return facts._replace(silent={**silent, "verify": f"no verdict within {VERIFY_SECONDS:g} s"})
        differences = tuple((each.kind, each.slice_id, each.message) for each in verdict.differences)
        return facts._replace(silent=silent, differences=differences, unlisted=verdict.unlisted)

    async def silent(self) -> dict[str, str]:
        """What went wrong with asking each workflow, for those that did not answer."""
        cluster = self._cloud.cluster
        asked = {names.autoscaler_id(cluster): self._ask(names.autoscaler_id(cluster), names.STATUS, {})}
        for slice_id, group in (await running_slices(self._client, cluster)).items():
            workflow_id = names.slice_workflow_id(cluster, group, slice_id)
            asked[workflow_id] = self._ask(workflow_id, names.LIFECYCLE)
        answers = await asyncio.gather(*asked.values())
        found = {workflow_id: why for workflow_id, why in zip(asked, answers, strict=True) if why is not None}
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await watched_locations(self._client, cluster, known=())
        except (RPCError, TimeoutError) as error:
            found["inventories"] = str(error) or "no answer"
        return found

    def autoscaler_answers(self) -> Awaitable[str | None]:
        """What went wrong with asking the autoscaler for its status; None if it answered."""
        return self._ask(names.autoscaler_id(self._cloud.cluster), names.STATUS, {})

    async def _ask(self, workflow_id: str, question: str, *arguments: Any) -> str | None:
        """What went wrong last, if no attempt until the deadline was answered."""
        handle, failed = self._client.get_workflow_handle(workflow_id), "none came"
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                while True:
                    try:
                        await handle.query(question, args=arguments, reject_condition=QueryRejectCondition.NONE)
                    except (RPCError, WorkflowQueryFailedError) as error:
                        failed = str(error) or type(error).__name__
                        await asyncio.sleep(_RETRY_SECONDS)
                    else:
                        return None
        except TimeoutError:
            return f"no answer within {ANSWER_SECONDS:g} s: {failed}"

    async def _verdict(self) -> Verdict | None:
        cluster = self._cloud.cluster
        try:
            async with asyncio.timeout(VERIFY_SECONDS):
                verdict: Verdict = await self._client.execute_workflow(
                    names.VERIFY,
                    VerifyRequest(cluster=cluster),
                    id=f"verify-{cluster}-{uuid.uuid4().hex[:8]}",
                    task_queue=names.TASK_QUEUE,
                    execution_timeout=timedelta(seconds=VERIFY_SECONDS),
                    result_type=Verdict,
                )
        except TimeoutError:
            return None
        return verdict

    async def _workflows(self) -> dict[str, str]:
        found = {}
        for slice_id, group in (await running_slices(self._client, self._cloud.cluster)).items():
            lifecycle = await lifecycle_of(self._client, self._cloud.cluster, group, slice_id)
            if lifecycle is not None and not lifecycle.state.ended:
                found[slice_id] = str(lifecycle.state)
        return found

    async def _ordered(self) -> frozenset[str]:
        query = f"{names.CLUSTER_ATTRIBUTE} = '{self._cloud.cluster}' AND WorkflowType = '{names.SLICE}'"
        return frozenset([found.id.rpartition("/")[2] async for found in self._client.list_workflows(query)])
