"""Messages to slices: sightings and commands, answered with reports."""

import asyncio
from datetime import timedelta

from temporalio import activity
from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.exceptions import ApplicationError, TemporalError
from temporalio.service import RPCError, RPCStatusCode

from activities.slice_reports import Reporter
from activities.temporal_reads import gather_limited, signal_if_running
from penstock.contract import names
from penstock.contract.requests import SendCommandsRequest, SendCommandsResult
from penstock.contract.slices import ReportCommand, SliceCommand, SliceReport

AT_ONCE = 16
"""Messages under way at once. Each waits for a workflow task, and the autoscaler's own tasks wait behind them: with 64, `status`
took twice as long while slices started, and no more slices became READY per second."""
ANSWER_SECONDS = 5.0
"""How long a slice may take to answer. One whose workflow is stuck gets a signal instead, and holds nobody up."""


class SliceMessages:
    """Sends sightings and commands to slice workflows, as updates: one write of the server instead of eight.

    A slice answers with its report, which goes to its autoscaler. If either cannot be reached so, the slice reports by itself.
    """

    def __init__(self, client: Client, reporter: Reporter) -> None:
        self._client = client
        self._reporter = reporter

    async def send(self, cluster: str, workflow_id: str, name: str, message: object) -> bool:
        """Send a message; whether a workflow runs that has received it. Can be repeated: slices ignore what they know."""
        handle = self._client.get_workflow_handle(workflow_id)
        try:
            report = await handle.execute_update(
                name, message, result_type=SliceReport, rpc_timeout=timedelta(seconds=ANSWER_SECONDS)
            )
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            if isinstance(error.__cause__, asyncio.CancelledError):
                raise error.__cause__ from None
            return await self._signal(workflow_id, name, message)
        except WorkflowUpdateFailedError:  # A worker of an earlier version runs it.
            return await self._signal(workflow_id, name, message)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            return await self._signal(workflow_id, name, message)
        if not await self._reporter.send(cluster, report):
            await self._ask_for_report(workflow_id)
        return True

    async def _signal(self, workflow_id: str, name: str, message: object) -> bool:
        """Leave the message as a signal, for a slice that does not answer, and have it report even if the update arrives late."""
        arrived = await signal_if_running(self._client, workflow_id, name, message)
        return arrived and await self._ask_for_report(workflow_id)

    async def _ask_for_report(self, workflow_id: str) -> bool:
        command = ReportCommand(slice_id=workflow_id.rpartition("/")[2])
        return await signal_if_running(self._client, workflow_id, names.COMMAND, command)


class CommandActivities:
    """The activity that sends the commands of an autoscaler to its slices."""

    def __init__(self, messages: SliceMessages) -> None:
        self._messages = messages

    @activity.defn(name=names.SEND_COMMANDS)
    async def send_commands(self, request: SendCommandsRequest) -> SendCommandsResult:
        """Send them all; returns the slices that could not be reached, which hold up no other.

        A slice that has no workflow counts as reached: the inventory finds its resource.
        """

        async def send(command: SliceCommand) -> bool:
            workflow_id = names.slice_workflow_id(request.cluster, request.groups[command.slice_id], command.slice_id)
            try:
                await self._messages.send(request.cluster, workflow_id, names.COMMAND, command)
            except (TemporalError, RPCError, ValueError) as error:
                activity.logger.warning("slice %s could not be sent a command: %s", command.slice_id, error)
                return False
            return True

        sent = await gather_limited(request.commands, send, at_once=AT_ONCE)
        failed = [command.slice_id for command, arrived in zip(request.commands, sent, strict=True) if not arrived]
        if failed and len(failed) == len(request.commands):
            raise ApplicationError(f"no slice of {len(failed)} could be sent its command", type="NotSent")
        return SendCommandsResult(failed=tuple(failed))
