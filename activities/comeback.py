"""Autoscalers that the server ended come back with their last state; those that a person ended do not."""

import logging

from temporalio.client import Client

from penstock.client.autoscaler import AutoscalerClient
from penstock.client.errors import ClientError
from penstock.client.last_run import last_run
from penstock.contract import names
from penstock.contract.error_codes import ErrorCode

log = logging.getLogger("worker")

_STATUSES = " OR ".join(f"ExecutionStatus = '{status}'" for status in ("Terminated", "Failed", "TimedOut"))
_ENDED = f"WorkflowType = '{names.AUTOSCALER}' AND ({_STATUSES})"


class EndedAutoscalers:
    """The check that every worker makes from time to time. Workers that try at once start one autoscaler, not several."""

    def __init__(self, client: Client, *, task_queue: str) -> None:
        self._client = client
        self._task_queue = task_queue
        self._settled: set[str] = set()
        """Runs that need nothing: a person ended them, or a later run followed."""

    async def restart(self) -> list[str]:
        """Restore every autoscaler of this task queue that the server ended; returns their clusters.

        One that cannot be restored does not affect the others; the first error is raised at the end.
        """
        ended = {
            run.run_id: run.id.removeprefix(names.autoscaler_id(""))
            async for run in self._client.list_workflows(_ENDED)
            if run.run_id not in self._settled and run.task_queue == self._task_queue
        }
        restarted, errors = [], []
        for run_id, cluster in ended.items():
            try:
                if await self._restart(run_id, cluster):
                    restarted.append(cluster)
            except Exception as error:  # One broken cluster must not affect the others.
                errors.append(error)
        if errors:
            raise errors[0]
        return restarted

    async def _restart(self, run_id: str, cluster: str) -> bool:
        run = await last_run(self._client, cluster)
        if run is None or run.run_id != run_id or not run.by_server:
            self._settled.add(run_id)
            return False
        log.warning("the autoscaler of %s was ended by the server (%s); starting it again", cluster, run.reason)
        try:
            await AutoscalerClient(self._client, cluster, task_queue=self._task_queue).restore()
        except ClientError as error:
            if error.code is not ErrorCode.ALREADY_RUNNING:
                raise
            return False  # Another worker was faster.
        return True
