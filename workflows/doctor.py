"""The workflow of `penstock doctor`: run all checks on a worker, which can reach the clouds."""

from temporalio import workflow

from penstock.contract import names
from penstock.contract.answers import DoctorReport
from workflows import policies


@workflow.defn(name=names.DOCTOR)
class DoctorWorkflow:
    """One run of all checks."""

    @workflow.run
    async def run(self) -> DoctorReport:
        """The findings."""
        found: DoctorReport = await workflow.execute_activity(
            names.RUN_DOCTOR, result_type=DoctorReport, summary="check namespace, clusters and locations", **policies.VERIFY
        )
        lines = [f"- {'✓' if each.ok else '✗'} **{each.subject}**: {each.message}" for each in found.findings[:100]]
        workflow.set_current_details("\n".join(lines))
        return found
