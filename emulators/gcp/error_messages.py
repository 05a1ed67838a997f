"""Error messages of the emulated APIs: Google's text where clients recognise errors by it, similar text elsewhere."""

from google.protobuf.duration_pb2 import Duration

from emulators.behaviour import Scope, region_of
from emulators.gcp.api_error import ApiError, Code, code_of
from emulators.gcp.behaviour import Quota
from emulators.gcp.faults import Failure, Fault
from emulators.gcp.protobufs import Message, error_details_pb2
from emulators.gcp.records import Api

_PERMISSIONS = {Api.TPU: "tpu.nodes.create", Api.COMPUTE: "compute.instances.create"}
_SERVICES = {Api.TPU: "tpu.googleapis.com", Api.COMPUTE: "compute.googleapis.com"}
_STOCKOUT_STATUS, _QUOTA_STATUS = 503, 403
STATUS_OF = {"QUOTA_EXCEEDED": _QUOTA_STATUS, "ZONE_RESOURCE_POOL_EXHAUSTED": _STOCKOUT_STATUS}
"""HTTP statuses of failed Compute operations, where they differ from 400."""


def error_info(reason: str, api: Api, **metadata: str) -> Message:
    """The machine-readable reason that Google adds to an error."""
    return error_details_pb2.ErrorInfo(reason=reason, domain="googleapis.com", metadata={"service": _SERVICES[api], **metadata})


def permission_denied(api: Api, scope: Scope, *, project: str, zone: str) -> ApiError:
    """The credentials lack the permission in the zone or the project."""
    info = error_info("IAM_PERMISSION_DENIED", api, permission=_PERMISSIONS[api])
    if scope is not Scope.PROJECT:
        return ApiError(Code.PERMISSION_DENIED, f"Location {zone} is not found or access is unauthorized.", info)
    if api is Api.TPU:
        message = f"Permission '{_PERMISSIONS[api]}' denied on 'projects/{project}/locations/{zone}' (or it may not exist)."
    else:
        message = f"Required '{_PERMISSIONS[api]}' permission for 'projects/{project}'"
    return ApiError(Code.PERMISSION_DENIED, message, info)


def invalid_field(field: str, value: str, why: str) -> ApiError:
    """A field with an invalid value."""
    return ApiError(Code.INVALID_ARGUMENT, f"Invalid value for field '{field}': '{value}'. {why}")


def unknown_type(zone: str, variant: str) -> ApiError:
    """An accelerator or machine type that the zone does not offer."""
    return ApiError(Code.INVALID_ARGUMENT, f"Type '{variant}' does not exist in zone '{zone}'.")


def rate_limited(api: Api, project: str, retry_after: float) -> ApiError:
    """More writes than the rate limit allows."""
    limit = f"Write requests per minute' of service '{_SERVICES[api]}' for consumer 'project_number:{project}'."
    message = f"Quota exceeded for quota metric 'Write requests' and limit '{limit}"
    return ApiError(Code.RESOURCE_EXHAUSTED, message, error_info("RATE_LIMIT_EXCEEDED", api), _retry_info(retry_after))


def quota_exceeded(api: Api, quota: Quota, *, zone: str, variant: str) -> Failure:
    """An exceeded quota; the TPU API sends it as a violation, Compute in the operation."""
    where = {Scope.ZONE: f"in zone {zone}", Scope.REGION: f"in region {region_of(zone)}", Scope.PROJECT: "globally"}[quota.scope]
    if api is Api.COMPUTE:
        metric = quota.metric or ("CPUS_ALL_REGIONS" if quota.scope is Scope.PROJECT else "INSTANCES")
        return Failure(code="QUOTA_EXCEEDED", message=f"Quota '{metric}' exceeded.  Limit: {float(quota.limit)} {where}.")
    reach = {Scope.ZONE: "PerProjectPerZone", Scope.REGION: "PerProjectPerRegion", Scope.PROJECT: "PerProject"}[quota.scope]
    metric = quota.metric or f"TPU{variant.split('-')[0].upper()}{reach}ForTPUAPI"
    message = f"Quota '{metric}' exhausted. Limit {quota.limit} {where}"
    return Failure(code=Code.RESOURCE_EXHAUSTED.value, message=message)


