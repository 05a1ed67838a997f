"""Names, labels and metadata keys of our resources, and the request ids that make creates idempotent."""

import hashlib
import re
import uuid
from collections.abc import Mapping

from activities.providers.port import LONGEST_NAME, Labels, Order, Ref

LONGEST_LABEL = 63
"""Longest key or value of a label."""
RESERVED = "penstock-"
"""Prefix of labels and metadata keys that only Penstock sets."""
CLUSTER_LABEL = "penstock-cluster"
"""Listings are filtered by this label."""
RESOURCE_LABEL = "penstock-resource"
"""The slice's resource name, on each of its machines."""
HEALTH_KEY = "penstock-health"
"""The metadata key with the health settings of the resource's group, if it has its own."""
HOSTS_LABEL = "penstock-hosts"
"""The number of machines of the slice, to detect missing ones."""

_KEYS = {"cluster": CLUSTER_LABEL, "group": "penstock-group", "slice": "penstock-slice"}
_DIGEST = 10
_DIGEST_OF_VALUE = re.compile(r"[^a-z0-9_-]")
_REQUESTS = uuid.UUID("a3b8d0de-62a5-5a57-9a0e-6a0f0f1d3c0b")
"""The UUID namespace of request ids: arbitrary, but it must never change."""


def label_value(text: str) -> str:
    """The text as a label value: unchanged if valid, else a readable prefix and a digest.

    Label values have lower-case letters, digits, dashes and underscores; group names may have dots, and ids any character.
    """
    plain = _DIGEST_OF_VALUE.sub("-", text.lower())
    if plain == text and len(text) <= LONGEST_LABEL:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
    return f"{plain[: LONGEST_LABEL - _DIGEST - 1].rstrip('-_')}-{digest}"


def ownership_labels(labels: Labels) -> dict[str, str]:
    """The ownership labels; `ownership_metadata` has the same values unabridged."""
    return {_KEYS[field]: label_value(value) for field, value in labels.model_dump().items()}


def ownership_metadata(labels: Labels) -> dict[str, str]:
    """Cluster, group and slice, exact."""
    return {_KEYS[field]: value for field, value in labels.model_dump().items()}


def owner(labels: Mapping[str, str], metadata: Mapping[str, str]) -> Labels | None:
    """The owner of a resource: named by its metadata and confirmed by its labels; None if it is not ours."""
    named = {field: metadata.get(key, "") for field, key in _KEYS.items()}
    if not all(named.values()):
        return None
    found = Labels.model_validate(named)
    return found if all(labels.get(key) == value for key, value in ownership_labels(found).items()) else None


def machine_names(ref: Ref, hosts: int) -> list[str]:
    """The names of a slice's machines. The first has the slice's own name, so that a name conflict is noticed."""
    return [ref.name, *(_numbered(ref.name, host) for host in range(1, hosts))]


def _numbered(name: str, host: int) -> str:
    head, _, digest = name.rpartition("-")
    tail = f"-{digest}-{host}"
    return f"{head[: LONGEST_NAME - len(tail)].rstrip('-')}{tail}"


def request_id(order: Order | Ref, *, project: str, attempt: int = 0) -> str:
    """The request id of an order: equal in every process, so that the cloud executes the order once."""
    return str(uuid.uuid5(_REQUESTS, f"{project}/{order.location}/{order.name}/{attempt}"))
