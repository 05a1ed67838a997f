"""What goes wrong, in Google's words where callers tell cases apart by them, and in its manner elsewhere."""

from google.protobuf.duration_pb2 import Duration

from emulators.gcp.behaviour import Failure, Fault, Quota, Scope
from emulators.gcp.messages import Message, error_details_pb2
from emulators.gcp.records import Api
from emulators.gcp.refusals import Code, Refusal, code_of

_PERMISSIONS = {Api.TPU: "tpu.nodes.create", Api.COMPUTE: "compute.instances.create"}
_SERVICES = {Api.TPU: "tpu.googleapis.com", Api.COMPUTE: "compute.googleapis.com"}
_STOCKOUT_STATUS, _QUOTA_STATUS = 503, 403
STATUS_OF = {"QUOTA_EXCEEDED": _QUOTA_STATUS, "ZONE_RESOURCE_POOL_EXHAUSTED": _STOCKOUT_STATUS}
"""HTTP statuses that Compute gives for failed operations, where it is not a plain 400."""


def region_of(zone: str) -> str:
    """The zone without its last part."""
    return zone.rsplit("-", 1)[0]


def error_info(reason: str, api: Api, **metadata: str) -> Message:
    """The machine-readable reason that Google adds to a refusal."""
    return error_details_pb2.ErrorInfo(reason=reason, domain="googleapis.com", metadata={"service": _SERVICES[api], **metadata})


def denied(api: Api, scope: Scope, *, project: str, zone: str) -> Refusal:
    """The credentials do not reach there."""
    info = error_info("IAM_PERMISSION_DENIED", api, permission=_PERMISSIONS[api])
    if scope is not Scope.PROJECT:
        return Refusal(Code.PERMISSION_DENIED, f"Location {zone} is not found or access is unauthorized.", info)
    if api is Api.TPU:
        told = f"Permission '{_PERMISSIONS[api]}' denied on 'projects/{project}/locations/{zone}' (or it may not exist)."
    else:
        told = f"Required '{_PERMISSIONS[api]}' permission for 'projects/{project}'"
    return Refusal(Code.PERMISSION_DENIED, told, info)


def malformed(field: str, value: str, why: str) -> Refusal:
    """A field that the API does not take."""
    return Refusal(Code.INVALID_ARGUMENT, f"Invalid value for field '{field}': '{value}'. {why}")


def unknown_type(zone: str, variant: str) -> Refusal:
    """An accelerator or machine type that the zone does not know."""
    return Refusal(Code.INVALID_ARGUMENT, f"Type '{variant}' does not exist in zone '{zone}'.")


def too_hasty(api: Api, project: str, retry_after: float) -> Refusal:
    """More writes than a minute allows."""
    limit = f"Write requests per minute' of service '{_SERVICES[api]}' for consumer 'project_number:{project}'."
    told = f"Quota exceeded for quota metric 'Write requests' and limit '{limit}"
    return Refusal(Code.RESOURCE_EXHAUSTED, told, error_info("RATE_LIMIT_EXCEEDED", api), _retry_info(retry_after))


def beyond_quota(api: Api, quota: Quota, *, zone: str, variant: str) -> Failure:
    """More than the owner may have; the TPU API sends it as a violation, Compute in its operation."""
    where = {Scope.ZONE: f"in zone {zone}", Scope.REGION: f"in region {region_of(zone)}", Scope.PROJECT: "globally"}[quota.scope]
    if api is Api.COMPUTE:
        metric = quota.metric or ("CPUS_ALL_REGIONS" if quota.scope is Scope.PROJECT else "INSTANCES")
        return Failure(code="QUOTA_EXCEEDED", message=f"Quota '{metric}' exceeded.  Limit: {float(quota.limit)} {where}.")
    reach = {Scope.ZONE: "PerProjectPerZone", Scope.REGION: "PerProjectPerRegion", Scope.PROJECT: "PerProject"}[quota.scope]
    metric = quota.metric or f"TPU{variant.split('-')[0].upper()}{reach}ForTPUAPI"
    told = f"Quota '{metric}' exhausted. Limit {quota.limit} {where}"
    return Failure(code=Code.RESOURCE_EXHAUSTED.value, message=told)


def quota_refusal(api: Api, failure: Failure, *, project: str, zone: str) -> Refusal:
    """A quota that refuses the call itself."""
    if api is Api.COMPUTE:
        return Refusal(Code.PERMISSION_DENIED, failure.message, reason="quotaExceeded")
    violation = error_details_pb2.QuotaFailure.Violation(
        subject=f"projects/{project}/locations/{zone}", description=failure.message
    )
    return Refusal(Code.RESOURCE_EXHAUSTED, "Quota limit exceeded", error_details_pb2.QuotaFailure(violations=[violation]))


def no_capacity(api: Api, *, project: str, zone: str, reserved: bool = False) -> Failure:
    """Nothing to give: an error in the operation, never in the reply."""
    if api is Api.COMPUTE:
        told = f"The zone 'projects/{project}/zones/{zone}' does not have enough resources available to fulfill the request."
        return Failure(code="ZONE_RESOURCE_POOL_EXHAUSTED", message=f"{told}  Try a different zone, or try again later.")
    if reserved:
        told = "Insufficient reserved capacity. Contact customer support to increase your reservation."
        return Failure(code=Code.FAILED_PRECONDITION.value, message=told)
    told = f'There is no more capacity in the zone "{zone}"; you can try in another zone where Cloud TPU Nodes are offered'
    return Failure(code=Code.RESOURCE_EXHAUSTED.value, message=f"{told} (see https://cloud.google.com/tpu/docs/regions)")


def too_few(least: int) -> Failure:
    """A bulk insert that could not make as many as it must; why, its other errors say."""
    return Failure(code="VM_MIN_COUNT_NOT_REACHED", message=f"Requested minimum count of {least} VMs could not be created.")


def preempted_early(api: Api, name: str) -> Failure:
    """Taken away before it was ready."""
    if api is Api.COMPUTE:
        return Failure(code="UNSUPPORTED_OPERATION", message=f"Instance '{name}' creation failed: the instance was preempted.")
    told = "Cloud TPU received a bad request. update is not supported while in state PREEMPTED"
    return Failure(code=Code.INVALID_ARGUMENT.value, message=told)


def deleted_early(api: Api, name: str) -> Failure:
    """Deleted before it was ready."""
    code = "OPERATION_CANCELED_BY_USER" if api is Api.COMPUTE else Code.CANCELLED.value
    return Failure(code=code, message=f"The operation was cancelled: '{name}' was deleted.")


def refusal_of(fault: Fault, api: Api) -> Refusal:
    """What a fault answers."""
    code = Code[fault.code] if fault.code is not None else code_of(fault.status or 0)
    details: list[Message] = []
    if fault.quota_failure is not None:
        violation = error_details_pb2.QuotaFailure.Violation(description=fault.quota_failure)
        details.append(error_details_pb2.QuotaFailure(violations=[violation]))
    if fault.error_info is not None:
        details.append(error_info(fault.error_info, api))
    if fault.retry_after_seconds is not None:
        details.append(_retry_info(fault.retry_after_seconds))
    return Refusal(code, fault.message, *details, status=fault.status, reason=fault.reason)


def _retry_info(seconds: float) -> Message:
    delay = Duration()
    delay.FromNanoseconds(int(seconds * 1e9))
    return error_details_pb2.RetryInfo(retry_delay=delay)
