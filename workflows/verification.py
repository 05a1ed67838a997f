"""The workflow of `penstock verify`: compare ledger, workflows and clouds on a worker, which can reach the clouds."""

from temporalio import workflow

from penstock.contract import names
from penstock.contract.answers import Verdict
from penstock.contract.requests import VerifyRequest
from penstock.wording import counted
from workflows import policies


@workflow.defn(name=names.VERIFY)
class VerifyWorkflow:
    """One comparison of ledger, workflows and clouds."""

    @workflow.run
    async def run(self, request: VerifyRequest) -> Verdict:
        """The differences."""
        verdict: Verdict = await workflow.execute_activity(
            names.VERIFY_CLUSTER,
            request,
            result_type=Verdict,
            summary=f"compare ledger, workflows and clouds of {request.cluster}",
            **policies.VERIFY,
        )
        workflow.set_current_details(_details(verdict))
        return verdict


def _details(verdict: Verdict) -> str:
    compared = ((verdict.slices, "slice"), (verdict.workflows, "workflow"), (verdict.resources, "resource"))
    counts = ", ".join(counted(count, noun) for count, noun in compared)
    lines = [f"- {difference.message}" for difference in verdict.differences[:50]]
    lines += [f"- {location} could not be listed completely" for location in verdict.unlisted]
    return (
        f"**{'agrees' if verdict.agrees else 'differs'}**: {counts} in {counted(verdict.locations, 'location')}\n\n"
        + "\n".join(lines)
    )
