"""Stockouts, quotas, rate limits, permissions and injected faults, as Google's clients report them."""

import asyncio
from typing import Any

import pytest
import requests
from google.api_core import exceptions

from tests.emulators.gcp.zones import SECONDS, Clients, ComputeZone, TpuZone, play_compute, play_tpu
from tests.emulators.running_gcp import RunningGcp


@pytest.mark.parametrize(
    ("reserved", "code", "expected"), [(False, 8, "no more capacity"), (True, 9, "Insufficient reserved capacity")]
)
def test_a_tpu_stockout_fails_the_operation_and_the_node_disappears(
    gcp: RunningGcp, reserved: bool, code: int, expected: str
) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, stockout=True)
        operation = await zone.operation(await zone.create("n-1", scheduling_config={"reserved": reserved}))
        assert operation.error.code == code
        assert expected in operation.error.message
        assert await zone.gone("n-1")
        assert await zone.admin.times_made("n-1", zone=zone.zone) == 0

    play_tpu(gcp, story)


def test_a_node_without_capacity_is_visible_until_its_operation_fails(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, stockout=True, create_latency="1h")
        await zone.create("n-1")
        node = await zone.get("n-1")
        assert (node.state.name, len(node.network_endpoints)) == ("CREATING", 0)

    play_tpu(gcp, story)


def test_stockout_after_limits_the_number_of_nodes(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, stockout_after=1)
        assert not (await zone.operation(await zone.create("n-1"))).HasField("error")
        assert (await zone.operation(await zone.create("n-2"))).error.code == 8

    play_tpu(gcp, story)


def test_a_compute_stockout_fails_the_operation(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        await zone.admin.behave(zone.zone, stockout=True)
        operation = await zone.done(await zone.insert("vm-1"))
        assert [error.code for error in operation.error.errors] == ["ZONE_RESOURCE_POOL_EXHAUSTED"]
        assert operation.http_error_status_code == 503
        assert await zone.gone("vm-1")

    play_compute(gcp, clients, story)


@pytest.mark.parametrize(
    ("scope", "expected"), [("zone", "PerProjectPerZone"), ("region", "PerProjectPerRegion"), ("project", "globally")]
)
def test_a_tpu_quota_refuses_the_call_with_the_violation(gcp: RunningGcp, scope: str, expected: str) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, quota={"scope": scope, "limit": 0})
        with pytest.raises(exceptions.ResourceExhausted) as refused:
            await zone.create("n-1")
        details: Any = refused.value.details
        assert expected in details[0].violations[0].description
        with pytest.raises(exceptions.ResourceExhausted):
            await zone.enqueue("q-1")
        await zone.admin.behave(zone.zone, quota={"scope": scope, "limit": 0, "in_operation": True})
        operation = await zone.operation(await zone.create("n-1"))
        assert (operation.error.code, expected in operation.error.message) == (8, True)

    play_tpu(gcp, story)


@pytest.mark.parametrize(("scope", "expected"), [("region", "in region zone-"), ("project", "globally"), ("zone", "in zone")])
def test_a_compute_quota_fails_the_operation_or_refuses_the_call(
    gcp: RunningGcp, clients: Clients, scope: str, expected: str
) -> None:
    async def story(zone: ComputeZone) -> None:
        await zone.admin.behave(zone.zone, quota={"scope": scope, "limit": 0})
        operation = await zone.done(await zone.insert("vm-1"))
        assert [error.code for error in operation.error.errors] == ["QUOTA_EXCEEDED"]
        assert expected in operation.error.errors[0].message
        assert operation.http_error_status_code == 403
        await zone.admin.behave(zone.zone, quota={"scope": scope, "limit": 0, "in_operation": False})
        with pytest.raises(exceptions.Forbidden) as refused:
            await zone.insert("vm-1")
        assert refused.value.errors[0]["reason"] == "quotaExceeded"

    play_compute(gcp, clients, story)


def test_a_quota_counts_existing_nodes(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, quota={"limit": 1})
        await zone.create("n-1")
        with pytest.raises(exceptions.ResourceExhausted):
            await zone.create("n-2")
        await zone.delete("n-1")
        await zone.create("n-2")

    play_tpu(gcp, story)


