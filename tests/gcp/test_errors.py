"""The meanings of Google's errors, as docs/gcp.md lists them: as its clients raise them, and over real sockets."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.rpc import error_details_pb2  # type: ignore[import-untyped]

from activities.providers.gcp.error_codes import Meaning
from activities.providers.gcp.errors import DEFAULT_RETRY_SECONDS, Fault, ProjectZone, error_of, failure_of, fault_of
from activities.providers.port import (
    Conflict,
    FailureKind,
    Invalid,
    PermissionDenied,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Scope,
    Stockout,
    Transient,
)
from tests.activities.clouds import order_of
from tests.gcp.clouds import Endpoints, compute_cloud, tpu_cloud
from tests.gcp.error_rows import ROWS, Row, api

DOCS = Path(__file__).parents[2] / "docs" / "gcp.md"
ZONE = ProjectZone("my-project", "us-central1-a")
CASES = [pytest.param(*row, id=f"{name}-{i}") for name, rows in ROWS.items() for i, row in enumerate(rows)]

RAISED: dict[Meaning, type[ProviderError]] = {
    Meaning.STOCKOUT: Stockout,
    Meaning.QUOTA: QuotaExceeded,
    Meaning.RATE: RateLimited,
    Meaning.TRANSIENT: Transient,
    Meaning.BUSY: Transient,
    Meaning.EXISTS: Conflict,
    Meaning.NOT_FOUND: Invalid,
    Meaning.INVALID: Invalid,
    Meaning.PERMISSION: PermissionDenied,
    Meaning.PREEMPTED: Transient,
}


@pytest.mark.parametrize(("said", "meaning", "scope"), CASES)
def test_each_error_has_one_meaning_and_becomes_the_ports_error_with_its_subject(
    said: Callable[[], Fault], meaning: Meaning, scope: Scope
) -> None:
    fault = said()
    assert fault.meaning is meaning
    error = error_of(fault, ZONE)
    assert type(error) is RAISED[meaning]
    if isinstance(error, QuotaExceeded | PermissionDenied):
        subjects = {Scope.ZONE: "us-central1-a", Scope.REGION: "us-central1", Scope.PROJECT: "my-project"}
        assert (fault.scope, error.scope, error.subject) == (scope, scope, subjects[scope])


def test_the_table_in_the_docs_has_a_row_for_each_error_and_no_other() -> None:
    errors = DOCS.read_text().partition("\n## Errors\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| .+? \| (\w+)", errors, re.M)
    assert {name for name, _ in rows} == ROWS.keys()
    words = {name: rows_[0][1] for name, rows_ in ROWS.items()}
    assert dict(rows) == {name: meaning.value for name, meaning in words.items()}


def test_an_error_says_how_far_it_reaches_and_when_to_come_back() -> None:
    failure = failure_of(Fault(Meaning.QUOTA, "rpc 8", "too much", Scope.REGION), ZONE)
    assert (failure.kind, failure.scope, failure.subject) == (FailureKind.QUOTA, Scope.REGION, "us-central1")
    failure = failure_of(Fault(Meaning.STOCKOUT, "rpc 8", "none"), ZONE)
    assert (failure.kind, failure.scope, failure.subject) == (FailureKind.STOCKOUT, None, "")
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromSeconds(17)
    limited = error_of(fault_of(api.ResourceExhausted("per minute", errors=(), details=[retry])), ZONE)
    assert isinstance(limited, RateLimited)
    assert limited.retry_after == 17
    limited = error_of(fault_of(api.TooManyRequests("slower")), ZONE)
    assert isinstance(limited, RateLimited)
    assert limited.retry_after == DEFAULT_RETRY_SECONDS


def test_missing_credentials_come_with_what_to_do() -> None:
    rows: list[Row] = ROWS["no-credentials"]
    assert "gcloud auth application-default login" in str(error_of(rows[0][0](), ZONE))


TPU_FAULTS: dict[str, tuple[dict[str, Any], type[ProviderError]]] = {
    "stockout": ({"operation": [{"code": 8, "message": "There is no more capacity in the zone"}]}, Stockout),
    "reservation": ({"operation": [{"code": 9, "message": "Insufficient reserved capacity."}]}, Stockout),
    "quota": ({"code": "RESOURCE_EXHAUSTED", "quota_failure": "Limit 8 in region us-central2"}, QuotaExceeded),
    "rate": ({"code": "RESOURCE_EXHAUSTED", "error_info": "RATE_LIMIT_EXCEEDED", "retry_after": "3s"}, RateLimited),
    "unavailable": ({"code": "UNAVAILABLE"}, Transient),
    "internal": ({"code": "INTERNAL"}, Transient),
    "busy": ({"code": "FAILED_PRECONDITION", "message": "unable to queue the operation"}, Transient),
    "invalid": ({"code": "INVALID_ARGUMENT"}, Invalid),
    "no parent": ({"code": "NOT_FOUND"}, Invalid),
    "denied": ({"code": "PERMISSION_DENIED"}, PermissionDenied),
    "no credentials": ({"code": "UNAUTHENTICATED"}, PermissionDenied),
}


@pytest.mark.parametrize("name", TPU_FAULTS)
def test_a_node_that_is_refused_raises_the_ports_error(endpoints: Endpoints, name: str) -> None:
    fault, expected = TPU_FAULTS[name]

    async def refused() -> None:
        async with tpu_cloud(endpoints) as cloud:
            await cloud.fault("CreateNode", **fault)
            with pytest.raises(expected):
                await cloud.provider.create(order_of(cloud))

    asyncio.run(refused())


COMPUTE_FAULTS: dict[str, tuple[dict[str, Any], type[ProviderError]]] = {
    "stockout": ({"operation": [{"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "none"}]}, Stockout),
    "too few alone": ({"operation": [{"code": "VM_MIN_COUNT_NOT_REACHED", "message": "none"}]}, Stockout),
    "too few for quota": (
        {
            "operation": [
                {"code": "VM_MIN_COUNT_NOT_REACHED", "message": "none"},
                {"code": "QUOTA_EXCEEDED", "message": "Quota 'CPUS' exceeded.  Limit: 8.0 in region us-central1."},
            ]
        },
        QuotaExceeded,
    ),
    "quota": (
        {"status": 403, "reason": "quotaExceeded", "message": "Quota 'CPUS' exceeded. Limit: 8.0 globally."},
        QuotaExceeded,
    ),
    "rate": ({"status": 429, "reason": "rateLimitExceeded", "retry_after": "3s"}, RateLimited),
    "unavailable": ({"status": 503}, Transient),
    "not ready": ({"operation": [{"code": "RESOURCE_NOT_READY", "message": "busy"}], "times": None}, Transient),
    "invalid": ({"status": 400, "reason": "invalid"}, Invalid),
    "no image": ({"status": 404, "reason": "notFound"}, Invalid),
    "denied": ({"status": 403, "reason": "forbidden"}, PermissionDenied),
    "no credentials": ({"status": 401, "reason": "authError"}, PermissionDenied),
}


@pytest.mark.parametrize("hosts", [1, 2])
@pytest.mark.parametrize("name", COMPUTE_FAULTS)
def test_machines_that_are_refused_raise_the_ports_error(endpoints: Endpoints, name: str, hosts: int) -> None:
    fault, expected = COMPUTE_FAULTS[name]

    async def refused() -> None:
        async with compute_cloud(endpoints) as cloud:
            await cloud.fault("instances.insert" if hosts == 1 else "instances.bulkInsert", **fault)
            with pytest.raises(expected) as raised:
                await cloud.provider.create(order_of(cloud, hosts=hosts))
            if isinstance(raised.value, RateLimited):
                assert raised.value.retry_after == 3

    asyncio.run(refused())
