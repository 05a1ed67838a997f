"""Collecting reports for a recovery: one slice whose answer cannot be read holds up no other."""

import asyncio
from typing import Any, cast

import pytest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.testing import ActivityEnvironment

from activities import recovery
from penstock.contract.requests import CollectReportsRequest
from penstock.contract.slices import SliceLifecycle, SliceReport

LIFECYCLE: dict[str, Any] = {
    "spec": {"cluster": "c", "group": "g", "location": {"provider": "sim", "account": "sim", "name": "z"}},
    "since": "2030-01-01T00:00:00Z",
    "ordered_at": "2030-01-01T00:00:00Z",
}


def test_a_slice_whose_answer_has_fields_of_a_newer_version_is_silent_and_the_others_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[str] = []

    async def running(*_: Any) -> dict[str, str]:
        return dict.fromkeys(("g-0", "g-1", "g-2"), "g")

    async def status(*_: Any) -> WorkflowExecutionStatus:
        return WorkflowExecutionStatus.RUNNING

    async def lifecycle(_client: Client, _cluster: str, _group: str, slice_id: str) -> SliceLifecycle:
        newer = {"a_field_of_a_newer_version": 1} if slice_id == "g-1" else {}
        return SliceLifecycle.model_validate(LIFECYCLE | newer | {"spec": LIFECYCLE["spec"] | {"slice_id": slice_id}})

    async def send(_client: Client, _cluster: str, reports: list[SliceReport]) -> bool:
        reported.extend(report.slice_id for report in reports)
        return True

    async def no_state(*_: Any) -> None:
        return None

    for name, fake in (
        ("running_slices", running),
        ("status_of", status),
        ("lifecycle_of", lifecycle),
        ("send_reports", send),
        ("state_of", no_state),
    ):
        monkeypatch.setattr(recovery, name, fake)
    activities = recovery.RecoveryActivities(cast(Client, None))
    request = CollectReportsRequest(cluster="c", recovery="r")
    result = asyncio.run(ActivityEnvironment().run(activities.collect_reports, request))
    assert (reported, result.silent) == (["g-0", "g-2"], {"g-1": "g"})