def test_creates_beyond_the_rate_are_refused(gcp: RunningGcp, clients: Clients) -> None:
    async def tpu(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, rate={"creates": 1, "per": "1h"})
        await zone.create("n-1")
        with pytest.raises(exceptions.ResourceExhausted, match="per minute") as refused:
            await zone.create("n-2")
        details: Any = refused.value.details
        assert details[0].reason == "RATE_LIMIT_EXCEEDED"

    async def compute(zone: ComputeZone) -> None:
        await zone.admin.behave(zone.zone, rate={"creates": 1, "per": "1h"})
        await zone.insert("vm-1")
        with pytest.raises(exceptions.TooManyRequests) as refused:
            await zone.insert("vm-2")
        assert refused.value.errors[0]["reason"] == "rateLimitExceeded"

    play_tpu(gcp, tpu)
    play_compute(gcp, clients, compute)


@pytest.mark.parametrize(
    ("scope", "expected"), [("zone", "is not found or access is unauthorized"), ("project", "(?i)permission")]
)
def test_without_permission_nothing_is_done_or_shown(gcp: RunningGcp, clients: Clients, scope: str, expected: str) -> None:
    async def tpu(zone: TpuZone) -> None:
        await zone.create("n-1")
        await zone.admin.behave(zone.zone, permission_denied=scope)
        for call in (zone.create("n-2"), zone.get("n-1"), zone.delete("n-1")):
            with pytest.raises(exceptions.PermissionDenied, match=expected):
                await call

    async def compute(zone: ComputeZone) -> None:
        await zone.insert("vm-1")
        await zone.admin.behave(zone.zone, permission_denied=scope)
        for call in (zone.insert("vm-2"), zone.get("vm-1"), zone.delete("vm-1"), zone.names()):
            with pytest.raises(exceptions.Forbidden, match=expected):
                await call

    play_tpu(gcp, tpu)
    play_compute(gcp, clients, compute)


def test_a_create_whose_reply_is_lost_is_carried_out(gcp: RunningGcp, clients: Clients) -> None:
    async def tpu(zone: TpuZone) -> None:
        await zone.admin.behave(zone.zone, lost_replies=1)
        with pytest.raises(exceptions.ServiceUnavailable):
            await zone.create("n-1")
        with pytest.raises(exceptions.AlreadyExists):
            await zone.create("n-1")
        await zone.create("n-2")

    async def compute(zone: ComputeZone) -> None:
        await zone.admin.behave(zone.zone, lost_replies=1)
        with pytest.raises(requests.ConnectionError):
            await zone.insert("vm-1")
        with pytest.raises(exceptions.Conflict):
            await zone.insert("vm-1")

    play_tpu(gcp, tpu)
    play_compute(gcp, clients, compute)


def test_failing_deletes_fail_that_many_times(gcp: RunningGcp, clients: Clients) -> None:
    async def tpu(zone: TpuZone) -> None:
        await zone.create("n-1")
        await zone.admin.behave(zone.zone, failing_deletes=2)
        for _ in range(2):
            with pytest.raises(exceptions.ServiceUnavailable):
                await zone.delete("n-1")
        await zone.delete("n-1")

    async def compute(zone: ComputeZone) -> None:
        await zone.insert("vm-1")
        await zone.admin.behave(zone.zone, failing_deletes=1)
        with pytest.raises(exceptions.ServiceUnavailable):
            await zone.delete("vm-1")
        await zone.delete("vm-1")

    play_tpu(gcp, tpu)
    play_compute(gcp, clients, compute)


