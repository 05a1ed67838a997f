"""What a Compute call asks for, checked as Google checks it."""

import re
import uuid
from collections.abc import Mapping
from typing import Any

from emulators.gcp import rules, wording
from emulators.gcp.behaviour import Behaviour
from emulators.gcp.orders import Order
from emulators.gcp.records import Kind
from emulators.gcp.refusals import Code, Refusal

_MACHINE_TYPE = re.compile(r"(?:.*/)?(?P<type>[a-z][a-z0-9]*-[a-z0-9-]+)")
_NEVER_MIGRATING = ("a2-", "a3-", "a4-", "g2-", "ct")
"""Machine types with accelerators, which must end when their host is maintained."""
_MOST_AT_ONCE = 5000


def request_id_of(query: Mapping[str, str]) -> str | None:
    """The id that makes a call repeatable; it must be a UUID other than zero."""
    given = query.get("requestId")
    if not given:
        return None
    try:
        valid = uuid.UUID(given).int != 0
    except ValueError:
        valid = False
    if not valid:
        raise wording.malformed("requestId", given, "It must be a valid UUID other than zero.")
    return given


def instance_order(project: str, zone: str, body: Mapping[str, Any], behaviour: Behaviour) -> Order:
    """The order of one instance; refused with 400 if it is malformed."""
    name = str(body.get("name", ""))
    rules.check_name("resource.name", name)
    rules.check_labels("resource.labels", body.get("labels", {}))
    given = str(body.get("machineType", ""))
    match = _MACHINE_TYPE.fullmatch(given)
    if match is None:
        raise wording.malformed("resource.machineType", given, "The machine type is malformed or does not exist.")
    variant = match["type"]
    rules.check_offer(behaviour, zone, variant)
    for field in ("disks", "networkInterfaces"):
        if not body.get(field):
            raise wording.malformed(f"resource.{field}", "", "At least one must be specified.")
    scheduling = body.get("scheduling", {})
    if variant.startswith(_NEVER_MIGRATING) and scheduling.get("onHostMaintenance") != "TERMINATE":
        raise Refusal(
            Code.INVALID_ARGUMENT, "Instances with guest accelerators do not support live migration.", reason="badRequest"
        )
    _check_metadata(body.get("metadata", {}))
    waits = scheduling.get("provisioningModel") == "FLEX_START"
    if waits and not scheduling.get("maxRunDuration"):
        raise wording.malformed("resource.scheduling.maxRunDuration", "", "Flex-start instances need one.")
    valid = body.get("params", {}).get("requestValidForDuration", {}).get("seconds", 0)
    return Order(
        kind=Kind.INSTANCE,
        project=project,
        zone=zone,
        name=name,
        variant=variant,
        spot=scheduling.get("provisioningModel") == "SPOT" or bool(scheduling.get("preemptible")),
        stops_when_preempted=scheduling.get("instanceTerminationAction") != "DELETE",
        waits_seconds=float(valid) if waits else None,
        body=dict(body),
    )


def bulk_orders(project: str, zone: str, body: Mapping[str, Any], behaviour: Behaviour) -> tuple[list[Order], int]:
    """The orders of a bulk insert, and how many of them must come true."""
    count = _count(body, "count", 0)
    if not 1 <= count <= _MOST_AT_ONCE:
        raise wording.malformed("resource.count", str(count), f"It must be between 1 and {_MOST_AT_ONCE}.")
    least = _count(body, "minCount", count)
    if not 1 <= least <= count:
        raise wording.malformed("resource.minCount", str(least), "It must be between 1 and count.")
    properties = body.get("instanceProperties", {})
    if "/" in str(properties.get("machineType", "")):
        raise wording.malformed("instanceProperties.machineType", str(properties["machineType"]), "It must be a short name.")
    if properties.get("scheduling", {}).get("provisioningModel") == "FLEX_START":
        raise wording.malformed("instanceProperties.scheduling.provisioningModel", "FLEX_START", "Insert them one by one.")
    names = _names(body, count)
    single = body.get("perInstanceProperties", {})
    return [
        instance_order(project, zone, properties | {"name": single.get(n, {}).get("name") or n}, behaviour) for n in names
    ], least


def _names(body: Mapping[str, Any], count: int) -> list[str]:
    named, pattern = sorted(body.get("perInstanceProperties", {})), str(body.get("namePattern", ""))
    if named and len(named) != count:
        raise wording.malformed("resource.perInstanceProperties", str(len(named)), "There must be as many as count.")
    if named:
        return named
    match = re.fullmatch("([^#]*)(#+)([^#]*)", pattern)
    if match is None:
        raise wording.malformed("resource.namePattern", pattern, "It must have one run of #, or give perInstanceProperties.")
    head, run, tail = match.groups()
    return [f"{head}{number:0{len(run)}d}{tail}" for number in range(1, count + 1)]


def _count(body: Mapping[str, Any], field: str, default: int) -> int:
    given = str(body.get(field, default))
    if not given.isdecimal():
        raise wording.malformed(f"resource.{field}", given, "It must be a whole number.")
    return int(given)


def _check_metadata(metadata: Mapping[str, Any]) -> None:
    keys = [str(item.get("key", "")) for item in metadata.get("items", ())]
    for key in keys:
        if not re.fullmatch(r"[a-zA-Z0-9-_]{1,128}", key) or keys.count(key) > 1:
            raise wording.malformed("resource.metadata.items.key", key, "Keys must match [a-zA-Z0-9-_]{1,128}, each once.")
