"""A slice's cloud resource: its name, ownership labels and reference, and one observation of it with its hosts."""

import hashlib
import json
import re
import zlib
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from penstock.model.failures import Failure, Notice, Phase
from penstock.model.units import Moment
from penstock.model.value import Value, WireMessage

LONGEST_NAME = 63
"""Characters of an RFC 1035 label, the form of names that clouds accept."""
_DIGEST = 10
"""Hex digits (40 bits) that distinguish slices with the same readable prefix."""

Text = Annotated[str, Field(min_length=1)]


def resource_name(*, cluster: str, group: str, slice_id: str) -> str:
    """The cloud's name for a slice: a readable prefix and a digest. Equal arguments always give the same name.

    RFC 1035: at most 63 lower-case letters, digits and dashes; the first is a letter, the last is no dash.
    """
    digest = hashlib.sha256(json.dumps([cluster, group, slice_id]).encode()).hexdigest()[:_DIGEST]
    readable = re.sub(r"[^a-z0-9]+", "-", slice_id.lower()).strip("-")
    head = readable if readable[:1].isalpha() else f"s-{readable}"
    return f"{head[: LONGEST_NAME - _DIGEST - 1].rstrip('-')}-{digest}"


class Labels(Value):
    """The owner of a resource. The create call sets the labels, so no resource of ours ever lacks them."""

    cluster: Text
    group: Text
    slice: Text

    @property
    def resource_name(self) -> str:
        """The name that a create call gives the resource with these labels."""
        return resource_name(cluster=self.cluster, group=self.group, slice_id=self.slice)


class Ref(Value):
    """A reference to one resource: location, name, and the labels it must carry to be ours."""

    location: Text
    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    labels: Labels


class HostAddress(WireMessage):
    """How to reach one host. A field added here reaches the ledger, the queries and the CLI."""

    name: str = ""
    address: str = ""
    """The internal address; empty until the cloud has assigned one."""
    external_address: str = ""


_ADDRESS_FIELDS = set(HostAddress.model_fields)


class Host(HostAddress):
    """One observation of a host.

    `asked` is set if its health check was called. `answered` is the slice id in the answer, because the address may have
    belonged to another slice before.
    """

    asked: bool = False
    answered: str | None = None


class Sighting(WireMessage):
    """One observation of a resource, passed from the provider to the slice workflow.

    A resource that is GONE has neither hosts nor `created_at`. `failure` is the cloud's reason for a failed resource or for
    silent hosts, if it gives one. `notice` is what the cloud announces for the resource, as long as that stands.

    The watch adds `checked`, set if the hosts were health-checked and not only listed, and `lost_hosts`, the hosts that were
    silent in enough consecutive polls to count as lost.
    """

    ref: Ref
    phase: Phase
    hosts: tuple[Host, ...] = ()
    created_at: Moment | None = None
    failure: Failure | None = None
    notice: Notice | None = None
    checked: bool = False
    lost_hosts: tuple[int, ...] = ()

    @property
    def labels(self) -> Labels:
        """The owner of the resource."""
        return self.ref.labels

    @property
    def slice_id(self) -> str:
        """The slice that the resource belongs to."""
        return self.ref.labels.slice

    @property
    def group(self) -> str:
        """The group of that slice."""
        return self.ref.labels.group

    @property
    def is_ours(self) -> bool:
        """Whether a create call of ours made it. A resource that only carries copied labels has another name."""
        return self.ref.name == self.ref.labels.resource_name

    @property
    def addressed(self) -> bool:
        """Whether every host has an address."""
        return bool(self.hosts) and all(host.address for host in self.hosts)

    @property
    def healthy(self) -> bool:
        """Whether every host answered with the id of this slice."""
        return bool(self.hosts) and not self.silent_hosts

    @property
    def silent_hosts(self) -> tuple[int, ...]:
        """Hosts that did not answer with the id of this slice."""
        return tuple(i for i, host in enumerate(self.hosts) if host.answered != self.slice_id)

    @property
    def addresses(self) -> tuple[HostAddress, ...]:
        """The hosts without their health."""
        return tuple(HostAddress.model_validate(host.model_dump(include=_ADDRESS_FIELDS)) for host in self.hosts)


def addresses_digest(hosts: Sequence[HostAddress]) -> int:
    """A number that changes when an address does; 0 unless every host has an address."""
    if not hosts or not all(host.address for host in hosts):
        return 0
    return zlib.crc32(json.dumps([host.model_dump(include=_ADDRESS_FIELDS) for host in hosts]).encode())
