"""Parse and validate Compute insert calls into machine specs, with Google's checks."""

import re
import uuid
from collections.abc import Mapping
from typing import Any

from emulators.gcp import admission
from emulators.gcp.api_error import ApiError, Code
from emulators.gcp.behaviour import Behaviour
from emulators.gcp.error_messages import invalid_field
from emulators.gcp.records import Kind
from emulators.gcp.specs import MachineSpec

_MACHINE_TYPE = re.compile(r"(?:.*/)?(?P<type>[a-z][a-z0-9]*-[a-z0-9-]+)")
_WITHOUT_MIGRATION = ("a2-", "a3-", "a4-", "g2-", "ct")
"""Machine types with accelerators, which must terminate on host maintenance."""
_MAX_BULK_COUNT = 5000


def request_id_of(query: Mapping[str, str]) -> str | None:
    """The request id, by which Google recognises a repeated call; it must be a UUID other than zero."""
    given = query.get("requestId")
    if not given:
        return None
    try:
        valid = uuid.UUID(given).int != 0
    except ValueError:
        valid = False
    if not valid:
        raise invalid_field("requestId", given, "It must be a valid UUID other than zero.")
    return given


def instance_spec(project: str, zone: str, body: Mapping[str, Any], behaviour: Behaviour) -> MachineSpec:
    """The spec of one instance; raises a 400 if the request is malformed."""
    name = str(body.get("name", ""))
    admission.check_name("resource.name", name)
    admission.check_labels("resource.labels", body.get("labels", {}))
    given = str(body.get("machineType", ""))
    match = _MACHINE_TYPE.fullmatch(given)
    if match is None:
        raise invalid_field("resource.machineType", given, "The machine type is malformed or does not exist.")
    variant = match["type"]
    admission.check_offered(behaviour, zone, variant)
    for field in ("disks", "networkInterfaces"):
        if not body.get(field):
            raise invalid_field(f"resource.{field}", "", "At least one must be specified.")
    scheduling = body.get("scheduling", {})
    if variant.startswith(_WITHOUT_MIGRATION) and scheduling.get("onHostMaintenance") != "TERMINATE":
        raise ApiError(
            Code.INVALID_ARGUMENT, "Instances with guest accelerators do not support live migration.", reason="badRequest"
        )
    _check_metadata(body.get("metadata", {}))
    flex_start = scheduling.get("provisioningModel") == "FLEX_START"
    if flex_start and not scheduling.get("maxRunDuration"):
        raise invalid_field("resource.scheduling.maxRunDuration", "", "Flex-start instances need one.")
    valid = body.get("params", {}).get("requestValidForDuration", {}).get("seconds", 0)
    return MachineSpec(
        kind=Kind.INSTANCE,
        project=project,
        zone=zone,
        name=name,
        variant=variant,
        spot=scheduling.get("provisioningModel") == "SPOT" or bool(scheduling.get("preemptible")),
        stops_when_preempted=scheduling.get("instanceTerminationAction") != "DELETE",
        pending_seconds=float(valid) if flex_start else None,
        body=dict(body),
    )


def bulk_specs(project: str, zone: str, body: Mapping[str, Any], behaviour: Behaviour) -> tuple[list[MachineSpec], int]:
    """The specs of a bulk insert, and how many of them it must create at least."""
    count = _count(body, "count", 0)
    if not 1 <= count <= _MAX_BULK_COUNT:
        raise invalid_field("resource.count", str(count), f"It must be between 1 and {_MAX_BULK_COUNT}.")
    min_count = _count(body, "minCount", count)
    if not 1 <= min_count <= count:
        raise invalid_field("resource.minCount", str(min_count), "It must be between 1 and count.")
    properties = body.get("instanceProperties", {})
    if "/" in str(properties.get("machineType", "")):
        raise invalid_field("instanceProperties.machineType", str(properties["machineType"]), "It must be a short name.")
    if properties.get("scheduling", {}).get("provisioningModel") == "FLEX_START":
        raise invalid_field("instanceProperties.scheduling.provisioningModel", "FLEX_START", "Insert them one by one.")
    names = _names(body, count)
    per_instance = body.get("perInstanceProperties", {})
    return [
        instance_spec(project, zone, properties | {"name": per_instance.get(n, {}).get("name") or n}, behaviour) for n in names
    ], min_count


def _names(body: Mapping[str, Any], count: int) -> list[str]:
    named, pattern = sorted(body.get("perInstanceProperties", {})), str(body.get("namePattern", ""))
    if named and len(named) != count:
        raise invalid_field("resource.perInstanceProperties", str(len(named)), "There must be as many as count.")
    if named:
        return named
    match = re.fullmatch("([^#]*)(#+)([^#]*)", pattern)
    if match is None:
        raise invalid_field("resource.namePattern", pattern, "It must have one run of #, or give perInstanceProperties.")
    head, run, tail = match.groups()
    return [f"{head}{number:0{len(run)}d}{tail}" for number in range(1, count + 1)]


def _count(body: Mapping[str, Any], field: str, default: int) -> int:
    given = str(body.get(field, default))
    if not given.isdecimal():
        raise invalid_field(f"resource.{field}", given, "It must be a whole number.")
    return int(given)


def _check_metadata(metadata: Mapping[str, Any]) -> None:
    keys = [str(item.get("key", "")) for item in metadata.get("items", ())]
    for key in keys:
        if not re.fullmatch(r"[a-zA-Z0-9-_]{1,128}", key) or keys.count(key) > 1:
            raise invalid_field("resource.metadata.items.key", key, "Keys must match [a-zA-Z0-9-_]{1,128}, each once.")