@pytest.mark.parametrize(
    ("fault", "raised"),
    [
        ({"code": "UNAVAILABLE"}, exceptions.ServiceUnavailable),
        ({"code": "DEADLINE_EXCEEDED"}, exceptions.DeadlineExceeded),
        ({"code": "INTERNAL"}, exceptions.InternalServerError),
        ({"code": "UNKNOWN"}, exceptions.Unknown),
        ({"code": "ABORTED"}, exceptions.Aborted),
        ({"code": "FAILED_PRECONDITION", "message": "unable to queue the operation"}, exceptions.FailedPrecondition),
        ({"code": "RESOURCE_EXHAUSTED", "error_info": "RATE_LIMIT_EXCEEDED"}, exceptions.ResourceExhausted),
        (
            {"code": "RESOURCE_EXHAUSTED", "quota_failure": "Quota 'TPUV4PerProjectPerZone' exhausted"},
            exceptions.ResourceExhausted,
        ),
        ({"code": "INVALID_ARGUMENT"}, exceptions.InvalidArgument),
        ({"code": "OUT_OF_RANGE"}, exceptions.OutOfRange),
        ({"code": "UNIMPLEMENTED"}, exceptions.MethodNotImplemented),
        ({"code": "PERMISSION_DENIED", "error_info": "SERVICE_DISABLED"}, exceptions.PermissionDenied),
        ({"code": "UNAUTHENTICATED"}, exceptions.Unauthenticated),
        ({"code": "NOT_FOUND"}, exceptions.NotFound),
        ({"status": 503}, exceptions.ServiceUnavailable),
        ({"status": 429}, exceptions.ResourceExhausted),
    ],
)
def test_a_fault_fails_one_tpu_call(gcp: RunningGcp, fault: dict[str, Any], raised: type[Exception]) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.fault("CreateNode", zone=zone.zone, **fault)
        with pytest.raises(raised, match=fault.get("message")):
            await zone.create("n-1")
        await zone.create("n-1")

    play_tpu(gcp, story)


@pytest.mark.parametrize(
    ("fault", "raised"),
    [
        ({"code": "UNAVAILABLE"}, exceptions.ServiceUnavailable),
        ({"code": "DEADLINE_EXCEEDED"}, exceptions.GatewayTimeout),
        ({"status": 502, "reason": "backendError"}, exceptions.BadGateway),
        ({"status": 403, "reason": "rateLimitExceeded"}, exceptions.Forbidden),
        ({"status": 429, "reason": "rateLimitExceeded"}, exceptions.TooManyRequests),
        ({"status": 403, "reason": "quotaExceeded"}, exceptions.Forbidden),
        ({"status": 403, "reason": "accessNotConfigured"}, exceptions.Forbidden),
        ({"status": 412, "reason": "conditionNotMet"}, exceptions.PreconditionFailed),
        ({"status": 400, "reason": "resourceNotReady"}, exceptions.BadRequest),
    ],
)
def test_a_fault_fails_one_compute_call(
    gcp: RunningGcp, clients: Clients, fault: dict[str, Any], raised: type[exceptions.GoogleAPICallError]
) -> None:
    async def story(zone: ComputeZone) -> None:
        await zone.admin.fault("instances.insert", zone=zone.zone, **fault)
        with pytest.raises(raised) as refused:
            await zone.insert("vm-1")
        if "reason" in fault:
            assert refused.value.errors[0]["reason"] == fault["reason"]
        await zone.insert("vm-1")

    play_compute(gcp, clients, story)


@pytest.mark.parametrize("code", [3, 4, 8, 9, 10, 13, 14])
def test_a_tpu_operation_fails_with_any_code(gcp: RunningGcp, code: int) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.admin.fault("CreateNode", zone=zone.zone, operation=[{"code": code, "message": "as configured"}])
        operation = await zone.operation(await zone.create("n-1"))
        assert (operation.error.code, operation.error.message) == (code, "as configured")
        assert await zone.gone("n-1")

    play_tpu(gcp, story)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", 503),
        ("RESOURCE_OPERATION_RATE_EXCEEDED", 429),
        ("UNSUPPORTED_OPERATION", 400),
        ("RESOURCE_NOT_FOUND", 404),
        ("PERMISSIONS_ERROR", 403),
    ],
)
def test_a_compute_operation_fails_with_any_code(gcp: RunningGcp, clients: Clients, code: str, status: int) -> None:
    async def story(zone: ComputeZone) -> None:
        fault = {"operation": [{"code": code, "message": "as configured"}], "status": status}
        await zone.admin.fault("instances.insert", zone=zone.zone, **fault)
        operation = await zone.done(await zone.insert("vm-1"))
        assert [(error.code, error.message) for error in operation.error.errors] == [(code, "as configured")]
        assert operation.http_error_status_code == status
        assert await zone.gone("vm-1")

    play_compute(gcp, clients, story)


