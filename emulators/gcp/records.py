"""Stored records of the Google emulator: machines, queued resources and operations, each with its state at any time."""

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from emulators.gcp.faults import Failure
from penstock.model.units import Moment
from penstock.model.value import Value

SLICE_KEY = "penstock-slice"
"""The metadata key that holds the slice id with which the hosts answer health checks."""
_START = datetime.min.replace(tzinfo=UTC)


class Kind(StrEnum):
    """Kind of a resource."""

    NODE = "node"
    INSTANCE = "instance"
    QUEUED = "queued"


class Key(NamedTuple):
    """Unique among the resources that exist at the same time."""

    kind: Kind
    project: str
    zone: str
    name: str


class Stage(StrEnum):
    """Stage of a machine, from pending to gone."""

    PENDING = "pending"
    PROVISIONING = "provisioning"
    STAGING = "staging"
    RUNNING = "running"
    REPAIRING = "repairing"
    STOPPING = "stopping"
    PREEMPTED = "preempted"
    DELETING = "deleting"
    GONE = "gone"


class Api(StrEnum):
    """The two emulated APIs."""

    TPU = "tpu"
    COMPUTE = "compute"


class Record(Value):
    """Base of everything stored; `number` is unique and never reused."""

    number: int
    project: str
    zone: str
    name: str
    created_at: Moment


class Machine(Record):
    """A TPU node or a Compute instance. Its stage is computed from its moments and the time, so it advances while stopped."""

    kind: Kind
    variant: str
    """Accelerator type or machine type."""
    hosts: int = 1
    spot: bool = False
    stops_when_preempted: bool = True
    """Whether it stays visible after a preemption; otherwise it is deleted."""
    body: dict[str, Any]
    """The request, as the API's JSON."""
    addresses: tuple[str, ...] = ()
    operation: str | None = None
    """Name of the operation that creates it."""
    queued: str | None = None
    """Full name of its queued resource."""
    addressed_at: Moment
    ready_at: Moment
    healthy_at: Moment
    pending_until: Moment | None = None
    """Until then a flex-start machine waits for capacity; then it is gone."""
    failed_at: Moment | None = None
    """When a create that got a stockout disappears."""
    preempted_at: Moment | None = None
    stopped_at: Moment | None = None
    repaired_at: Moment | None = None
    """End of the last maintenance."""
    gone_at: Moment | None = None
    dead_hosts: tuple[int, ...] = ()

    @property
    def key(self) -> Key:
        """The machine's key."""
        return Key(self.kind, self.project, self.zone, self.name)

    @property
    def labels(self) -> dict[str, str]:
        """The machine's labels."""
        return dict(self.body.get("labels", {}))

    @property
    def metadata(self) -> dict[str, str]:
        """The machine's metadata, which its hosts can read."""
        given = self.body.get("metadata", {})
        if self.kind is Kind.NODE:
            return dict(given)
        return {item["key"]: item.get("value", "") for item in given.get("items", ())}

    @property
    def slice(self) -> str | None:
        """The slice id with which its hosts answer health checks."""
        return self.metadata.get(SLICE_KEY)

    def stage(self, now: datetime) -> Stage:
        """The stage at a time: the last entry of the timeline that has been reached."""
        return [stage for begins_at, stage in self._timeline(now) if begins_at is not None and begins_at <= now][-1]

    def _timeline(self, now: datetime) -> list[tuple[datetime | None, Stage]]:
        """When each stage begins, in ascending precedence; None is never."""
        if self.pending_until is not None and self.gone_at is None:
            return [(_START, Stage.PENDING), (self.pending_until, Stage.GONE)]
        under_repair = self.repaired_at is not None and now < self.repaired_at
        deleted = self.gone_at is not None
        deleted_by_user = deleted and self.stops_when_preempted
        return [
            (_START, Stage.PROVISIONING),
            (None if self.failed_at else self.addressed_at, Stage.STAGING),
            (None if self.failed_at else self.ready_at, Stage.RUNNING),
            (_START if under_repair else None, Stage.REPAIRING),
            # A machine that is about to be preempted does not show its deletion before the preemption.
            ((self.preempted_at or _START) if deleted else None, Stage.DELETING),
            (None if deleted_by_user else self.preempted_at, Stage.STOPPING),
            (None if deleted_by_user else self.stopped_at, Stage.PREEMPTED),
            (self.failed_at, Stage.GONE),
            (self.gone_at, Stage.GONE),
        ]

    def exists(self, now: datetime) -> bool:
        """Whether the API shows it."""
        return self.stage(now) is not Stage.GONE

    def has_addresses(self, now: datetime) -> bool:
        """Whether its hosts have addresses."""
        return now >= self.addressed_at and self.failed_at is None and self.pending_until is None

    def healthy_hosts(self, now: datetime) -> dict[str, int]:
        """The hosts that answer health checks, by address."""
        if now < self.healthy_at or self.stage(now) not in (Stage.STAGING, Stage.RUNNING):
            return {}
        return {address: host for host, address in enumerate(self.addresses) if host not in self.dead_hosts}

    def moments(self) -> Iterable[datetime | None]:
        """When its stage may change without a call."""
        return (
            self.addressed_at,
            self.ready_at,
            self.healthy_at,
            self.pending_until,
            self.failed_at,
            self.preempted_at,
            self.stopped_at,
            self.repaired_at,
            self.gone_at,
        )


class QueuedResource(Record):
    """A queued resource: a request for nodes that waits for capacity."""

    body: dict[str, Any]
    waiting_at: Moment
    """Until then it is CREATING."""
    earliest_at: Moment
    expires_at: Moment | None = None
    """When it fails unless admitted."""
    admitted_at: Moment | None = None
    nodes: tuple[int, ...] = ()
    """Numbers of its nodes."""
    failure: Failure | None = None
    gone_at: Moment | None = None

    @property
    def key(self) -> Key:
        """The queued resource's key."""
        return Key(Kind.QUEUED, self.project, self.zone, self.name)

    @property
    def full_name(self) -> str:
        """The resource name in the API."""
        return f"projects/{self.project}/locations/{self.zone}/queuedResources/{self.name}"

    def exists(self, now: datetime) -> bool:
        """Whether the API shows it."""
        return self.gone_at is None or now < self.gone_at

    def expired(self, now: datetime) -> bool:
        """Whether it was not admitted in time."""
        return self.admitted_at is None and self.expires_at is not None and now >= self.expires_at

    def is_waiting(self, now: datetime) -> bool:
        """Whether it may still be admitted."""
        ended = self.failure is not None or self.gone_at is not None or self.expired(now)
        return self.admitted_at is None and not ended

    def moments(self) -> Iterable[datetime | None]:
        """When its state may change without a call."""
        return (self.waiting_at, self.earliest_at, self.expires_at, self.gone_at)


class Operation(Record):
    """A long-running operation: a write in progress or done."""

    api: Api
    verb: str
    target: str
    """Full name of the resource that it changes."""
    machine: int | None = None
    """Number of the node in its response."""
    queued: int | None = None
    """Number of the queued resource in its response."""
    done_at: Moment
    failures: tuple[Failure, ...] = ()
    status: int | None = None
    """HTTP status of the failures."""
    request_id: str | None = None
    by_system: bool = False
    """Started by the cloud, not by a call."""
    requested_count: int | None = None
    created_count: int | None = None
    """Machines of a bulk insert."""

    def done(self, now: datetime) -> bool:
        """Whether it has ended."""
        return now >= self.done_at
