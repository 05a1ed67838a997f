"""The short workflow behind `penstock doctor`: it runs where the clouds can be reached."""

from temporalio import workflow

from penstock.contract import names
from penstock.contract.answers import DoctorReport
from workflows import policies


@workflow.defn(name=names.DOCTOR)
class DoctorWorkflow:
    """One examination of what a worker can reach."""

    @workflow.run
    async def run(self) -> DoctorReport:
        """What is well and what is not."""
        found: DoctorReport = await workflow.execute_activity(
            names.RUN_DOCTOR, result_type=DoctorReport, summary="look at namespace, clusters and locations", **policies.VERIFY
        )
        lines = [f"- {'✓' if each.ok else '✗'} **{each.subject}**: {each.message}" for each in found.findings[:100]]
        workflow.set_current_details("\n".join(lines))
        return found
