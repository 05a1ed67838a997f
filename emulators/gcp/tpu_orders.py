"""What a TPU call asks for, checked as Google checks it."""

import math
import re
from typing import Any

from google.cloud import tpu_v2

from emulators.gcp import rules, wording
from emulators.gcp.behaviour import Behaviour
from emulators.gcp.orders import Order
from emulators.gcp.records import Key, Kind
from emulators.gcp.refusals import Code, Refusal
from emulators.gcp.tpu_wire import body_of
from penstock.model.tpu import tpu_variant

_PARENT = re.compile(r"projects/(?P<project>[^/]+)/locations/(?P<zone>[^/]+)")
_MEMBER = re.compile(r"projects/(?P<project>[^/]+)/locations/(?P<zone>[^/]+)/(?P<kind>nodes|queuedResources)/(?P<name>[^/]+)")
_ZONE = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_CONFIGURED = {"V4": ("v4", 2), "V5P": ("v5p", 2), "V5LITE_POD": ("v5litepod", 1), "V6E": ("v6e", 1)}
"""Family and cores a chip by accelerator_config.type."""
_KINDS = {"nodes": Kind.NODE, "queuedResources": Kind.QUEUED}
EVERYWHERE = "-"
"""The zone that stands for all."""


def location_of(parent: str, *, all_zones: bool = False) -> tuple[str, str]:
    """Project and zone of a parent."""
    match = _PARENT.fullmatch(parent)
    if match is None or not (_ZONE.fullmatch(match["zone"]) or (all_zones and match["zone"] == EVERYWHERE)):
        raise wording.malformed("parent", parent, "It must be of the form projects/PROJECT/locations/ZONE.")
    return match["project"], match["zone"]


def key_of(name: str, kind: Kind) -> Key:
    """What a full name means."""
    match = _MEMBER.fullmatch(name)
    if match is None or _KINDS[match["kind"]] is not kind:
        plural = {known: spelt for spelt, known in _KINDS.items()}[kind]
        raise wording.malformed("name", name, f"It must be of the form projects/PROJECT/locations/ZONE/{plural}/NAME.")
    return Key(kind, match["project"], match["zone"], match["name"])


def node_order(parent: str, node_id: str, node: tpu_v2.Node, behaviour: Behaviour, *, spot: bool = False) -> Order:
    """The order of one node; refused as INVALID_ARGUMENT if it is malformed."""
    project, zone = location_of(parent)
    rules.check_name("node_id", node_id)
    body = body_of(node)
    rules.check_labels("node.labels", body.get("labels", {}))
    if not node.runtime_version:
        raise wording.malformed("node.runtime_version", "", "A runtime version is required.")
    variant = _variant(body)
    shape = tpu_variant(variant)
    rules.check_offer(behaviour, zone, variant)
    if shape is None:
        raise wording.unknown_type(zone, variant)
    scheduling = node.scheduling_config
    return Order(
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


def queued_orders(project: str, zone: str, name: str, queued: tpu_v2.QueuedResource, behaviour: Behaviour) -> list[Order]:
    """The nodes that a queued resource asks for."""
    orders: list[Order] = []
    for spec in queued.tpu.node_spec:
        if spec.parent != f"projects/{project}/locations/{zone}":
            raise wording.malformed("node_spec.parent", spec.parent, "It must be the parent of the queued resource.")
        several = spec.multislice_params
        if bool(spec.node_id) == bool(several.node_count):
            raise Refusal(Code.INVALID_ARGUMENT, "Give either node_id or multislice_params of a node_spec.")
        prefix = several.node_id_prefix or name
        names = [spec.node_id] if spec.node_id else [f"{prefix}-{number}" for number in range(several.node_count)]
        orders += [node_order(spec.parent, node_id, spec.node, behaviour, spot="spot" in queued) for node_id in names]
    if not orders:
        raise Refusal(Code.INVALID_ARGUMENT, "A queued resource needs at least one node_spec.")
    if len({order.name for order in orders}) < len(orders):
        raise Refusal(Code.INVALID_ARGUMENT, "The nodes of a queued resource need names of their own.")
    return orders


def _variant(body: dict[str, Any]) -> str:
    """The accelerator type, given as such or as a topology."""
    given, configured = str(body.get("accelerator_type", "")), body.get("accelerator_config", {})
    if bool(given) == bool(configured):
        raise wording.malformed("node.accelerator_type", given, "Give either accelerator_type or accelerator_config.")
    if given:
        return given
    kind, topology = configured.get("type", configured.get("type_", "")), configured.get("topology", "")
    if kind not in _CONFIGURED or not re.fullmatch(r"\d+x\d+(x\d+)?", topology):
        raise wording.malformed("node.accelerator_config", f"{kind} {topology}", "Write it like V5P and 2x2x1.")
    family, cores = _CONFIGURED[kind]
    return f"{family}-{math.prod(int(side) for side in topology.split('x')) * cores}"
