"""Instances and operations as JSON of the Compute API."""

import base64
import hashlib
from datetime import datetime
from typing import Any

from emulators.gcp.api_error import HTTP_OF, Code
from emulators.gcp.records import Machine, Operation, Stage

ROOT = "https://www.googleapis.com/compute/v1"
_FIRST_ID = 10**18
_STATUSES = {
    Stage.PENDING: "PENDING",
    Stage.PROVISIONING: "PROVISIONING",
    Stage.STAGING: "STAGING",
    Stage.RUNNING: "RUNNING",
    Stage.REPAIRING: "REPAIRING",
    Stage.STOPPING: "STOPPING",
    Stage.PREEMPTED: "TERMINATED",
    Stage.DELETING: "STOPPING",
    Stage.GONE: "TERMINATED",
}
_STATUS_MESSAGES = {400: "BAD REQUEST", 403: "FORBIDDEN", 404: "NOT FOUND", 409: "CONFLICT", 503: "SERVICE UNAVAILABLE"}


def zone_link(project: str, zone: str) -> str:
    """The URL of a zone."""
    return f"{ROOT}/projects/{project}/zones/{zone}"


def instance_json(machine: Machine, now: datetime) -> dict[str, Any]:
    """An instance in its current state."""
    zone = zone_link(machine.project, machine.zone)
    interfaces = [dict(interface) for interface in machine.body.get("networkInterfaces", [{}])]
    if machine.has_addresses(now):
        for interface, address in zip(interfaces, machine.addresses, strict=False):
            interface["networkIP"] = address
    shown = machine.body | {
        "kind": "compute#instance",
        "id": str(_FIRST_ID + machine.number),
        "name": machine.name,
        "zone": zone,
        "selfLink": f"{zone}/instances/{machine.name}",
        "machineType": f"{zone}/machineTypes/{machine.variant}",
        "status": _STATUSES[machine.stage(now)],
        "creationTimestamp": machine.created_at.isoformat(timespec="milliseconds"),
        "labelFingerprint": fingerprint(machine),
        "networkInterfaces": interfaces,
    }
    if machine.stage(now) is Stage.REPAIRING and machine.repaired_at is not None:
        about = {"type": "SCHEDULED", "maintenanceStatus": "ONGOING", "windowEndTime": machine.repaired_at.isoformat()}
        shown["resourceStatus"] = {"upcomingMaintenance": about}
    return shown


def fingerprint(machine: Machine) -> str:
    """Hash of the labels, with which Compute detects concurrent changes to them."""
    text = ",".join(f"{key}={value}" for key, value in sorted(machine.labels.items()))
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def operation_json(operation: Operation, now: datetime) -> dict[str, Any]:
    """An operation in its current state."""
    zone, done = zone_link(operation.project, operation.zone), operation.done(now)
    shown: dict[str, Any] = {
        "kind": "compute#operation",
        "id": str(_FIRST_ID + operation.number),
        "name": operation.name,
        "operationType": operation.verb,
        "status": "DONE" if done else "RUNNING",
        "progress": 100 if done else 0,
        "user": "system" if operation.by_system else "user@example.com",
        "insertTime": operation.created_at.isoformat(timespec="milliseconds"),
        "startTime": operation.created_at.isoformat(timespec="milliseconds"),
        "targetLink": f"{ROOT}/{operation.target}",
        "zone": zone,
        "selfLink": f"{zone}/operations/{operation.name}",
    }
    if operation.request_id is not None:
        shown["clientOperationId"] = operation.request_id
    if operation.by_system:
        shown["statusMessage"] = "Instance was preempted."
    if operation.verb == "bulkInsert":
        per_location = {f"zones/{operation.zone}": _bulk_counts(operation, done=done)}
        shown["instancesBulkInsertOperationMetadata"] = {"perLocationStatus": per_location}
    return shown | _outcome(operation) if done else shown


def _bulk_counts(operation: Operation, *, done: bool) -> dict[str, Any]:
    """Progress of a bulk insert."""
    requested, created = operation.requested_count or 0, operation.created_count or 0
    if not done:
        return {"status": "CREATING", "targetVmCount": requested}
    counts = {"createdVmCount": created, "failedToCreateVmCount": requested - created}
    return {"status": "DONE", "targetVmCount": requested, **counts}


def _outcome(operation: Operation) -> dict[str, Any]:
    """End time and errors of an operation that is done."""
    ended = {"endTime": operation.done_at.isoformat(timespec="milliseconds")}
    if not operation.failures:
        return ended
    status = operation.status or HTTP_OF[Code.INVALID_ARGUMENT][0]
    errors = [{"code": str(failure.code), "message": failure.message} for failure in operation.failures]
    message = _STATUS_MESSAGES.get(status, "ERROR")
    return ended | {"httpErrorStatusCode": status, "httpErrorMessage": message, "error": {"errors": errors}}
