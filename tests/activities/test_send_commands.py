"""Commands to slices: one that cannot be reached holds up no other."""

import asyncio

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities.slice_messages import CommandActivities, SliceMessages
from penstock.contract.requests import SendCommandsRequest
from penstock.contract.slices import ReportCommand


class Messages(SliceMessages):
    """Messages that reach all slices but some."""

    def __init__(self, unreachable: set[str]) -> None:
        self.unreachable = unreachable
        self.reached: list[str] = []

    async def send(self, cluster: str, workflow_id: str, name: str, message: object) -> bool:
        slice_id = workflow_id.rpartition("/")[2]
        if slice_id in self.unreachable:
            raise RPCError("too many signals", RPCStatusCode.INVALID_ARGUMENT, b"")
        self.reached.append(slice_id)
        return True


def request(slices: int) -> SendCommandsRequest:
    ids = [f"g-{n}" for n in range(slices)]
    return SendCommandsRequest(
        cluster="c", commands=tuple(ReportCommand(slice_id=i) for i in ids), groups=dict.fromkeys(ids, "g")
    )


def test_all_slices_but_the_one_that_cannot_be_reached_get_their_commands() -> None:
    messages = Messages({"g-7"})
    result = asyncio.run(ActivityEnvironment().run(CommandActivities(messages).send_commands, request(50)))
    assert result.failed == ("g-7",)
    assert len(messages.reached) == 49


def test_commands_of_which_none_arrives_are_tried_again() -> None:
    messages = Messages({"g-0", "g-1"})
    with pytest.raises(ApplicationError, match="no slice of 2"):
        asyncio.run(ActivityEnvironment().run(CommandActivities(messages).send_commands, request(2)))