def test_a_delete_whose_operation_fails_deletes_nothing(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        await zone.done(await zone.insert("vm-1"))
        await zone.admin.fault("instances.delete", zone=zone.zone, operation=[{"code": "RESOURCE_NOT_READY"}])
        operation = await zone.done(await zone.delete("vm-1"))
        assert operation.error.errors[0].code == "RESOURCE_NOT_READY"
        assert (await zone.get("vm-1")).status == "RUNNING"

    play_compute(gcp, clients, story)


def test_a_call_can_be_carried_out_and_its_reply_lost(gcp: RunningGcp, clients: Clients) -> None:
    async def tpu(zone: TpuZone) -> None:
        await zone.create("n-1")
        await zone.admin.fault("DeleteNode", zone=zone.zone, lose_reply=True, code="DEADLINE_EXCEEDED")
        with pytest.raises(exceptions.DeadlineExceeded):
            await zone.delete("n-1")
        assert await zone.gone("n-1")

    async def compute(zone: ComputeZone) -> None:
        await zone.insert("vm-1")
        await zone.admin.fault("instances.delete", zone=zone.zone, lose_reply=True)
        with pytest.raises(requests.ConnectionError):
            await zone.delete("vm-1")
        assert await zone.gone("vm-1")

    play_tpu(gcp, tpu)
    play_compute(gcp, clients, compute)


def test_a_fault_can_delay_a_call_beyond_its_timeout(gcp: RunningGcp, clients: Clients) -> None:
    async def tpu(zone: TpuZone) -> None:
        await zone.admin.fault("GetNode", zone=zone.zone, latency="1h")
        with pytest.raises(exceptions.DeadlineExceeded):
            await zone.tpu.get_node(name=zone.name("n-1"), timeout=0.1)

    async def compute(zone: ComputeZone) -> None:
        await zone.admin.fault("instances.get", zone=zone.zone, latency="1h")
        with pytest.raises(requests.ReadTimeout):
            await asyncio.to_thread(zone.instances.get, **zone.where, instance="vm-1", retry=None, timeout=0.1)

    play_tpu(gcp, tpu)
    play_compute(gcp, clients, compute)


def test_a_fault_affects_its_number_of_calls_of_the_matching_methods(gcp: RunningGcp, clients: Clients) -> None:
    async def story(zone: ComputeZone) -> None:
        await zone.insert("vm-1")
        await zone.admin.fault("instances.*", zone=zone.zone, times=2, code="UNAVAILABLE")
        for _ in range(2):
            with pytest.raises(exceptions.ServiceUnavailable):
                await zone.get("vm-1")
        await zone.get("vm-1")
        await zone.admin.fault("*", zone=zone.zone, times=None, code="UNAVAILABLE")
        for _ in range(3):
            with pytest.raises(exceptions.ServiceUnavailable):
                await zone.get("vm-1")
        await zone.admin.call("DELETE", "/faults")
        await zone.get("vm-1")

    play_compute(gcp, clients, story)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"method": "CreateNodes", "code": "INTERNAL"}, "no method"),
        ({"method": "CreateNode", "code": "TIRED"}, "no code"),
        ({"method": "CreateNode"}, "at least one of"),
        ({"method": "CreateNode", "status": 503, "colour": "red"}, "colour"),
    ],
)
def test_an_invalid_fault_is_refused(gcp: RunningGcp, fault: dict[str, Any], expected: str) -> None:
    answer = requests.post(f"{gcp.url}/emulator/faults", json=fault, timeout=SECONDS)
    assert answer.status_code == 400
    assert expected in answer.json()["error"]["message"]


def test_calls_are_counted_by_method_and_zone(gcp: RunningGcp) -> None:
    async def story(zone: TpuZone) -> None:
        await zone.create("n-1")
        await zone.get("n-1")
        await zone.get("n-1")
        counted = await zone.admin.call("GET", "/calls")
        assert (counted["CreateNode"][zone.zone], counted["GetNode"][zone.zone]) == (1, 2)

    play_tpu(gcp, story)
