"""Machines to create, already validated, and the API call that requests them."""

from dataclasses import dataclass
from typing import Any

from emulators.gcp.faults import Failure, Fault
from emulators.gcp.records import Key, Kind


@dataclass(frozen=True, kw_only=True)
class MachineSpec:
    """One validated machine to create."""

    kind: Kind
    project: str
    zone: str
    name: str
    variant: str
    body: dict[str, Any]
    hosts: int = 1
    spot: bool = False
    reserved: bool = False
    stops_when_preempted: bool = True
    pending_seconds: float | None = None
    """How long it may wait for capacity; unset, it does not wait."""

    @property
    def key(self) -> Key:
        """The key of the machine."""
        return Key(self.kind, self.project, self.zone, self.name)


@dataclass(frozen=True, kw_only=True)
class WriteCall:
    """A write: the verb of its operation, its request id and its fault."""

    verb: str
    request_id: str | None = None
    fault: Fault | None = None

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The errors with which the fault fails the operation."""
        return () if self.fault is None else self.fault.operation

    @property
    def status(self) -> int | None:
        """The HTTP status of those errors."""
        return None if self.fault is None else self.fault.status


def full_name(key: Key) -> str:
    """The resource name of a machine in its API."""
    if key.kind is Kind.INSTANCE:
        return f"projects/{key.project}/zones/{key.zone}/instances/{key.name}"
    return f"projects/{key.project}/locations/{key.zone}/nodes/{key.name}"
