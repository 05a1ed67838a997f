"""Google's known errors as its clients raise them, by the name of their row in docs/gcp.md."""

from collections.abc import Callable
from typing import Any

import requests
from google.api_core import exceptions as api_exceptions
from google.auth import exceptions as auth_exceptions
from google.cloud import compute_v1
from google.longrunning import operations_pb2  # type: ignore[import-untyped]
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from activities.providers.gcp.error_codes import Meaning
from activities.providers.gcp.errors import Fault, fault_of, fault_of_errors, fault_of_status
from activities.providers.port import Scope

api: Any = api_exceptions
auth: Any = auth_exceptions
IN_ZONE = 'There is no more capacity in the zone "us-central2-b"; you can try in another zone where Cloud TPU Nodes are offered'
NO_ROOM = "The zone 'projects/p/zones/us-central1-a' does not have enough resources available to fulfill the request."
UNAVAILABLE = "A a2-highgpu-1g VM instance with 1 accelerator(s) is currently unavailable in the us-central1-a zone."
PLUGIN = "Getting metadata from plugin failed with error: "
IN_BOTH = (
    "Quota limit 'TPUV2sPodPerProjectPerRegionForTPUAPI,TPUV2sPodPerProjectPerZoneForTPUAPI' has been exceeded. "
    "Limit: 0,0 in region us-central1,zone us-central1-a."
)
PER_MINUTE = (
    "Quota exceeded for quota metric 'Write requests' and limit 'Write requests per minute' of service 'tpu.googleapis.com'"
)


def replied(kind: Any, message: str = "message", *details: Any) -> Fault:
    """As a gRPC reply is raised."""
    return fault_of(kind(message, errors=(object(),), details=list(details)))


def in_operation(code: int, message: str, *details: Any) -> Fault:
    """As a TPU operation has it."""
    status = status_pb2.Status(code=code, message=message)
    for detail in details:
        status.details.add().Pack(detail)
    return fault_of_status(status)


def from_future(code: int, message: str) -> Fault:
    """As the future of an asynchronous client raises it: no class, no code."""
    operation = operations_pb2.Operation(done=True, error=status_pb2.Status(code=code, message=message))
    return fault_of(api.GoogleAPICallError(message, errors=(operation.error,), response=operation))


def from_compute(status: int, reason: str | None = None, message: str = "message", *details: dict[str, Any]) -> Fault:
    """As a reply of the Compute API is raised."""
    errors = [{"reason": reason, "message": message, "domain": "global"}] if reason else []
    return fault_of(api.from_http_status(status, message, errors=errors, details=list(details)))


def in_compute_operation(*entries: tuple[str, str], http: int = 400) -> Fault:
    """As an operation of the Compute API has it."""
    fault = fault_of_errors([compute_v1.Errors(code=code, message=message) for code, message in entries], http=http)
    assert fault is not None
    return fault


def limited_by(limit_name: str) -> Fault:
    """As an operation of the Compute API has a quota whose scope is only in the limit's name."""
    detail = compute_v1.ErrorDetails(quota_info=compute_v1.QuotaExceededInfo(limit_name=limit_name, limit=1.0))
    fault = fault_of_errors([compute_v1.Errors(code="QUOTA_EXCEEDED", message="message", error_details=[detail])], http=403)
    assert fault is not None
    return fault


def from_compute_future(status: int, *entries: tuple[str, str]) -> Fault:
    """As the future of the Compute client raises it: by the HTTP status, which misleads."""
    errors = [compute_v1.Errors(code=code, message=message) for code, message in entries]
    return fault_of(api.from_http_status(status, "message", errors=errors))


def violation(description: str) -> Any:
    return error_details_pb2.QuotaFailure(violations=[error_details_pb2.QuotaFailure.Violation(description=description)])


def reason(name: str) -> Any:
    return error_details_pb2.ErrorInfo(reason=name, domain="googleapis.com")


ZONE, REGION, PROJECT = Scope.ZONE, Scope.REGION, Scope.PROJECT
M = Meaning
Row = tuple[Callable[[], Fault], Meaning, Scope]

