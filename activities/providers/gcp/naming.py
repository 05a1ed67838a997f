"""Names, labels and metadata by which our resources are known: what the API accepts, and what we said."""

import hashlib
import re
import uuid
from collections.abc import Mapping

from activities.providers.port import LONGEST_NAME, Labels, Order, Ref

LONGEST_LABEL = 63
"""Characters of a label's key or value."""
RESERVED = "penstock-"
"""How the labels and metadata keys begin that are ours alone."""
CLUSTER_LABEL = "penstock-cluster"
"""By which lists are filtered."""
RESOURCE_LABEL = "penstock-resource"
"""The slice's name in the cloud, on each of its machines."""
HEALTH_KEY = "penstock-health"
"""The metadata key under which a resource says how its hosts are asked, where its group says it."""
HOSTS_LABEL = "penstock-hosts"
"""How many machines the slice has, so that one that is missing is missed."""

_KEYS = {"cluster": CLUSTER_LABEL, "group": "penstock-group", "slice": "penstock-slice"}
_DIGEST = 10
_DIGEST_OF_VALUE = re.compile(r"[^a-z0-9_-]")
_REQUESTS = uuid.UUID("a3b8d0de-62a5-5a57-9a0e-6a0f0f1d3c0b")
"""The namespace of request ids: any constant will do as long as it never changes."""


def label_value(text: str) -> str:
    """The text as a label takes it: itself where it may be, else a readable head and a digest of the whole.

    Labels hold lower-case letters, digits, dashes and underscores; names of groups may have dots, and ids anything.
    """
    plain = _DIGEST_OF_VALUE.sub("-", text.lower())
    if plain == text and len(text) <= LONGEST_LABEL:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
    return f"{plain[: LONGEST_LABEL - _DIGEST - 1].rstrip('-_')}-{digest}"


def ownership_labels(labels: Labels) -> dict[str, str]:
    """The labels that lists are filtered by; `ownership_metadata` has the same in our own words."""
    return {_KEYS[field]: label_value(value) for field, value in labels.model_dump().items()}


def ownership_metadata(labels: Labels) -> dict[str, str]:
    """Cluster, group and slice exactly as they are known here."""
    return {_KEYS[field]: value for field, value in labels.model_dump().items()}


def owner(labels: Mapping[str, str], metadata: Mapping[str, str]) -> Labels | None:
    """Whose a resource is, if its metadata say so and its labels agree; None if it is not ours."""
    said = {field: metadata.get(key, "") for field, key in _KEYS.items()}
    if not all(said.values()):
        return None
    found = Labels.model_validate(said)
    return found if all(labels.get(key) == value for key, value in ownership_labels(found).items()) else None


def machine_names(ref: Ref, hosts: int) -> list[str]:
    """The names of a slice's machines: the slice's own for the first, so that a namesake of the slice is noticed."""
    return [ref.name, *(_numbered(ref.name, host) for host in range(1, hosts))]


def _numbered(name: str, host: int) -> str:
    head, _, digest = name.rpartition("-")
    tail = f"-{digest}-{host}"
    return f"{head[: LONGEST_NAME - len(tail)].rstrip('-')}{tail}"


def request_id(order: Order | Ref, *, project: str, attempt: int = 0) -> str:
    """The same for the same order wherever it is placed from, so that the cloud takes it once."""
    return str(uuid.uuid5(_REQUESTS, f"{project}/{order.location}/{order.name}/{attempt}"))
