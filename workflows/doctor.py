"""The workflow of `penstock doctor`: run all checks on a worker, which can reach clouds, and read every worker's clock."""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError

from penstock.contract import names
from penstock.contract.answers import DoctorReport, Finding
from workflows import policies


@workflow.defn(name=names.DOCTOR)
class DoctorWorkflow:
    """One run of all checks."""

    @workflow.run
    async def run(self) -> DoctorReport:
        """The findings."""
        clocks, report = await asyncio.gather(self._clocks(), self._checks())
        found = report.model_copy(update={"findings": (*clocks, *report.findings)})
        lines = [f"- {'✓' if each.ok else '✗'} **{each.subject}**: {each.message}" for each in found.findings[:100]]
        workflow.set_current_details("\n".join(lines))
        return found

    async def _checks(self) -> DoctorReport:
        """What one worker finds."""
        found: DoctorReport = await workflow.execute_activity(
            names.RUN_DOCTOR, result_type=DoctorReport, summary="check namespace, clusters and locations", **policies.VERIFY
        )
        return found

    async def _clocks(self) -> list[Finding]:
        """The clock of every worker: each process is asked on its own task queue."""
        workers: dict[str, float] = await workflow.execute_activity(
            names.LIST_WORKERS, result_type=dict[str, float], summary="list the workers", **policies.VERIFY
        )
        return list(await asyncio.gather(*(self._clock(identity, polled) for identity, polled in sorted(workers.items()))))

    async def _clock(self, identity: str, polled: float) -> Finding:
        try:
            found: Finding = await workflow.execute_activity(
                names.READ_CLOCK,
                result_type=Finding,
                task_queue=names.worker_queue(workflow.info().task_queue, identity),
                summary=f"read the clock of {identity}",
                **policies.READ_CLOCK,
            )
        except ActivityError:
            # The server lists a worker for a while after it ended, so silence alone needs no attention.
            message = f"not read: no answer, and it last polled {polled:.0f} s ago; it has ended, or is busy"
            return Finding(subject=f"clock of worker {identity}", ok=True, message=message)
        return found
