"""What the emulated cloud holds: machines, queued resources and operations, each with its state at any time."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from emulators.gcp.behaviour import Failure
from penstock.model.units import Moment
from penstock.model.value import Value

SLICE_KEY = "penstock-slice"
"""The metadata key from which a host's start-up takes the slice id that its health check answers with."""


class Kind(StrEnum):
    """What a resource is to its API."""

    NODE = "node"
    INSTANCE = "instance"
    QUEUED = "queued"


class Key(NamedTuple):
    """What no two resources share at a time."""

    kind: Kind
    project: str
    zone: str
    name: str


class Stage(StrEnum):
    """Where a machine is in its life."""

    PENDING = "pending"
    PROVISIONING = "provisioning"
    STAGING = "staging"
    RUNNING = "running"
    REPAIRING = "repairing"
    STOPPING = "stopping"
    PREEMPTED = "preempted"
    DELETING = "deleting"
    GONE = "gone"


class Record(Value):
    """What is stored under a number that is never given twice."""

    number: int
    project: str
    zone: str
    name: str
    created_at: Moment


class Machine(Record):
    """A TPU node or a Compute instance. Its stage follows from its moments and the time, so stopping loses nothing."""

    kind: Kind
    variant: str
    """Accelerator type or machine type."""
    hosts: int = 1
    spot: bool = False
    stops_when_preempted: bool = True
    """What is preempted stays; otherwise it is gone."""
    body: dict[str, Any]
    """What was asked for, as the API's JSON."""
    addresses: tuple[str, ...] = ()
    operation: str | None = None
    """Name of the operation that makes it."""
    queued: str | None = None
    """Full name of the queued resource that it belongs to."""
    addressed_at: Moment
    ready_at: Moment
    answering_at: Moment
    waits_until: Moment | None = None
    """Until then a flex-start machine waits for room; then it vanishes."""
    failed_at: Moment | None = None
    """When an order that finds nothing vanishes."""
    preempted_at: Moment | None = None
    stopped_at: Moment | None = None
    repaired_at: Moment | None = None
    """End of a maintenance that has begun."""
    gone_at: Moment | None = None
    dead_hosts: tuple[int, ...] = ()

    @property
    def key(self) -> Key:
        """What no two machines share at a time."""
        return Key(self.kind, self.project, self.zone, self.name)

    @property
    def labels(self) -> dict[str, str]:
        """Who owns it."""
        return dict(self.body.get("labels", {}))

    @property
    def metadata(self) -> dict[str, str]:
        """What its hosts can read."""
        given = self.body.get("metadata", {})
        if self.kind is Kind.NODE:
            return dict(given)
        return {item["key"]: item.get("value", "") for item in given.get("items", ())}

    @property
    def slice(self) -> str | None:
        """The slice that its hosts say they belong to."""
        return self.metadata.get(SLICE_KEY)

    def stage(self, now: datetime) -> Stage:
        """The stage at a time."""
        if any(end is not None and now >= end for end in (self.failed_at, self.gone_at)):
            return Stage.GONE
        if self.waits_until is not None and self.gone_at is None:
            return Stage.PENDING if now < self.waits_until else Stage.GONE
        warned = self.preempted_at is not None and now < self.preempted_at
        if (
            self.preempted_at is not None
            and self.stopped_at is not None
            and not warned
            and (self.gone_at is None or not self.stops_when_preempted)
        ):
            return Stage.STOPPING if now < self.stopped_at else Stage.PREEMPTED
        if self.gone_at is not None and not warned:
            return Stage.DELETING
        if self.repaired_at is not None and now < self.repaired_at:
            return Stage.REPAIRING
        if now >= self.ready_at and self.failed_at is None:
            return Stage.RUNNING
        return Stage.STAGING if self.addressed(now) else Stage.PROVISIONING

    def exists(self, now: datetime) -> bool:
        """Whether the API shows it."""
        return self.stage(now) is not Stage.GONE

    def addressed(self, now: datetime) -> bool:
        """Whether its hosts have addresses."""
        return now >= self.addressed_at and self.failed_at is None and self.waits_until is None

    def started(self, now: datetime) -> bool:
        """Whether its hosts have run their start-up and still run."""
        return now >= self.answering_at and self.stage(now) in (Stage.STAGING, Stage.RUNNING)

    def answering(self, now: datetime) -> dict[str, int]:
        """The hosts that answer health checks, by address."""
        if not self.started(now):
            return {}
        return {address: host for host, address in enumerate(self.addresses) if host not in self.dead_hosts}

    def moments(self) -> Iterable[datetime | None]:
        """When its stage may change by itself."""
        return (
            self.addressed_at,
            self.ready_at,
            self.answering_at,
            self.waits_until,
            self.failed_at,
            self.preempted_at,
            self.stopped_at,
            self.repaired_at,
            self.gone_at,
        )


class Queued(Record):
    """A queued resource: an order for nodes that waits for room."""

    body: dict[str, Any]
    waiting_at: Moment
    """Until then it is being created."""
    earliest_at: Moment
    until: Moment | None = None
    """When it fails unless admitted."""
    admitted_at: Moment | None = None
    nodes: tuple[int, ...] = ()
    """Numbers of the nodes that it was given."""
    failure: Failure | None = None
    gone_at: Moment | None = None

    @property
    def key(self) -> Key:
        """What no two queued resources share at a time."""
        return Key(Kind.QUEUED, self.project, self.zone, self.name)

    @property
    def full_name(self) -> str:
        """As the API spells it."""
        return f"projects/{self.project}/locations/{self.zone}/queuedResources/{self.name}"

    def exists(self, now: datetime) -> bool:
        """Whether the API shows it."""
        return self.gone_at is None or now < self.gone_at

    def expired(self, now: datetime) -> bool:
        """Whether it waited in vain."""
        return self.admitted_at is None and self.until is not None and now >= self.until

    def waits(self, now: datetime) -> bool:
        """Whether it may still be admitted."""
        ended = self.failure is not None or self.gone_at is not None or self.expired(now)
        return self.admitted_at is None and not ended

    def moments(self) -> Iterable[datetime | None]:
        """When its state may change by itself."""
        return (self.waiting_at, self.earliest_at, self.until, self.gone_at)


class Api(StrEnum):
    """Which of the two APIs is spoken."""

    TPU = "tpu"
    COMPUTE = "compute"


class Operation(Record):
    """A write under way, or done."""

    api: Api
    verb: str
    target: str
    """Full name of what it changes."""
    machine: int | None = None
    """Number of the node that its reply shows."""
    queued: int | None = None
    """Number of the queued resource that its reply shows."""
    done_at: Moment
    failures: tuple[Failure, ...] = ()
    status: int | None = None
    """HTTP status that the failures stand for."""
    request_id: str | None = None
    by_cloud: bool = False
    """Nobody asked for it."""
    wanted: int | None = None
    made: int | None = None
    """Machines of a bulk insert."""

    def done(self, now: datetime) -> bool:
        """Whether it has ended."""
        return now >= self.done_at
