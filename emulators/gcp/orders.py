"""What a call asks the cloud for, once it is found to be well-formed."""

from dataclasses import dataclass
from typing import Any

from emulators.gcp.behaviour import Failure, Fault
from emulators.gcp.records import Key, Kind


@dataclass(frozen=True, kw_only=True)
class Order:
    """One machine to make, already found to be well-formed."""

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
    waits_seconds: float | None = None
    """How long it may wait for room; unset, it does not wait."""

    @property
    def key(self) -> Key:
        """What no two machines share at a time."""
        return Key(self.kind, self.project, self.zone, self.name)


@dataclass(frozen=True, kw_only=True)
class Call:
    """A write as it arrived: what it is called in its operation, the id that makes it repeatable, and what shall go wrong."""

    verb: str
    request_id: str | None = None
    fault: Fault | None = None

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What its operation shall fail with."""
        return () if self.fault is None else self.fault.operation

    @property
    def status(self) -> int | None:
        """The HTTP status that the failures shall stand for."""
        return None if self.fault is None else self.fault.status


def link(key: Key) -> str:
    """The full name of a machine as its API spells it."""
    if key.kind is Kind.INSTANCE:
        return f"projects/{key.project}/zones/{key.zone}/instances/{key.name}"
    return f"projects/{key.project}/locations/{key.zone}/nodes/{key.name}"