def quota_error(api: Api, failure: Failure, *, project: str, zone: str) -> ApiError:
    """An exceeded quota that refuses the call itself."""
    if api is Api.COMPUTE:
        return ApiError(Code.PERMISSION_DENIED, failure.message, reason="quotaExceeded")
    violation = error_details_pb2.QuotaFailure.Violation(
        subject=f"projects/{project}/locations/{zone}", description=failure.message
    )
    return ApiError(Code.RESOURCE_EXHAUSTED, "Quota limit exceeded", error_details_pb2.QuotaFailure(violations=[violation]))


def stockout(api: Api, *, project: str, zone: str, reserved: bool = False) -> Failure:
    """The zone has no capacity; always an error of the operation, never of the call."""
    if api is Api.COMPUTE:
        message = f"The zone 'projects/{project}/zones/{zone}' does not have enough resources available to fulfill the request."
        return Failure(code="ZONE_RESOURCE_POOL_EXHAUSTED", message=f"{message}  Try a different zone, or try again later.")
    if reserved:
        message = "Insufficient reserved capacity. Contact customer support to increase your reservation."
        return Failure(code=Code.FAILED_PRECONDITION.value, message=message)
    message = f'There is no more capacity in the zone "{zone}"; you can try in another zone where Cloud TPU Nodes are offered'
    return Failure(code=Code.RESOURCE_EXHAUSTED.value, message=f"{message} (see https://cloud.google.com/tpu/docs/regions)")


def min_count_not_reached(min_count: int) -> Failure:
    """A bulk insert that cannot create its minimum; the operation's other errors give the cause."""
    return Failure(code="VM_MIN_COUNT_NOT_REACHED", message=f"Requested minimum count of {min_count} VMs could not be created.")


def preempted_during_creation(api: Api, name: str) -> Failure:
    """The machine was preempted before it was ready."""
    if api is Api.COMPUTE:
        return Failure(code="UNSUPPORTED_OPERATION", message=f"Instance '{name}' creation failed: the instance was preempted.")
    message = "Cloud TPU received a bad request. update is not supported while in state PREEMPTED"
    return Failure(code=Code.INVALID_ARGUMENT.value, message=message)


def deleted_during_creation(api: Api, name: str) -> Failure:
    """The machine was deleted before it was ready."""
    code = "OPERATION_CANCELED_BY_USER" if api is Api.COMPUTE else Code.CANCELLED.value
    return Failure(code=code, message=f"The operation was cancelled: '{name}' was deleted.")


def error_of(fault: Fault, api: Api) -> ApiError:
    """The error that a fault sends."""
    code = Code[fault.code] if fault.code is not None else code_of(fault.status or 0)
    details: list[Message] = []
    if fault.quota_failure is not None:
        violation = error_details_pb2.QuotaFailure.Violation(description=fault.quota_failure)
        details.append(error_details_pb2.QuotaFailure(violations=[violation]))
    if fault.error_info is not None:
        details.append(error_info(fault.error_info, api))
    if fault.retry_after_seconds is not None:
        details.append(_retry_info(fault.retry_after_seconds))
    return ApiError(code, fault.message, *details, status=fault.status, reason=fault.reason)


def not_found(name: str) -> ApiError:
    """No resource has the name."""
    return ApiError(Code.NOT_FOUND, f"The resource '{name}' was not found")


def already_exists(name: str) -> ApiError:
    """Another resource has the name."""
    return ApiError(Code.ALREADY_EXISTS, f"The resource '{name}' already exists")


def _retry_info(seconds: float) -> Message:
    delay = Duration()
    delay.FromNanoseconds(int(seconds * 1e9))
    return error_details_pb2.RetryInfo(retry_delay=delay)
