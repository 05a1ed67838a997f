"""Parse and validate TPU create calls into machine specs, with Google's checks."""

import math
import re
from typing import Any

from google.cloud import tpu_v2

from emulators.gcp import admission, error_messages
from emulators.gcp.api_error import ApiError, Code
from emulators.gcp.behaviour import Behaviour
from emulators.gcp.records import Key, Kind
from emulators.gcp.specs import MachineSpec
from emulators.gcp.tpu_messages import body_of
from penstock.model.tpu import tpu_variant

_PARENT = re.compile(r"projects/(?P<project>[^/]+)/locations/(?P<zone>[^/]+)")
_MEMBER = re.compile(r"projects/(?P<project>[^/]+)/locations/(?P<zone>[^/]+)/(?P<kind>nodes|queuedResources)/(?P<name>[^/]+)")
_ZONE = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_CONFIGURED = {"V4": ("v4", 2), "V5P": ("v5p", 2), "V5LITE_POD": ("v5litepod", 1), "V6E": ("v6e", 1)}
"""Family and cores per chip by accelerator_config.type."""
_KINDS = {"nodes": Kind.NODE, "queuedResources": Kind.QUEUED}
ALL_ZONES = "-"
"""Stands for every zone in the parent of a list call."""


def project_and_zone(parent: str, *, all_zones: bool = False) -> tuple[str, str]:
    """Project and zone of a parent name."""
    match = _PARENT.fullmatch(parent)
    if match is None or not (_ZONE.fullmatch(match["zone"]) or (all_zones and match["zone"] == ALL_ZONES)):
        raise error_messages.invalid_field("parent", parent, "It must be of the form projects/PROJECT/locations/ZONE.")
    return match["project"], match["zone"]


def key_of(name: str, kind: Kind) -> Key:
    """The key of a resource name."""
    match = _MEMBER.fullmatch(name)
    if match is None or _KINDS[match["kind"]] is not kind:
        plural = {known: spelt for spelt, known in _KINDS.items()}[kind]
        raise error_messages.invalid_field("name", name, f"It must be of the form projects/PROJECT/locations/ZONE/{plural}/NAME.")
    return Key(kind, match["project"], match["zone"], match["name"])


def node_spec(parent: str, node_id: str, node: tpu_v2.Node, behaviour: Behaviour, *, spot: bool = False) -> MachineSpec:
    """The spec of one node; raises INVALID_ARGUMENT if the request is malformed."""
    project, zone = project_and_zone(parent)
    admission.check_name("node_id", node_id)
    body = body_of(node)
    admission.check_labels("node.labels", body.get("labels", {}))
    if not node.runtime_version:
        raise error_messages.invalid_field("node.runtime_version", "", "A runtime version is required.")
    variant = _variant(body)
    shape = tpu_variant(variant)
    admission.check_offered(behaviour, zone, variant)
    if shape is None:
        raise error_messages.unknown_type(zone, variant)
    scheduling = node.scheduling_config
    return MachineSpec(
        kind=Kind.NODE,
        project=project,
        zone=zone,
        name=node_id,
        variant=variant,
        hosts=shape.hosts,
        spot=spot or scheduling.spot or scheduling.preemptible,
        reserved=scheduling.reserved,
        body=body,
    )


def queued_specs(project: str, zone: str, name: str, queued: tpu_v2.QueuedResource, behaviour: Behaviour) -> list[MachineSpec]:
    """The specs of a queued resource's nodes."""
    specs: list[MachineSpec] = []
    for wanted in queued.tpu.node_spec:
        if wanted.parent != f"projects/{project}/locations/{zone}":
            raise error_messages.invalid_field("node_spec.parent", wanted.parent, "It must be the parent of the queued resource.")
        several = wanted.multislice_params
        if bool(wanted.node_id) == bool(several.node_count):
            raise ApiError(Code.INVALID_ARGUMENT, "Give either node_id or multislice_params of a node_spec.")
        prefix = several.node_id_prefix or name
        names = [wanted.node_id] if wanted.node_id else [f"{prefix}-{number}" for number in range(several.node_count)]
        specs += [node_spec(wanted.parent, node_id, wanted.node, behaviour, spot="spot" in queued) for node_id in names]
    if not specs:
        raise ApiError(Code.INVALID_ARGUMENT, "A queued resource needs at least one node_spec.")
    if len({spec.name for spec in specs}) < len(specs):
        raise ApiError(Code.INVALID_ARGUMENT, "The nodes of a queued resource need different names.")
    return specs


def _variant(body: dict[str, Any]) -> str:
    """The accelerator type, given directly or as a topology."""
    given, configured = str(body.get("accelerator_type", "")), body.get("accelerator_config", {})
    if bool(given) == bool(configured):
        raise error_messages.invalid_field("node.accelerator_type", given, "Give either accelerator_type or accelerator_config.")
    if given:
        return given
    kind, topology = configured.get("type", configured.get("type_", "")), configured.get("topology", "")
    if kind not in _CONFIGURED or not re.fullmatch(r"\d+x\d+(x\d+)?", topology):
        raise error_messages.invalid_field("node.accelerator_config", f"{kind} {topology}", "Write it like V5P and 2x2x1.")
    family, cores = _CONFIGURED[kind]
    return f"{family}-{math.prod(int(side) for side in topology.split('x')) * cores}"