ROWS: dict[str, list[Row]] = {
    "tpu-stockout": [
        (lambda: in_operation(8, IN_ZONE), M.STOCKOUT, ZONE),
        (lambda: from_future(8, IN_ZONE), M.STOCKOUT, ZONE),
        (lambda: in_operation(8, ""), M.STOCKOUT, ZONE),
        (lambda: in_operation(2, IN_ZONE), M.STOCKOUT, ZONE),
        (lambda: in_operation(4, IN_ZONE), M.STOCKOUT, ZONE),
        (lambda: in_operation(13, IN_ZONE), M.STOCKOUT, ZONE),
        (lambda: replied(api.ServiceUnavailable, IN_ZONE), M.STOCKOUT, ZONE),
    ],
    "tpu-reservation-empty": [(lambda: in_operation(9, "Insufficient reserved capacity. Contact support."), M.STOCKOUT, ZONE)],
    "tpu-quota-zone": [
        (
            lambda: replied(
                api.ResourceExhausted, "Quota limit exceeded", violation("'TPUV4PerProjectPerZoneForTPUAPI' exhausted")
            ),
            M.QUOTA,
            ZONE,
        ),
        (lambda: in_operation(8, "message", violation("Limit 8 in zone us-central2-b")), M.QUOTA, ZONE),
    ],
    "tpu-quota-region": [
        (lambda: replied(api.ResourceExhausted, "message", violation("Limit 8 in region us-central2")), M.QUOTA, REGION),
        (lambda: in_operation(8, IN_BOTH), M.QUOTA, REGION),
    ],
    "tpu-quota-project": [
        (
            lambda: replied(api.ResourceExhausted, "message", violation("'TPUV4PerProject' exhausted. Limit 8 globally")),
            M.QUOTA,
            PROJECT,
        )
    ],
    "tpu-rate": [
        (lambda: replied(api.ResourceExhausted, PER_MINUTE), M.RATE, ZONE),
        (lambda: replied(api.ResourceExhausted, "message", reason("RATE_LIMIT_EXCEEDED")), M.RATE, ZONE),
        (lambda: in_operation(8, "RATE_LIMIT_EXCEEDED"), M.RATE, ZONE),
    ],
    "tpu-transient": [
        (lambda: replied(api.ServiceUnavailable), M.TRANSIENT, ZONE),
        (lambda: replied(api.DeadlineExceeded), M.TRANSIENT, ZONE),
        (lambda: replied(api.InternalServerError), M.TRANSIENT, ZONE),
        (lambda: replied(api.Unknown), M.TRANSIENT, ZONE),
        (lambda: in_operation(13, "internal"), M.TRANSIENT, ZONE),
    ],
    "tpu-exists": [(lambda: replied(api.AlreadyExists), M.EXISTS, ZONE)],
    "tpu-not-found": [(lambda: replied(api.NotFound), M.NOT_FOUND, ZONE)],
    "tpu-preempted-early": [
        (lambda: in_operation(3, "update is not supported while in state PREEMPTED"), M.PREEMPTED, ZONE),
        (lambda: from_future(3, "update is not supported while in state PREEMPTED"), M.PREEMPTED, ZONE),
    ],
    "tpu-busy": [
        (lambda: replied(api.FailedPrecondition, "unable to queue the operation"), M.BUSY, ZONE),
        (lambda: replied(api.Aborted), M.BUSY, ZONE),
    ],
    "tpu-invalid": [
        (lambda: replied(api.InvalidArgument), M.INVALID, ZONE),
        (lambda: replied(api.OutOfRange), M.INVALID, ZONE),
        (lambda: replied(api.MethodNotImplemented), M.INVALID, ZONE),
        (lambda: in_operation(3, "accelerator type v9-8 is unknown"), M.INVALID, ZONE),
    ],
    "tpu-permission": [
        (lambda: replied(api.PermissionDenied, "Permission 'tpu.nodes.create' denied"), M.PERMISSION, PROJECT),
        (lambda: replied(api.Unauthenticated), M.PERMISSION, PROJECT),
        (lambda: replied(api.PermissionDenied, "message", reason("SERVICE_DISABLED")), M.PERMISSION, PROJECT),
    ],
    "tpu-permission-zone": [
        (lambda: replied(api.PermissionDenied, "Location us-x is not found or access is unauthorized."), M.PERMISSION, ZONE)
    ],
    "gce-stockout": [
        (lambda: in_compute_operation(("ZONE_RESOURCE_POOL_EXHAUSTED", NO_ROOM), http=503), M.STOCKOUT, ZONE),
        (lambda: in_compute_operation(("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", NO_ROOM), http=503), M.STOCKOUT, ZONE),
        (lambda: from_compute(503, "insufficientCapacity"), M.STOCKOUT, ZONE),
    ],
    "gce-stockout-as-503": [
        (lambda: from_compute_future(503, ("ZONE_RESOURCE_POOL_EXHAUSTED", NO_ROOM)), M.STOCKOUT, ZONE),
        (lambda: fault_of(api.ServiceUnavailable(NO_ROOM)), M.STOCKOUT, ZONE),
        (lambda: from_compute(503, "backendError", NO_ROOM), M.STOCKOUT, ZONE),
        (lambda: in_compute_operation(("INTERNAL_ERROR", NO_ROOM), http=503), M.STOCKOUT, ZONE),
        (lambda: fault_of(api.ServiceUnavailable(UNAVAILABLE)), M.STOCKOUT, ZONE),
        (lambda: fault_of(api.InternalServerError(UNAVAILABLE)), M.STOCKOUT, ZONE),
        (lambda: in_compute_operation(("INTERNAL_ERROR", UNAVAILABLE), http=500), M.STOCKOUT, ZONE),
    ],
    "gce-stockout-unknown": [
        (lambda: from_compute(503, "somethingNew", NO_ROOM), M.STOCKOUT, ZONE),
        (lambda: in_compute_operation(("SOMETHING_NEW", NO_ROOM), http=400), M.STOCKOUT, ZONE),
    ],
    "gce-quota": [
        (
            lambda: in_compute_operation(
                ("QUOTA_EXCEEDED", "Quota 'CPUS' exceeded.  Limit: 24.0 in region us-central1."), http=403
            ),
            M.QUOTA,
            REGION,
        ),
        (
            lambda: in_compute_operation(
                ("QUOTA_EXCEEDED", "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally."), http=403
            ),
            M.QUOTA,
            PROJECT,
        ),
        (
            lambda: in_compute_operation(("QUOTA_EXCEEDED", "Quota exceeded.  Limit: 1.0 in zone us-central1-a."), http=403),
            M.QUOTA,
            ZONE,
        ),
        (lambda: limited_by("NVIDIA-L4-GPUS-per-project-region"), M.QUOTA, REGION),
        (lambda: limited_by("LOCAL-SSD-per-project-zone"), M.QUOTA, ZONE),
        (lambda: limited_by("CPUS-ALL-REGIONS-per-project"), M.QUOTA, PROJECT),
        (lambda: limited_by("NETWORKS-per-project"), M.QUOTA, PROJECT),
    ],
    "gce-quota-as-403": [
        (
            lambda: from_compute(403, "quotaExceeded", "Quota 'CPUS' exceeded.  Limit: 24.0 in region us-central1."),
            M.QUOTA,
            REGION,
        ),
        (lambda: from_compute_future(403, ("QUOTA_EXCEEDED", "Quota 'CPUS' exceeded. Limit: 1.0 in region r.")), M.QUOTA, REGION),
        (lambda: fault_of(api.Forbidden("Quota 'CPUS' exceeded. Limit: 1.0 in region r.")), M.QUOTA, REGION),
        (lambda: from_compute(403, "somethingNew", "Quota 'CPUS' exceeded. Limit: 1.0 in region r."), M.QUOTA, REGION),
        (lambda: in_compute_operation(("SOMETHING_NEW", "Quota exceeded in zone z"), http=403), M.QUOTA, ZONE),
    ],
    "gce-rate": [
        (lambda: from_compute(429), M.RATE, ZONE),
        (lambda: from_compute(403, "rateLimitExceeded"), M.RATE, ZONE),
        (lambda: in_compute_operation(("RESOURCE_OPERATION_RATE_EXCEEDED", "message")), M.RATE, ZONE),
    ],
    "gce-transient": [
        (lambda: from_compute(500), M.TRANSIENT, ZONE),
        (lambda: from_compute(502), M.TRANSIENT, ZONE),
        (lambda: from_compute(503, "backendError"), M.TRANSIENT, ZONE),
        (lambda: from_compute(504), M.TRANSIENT, ZONE),
        (lambda: in_compute_operation(("INTERNAL_ERROR", "message"), http=500), M.TRANSIENT, ZONE),
    ],
    "no-answer": [
        (lambda: fault_of(requests.ReadTimeout("read timed out")), M.TRANSIENT, ZONE),
        (lambda: fault_of(requests.ConnectionError("refused")), M.TRANSIENT, ZONE),
        (lambda: fault_of(auth.TransportError("no route")), M.TRANSIENT, ZONE),
        (lambda: fault_of(ConnectionResetError("reset")), M.TRANSIENT, ZONE),
        (
            lambda: fault_of(auth.RefreshError(auth.TransportError("Compute Engine Metadata server unavailable."))),
            M.TRANSIENT,
            ZONE,
        ),
        (lambda: replied(api.ServiceUnavailable, f"{PLUGIN}('invalid_grant: Bad Request',)"), M.TRANSIENT, ZONE),
    ],
    "gce-exists": [
        (lambda: from_compute(409, "alreadyExists"), M.EXISTS, ZONE),
        (lambda: in_compute_operation(("RESOURCE_ALREADY_EXISTS", "message"), http=409), M.EXISTS, ZONE),
    ],
    "gce-not-found": [(lambda: from_compute(404, "notFound"), M.NOT_FOUND, ZONE)],
    "gce-preempted-early": [
        (lambda: in_compute_operation(("UNSUPPORTED_OPERATION", "the instance was preempted.")), M.PREEMPTED, ZONE),
        (lambda: in_compute_operation(("UNSUPPORTED_OPERATION", "")), M.PREEMPTED, ZONE),
        (lambda: in_compute_operation(("UNSUPPORTED_OPERATION", "The instance is in state STOPPING.")), M.PREEMPTED, ZONE),
        (
            lambda: in_compute_operation(("UNSUPPORTED_OPERATION", "This is not supported: the instance was preempted.")),
            M.PREEMPTED,
            ZONE,
        ),
    ],
    "gce-busy": [
        (lambda: in_compute_operation(("RESOURCE_NOT_READY", "message")), M.BUSY, ZONE),
        (lambda: from_compute(412, "conditionNotMet"), M.BUSY, ZONE),
        (lambda: from_compute(412), M.BUSY, ZONE),
    ],
    "gce-invalid": [
        (lambda: from_compute(400, "invalid"), M.INVALID, ZONE),
        (lambda: from_compute(400), M.INVALID, ZONE),
        (lambda: in_compute_operation(("INVALID_FIELD_VALUE", "message")), M.INVALID, ZONE),
        (lambda: in_compute_operation(("SOMETHING_NEW", "message"), http=400), M.INVALID, ZONE),
        (
            lambda: in_compute_operation(("UNSUPPORTED_OPERATION", "[g2-standard-4, pd-standard] features are not compatible.")),
            M.INVALID,
            ZONE,
        ),
        (lambda: from_compute(400, "UNSUPPORTED_OPERATION", "Flex-start is not supported in this zone."), M.INVALID, ZONE),
        (lambda: in_compute_operation(("UNSUPPORTED_OPERATION", "The zone does not support pd-extreme.")), M.INVALID, ZONE),
    ],
    "gce-permission": [
        (
            lambda: from_compute(403, "forbidden", "Required 'compute.instances.create' permission for 'projects/p'"),
            M.PERMISSION,
            PROJECT,
        ),
        (lambda: from_compute(401, "authError"), M.PERMISSION, PROJECT),
        (lambda: from_compute(403, "accessNotConfigured"), M.PERMISSION, PROJECT),
        (lambda: from_compute(403, "forbidden", "The API requires a quota project, which is not set."), M.PERMISSION, PROJECT),
        (lambda: from_compute(403, "somethingNew"), M.PERMISSION, PROJECT),
    ],
    "gce-too-few": [
        (
            lambda: in_compute_operation(
                ("VM_MIN_COUNT_NOT_REACHED", "message"),
                ("QUOTA_EXCEEDED", "Quota 'CPUS' exceeded. Limit: 1.0 in region r."),
                http=403,
            ),
            M.QUOTA,
            REGION,
        ),
        (
            lambda: in_compute_operation(("VM_MIN_COUNT_NOT_REACHED", "message"), ("INVALID_FIELD_VALUE", "message")),
            M.INVALID,
            ZONE,
        ),
        (lambda: in_compute_operation(("VM_MIN_COUNT_NOT_REACHED", "message")), M.STOCKOUT, ZONE),
    ],
    "no-credentials": [
        (lambda: fault_of(auth.DefaultCredentialsError("none found")), M.PERMISSION, PROJECT),
        (lambda: fault_of(auth.RefreshError("invalid_grant")), M.PERMISSION, PROJECT),
        (lambda: fault_of(auth.OAuthError("invalid_target")), M.PERMISSION, PROJECT),
    ],
}
