"""Conversions for the Cloud TPU API: an order into requests, nodes and queued resources into phases and hosts."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from google.cloud import tpu_v2

from activities.providers.gcp import catalogue
from activities.providers.gcp.error_codes import Meaning
from activities.providers.gcp.errors import ProjectZone, failure_of, fault_of_status, under_maintenance
from activities.providers.gcp.naming import HEALTH_KEY, owner, ownership_labels
from activities.providers.gcp.redaction import redact_metadata
from activities.providers.gcp.settings import Capacity, TpuSettings
from activities.providers.port import Failure, FailureKind, Host, Labels, Order, Phase, Ref

State = tpu_v2.Node.State
QueuedState = tpu_v2.QueuedResourceState.State

_PHASES: dict[int, Phase] = {
    State.CREATING: Phase.BOOTING,
    State.STARTING: Phase.BOOTING,
    State.READY: Phase.RUNNING,
    State.RESTARTING: Phase.RUNNING,
    State.REIMAGING: Phase.RUNNING,
    State.REPAIRING: Phase.RUNNING,
    State.UNHIDING: Phase.RUNNING,
    State.UNKNOWN: Phase.RUNNING,
    State.STOPPING: Phase.FAILED,
    State.STOPPED: Phase.FAILED,
    State.PREEMPTED: Phase.PREEMPTED,
    State.TERMINATED: Phase.PREEMPTED,
    State.DELETING: Phase.DELETING,
    State.HIDING: Phase.DELETING,
    State.HIDDEN: Phase.DELETING,
}
"""A node that the API shows exists, so CREATING is booting. A node under repair is running: health checks decide whether its
hosts serve, and the slice workflow how long they may fail."""

_QUEUED_PHASES: dict[int, Phase] = {
    QueuedState.CREATING: Phase.QUEUED,
    QueuedState.ACCEPTED: Phase.QUEUED,
    QueuedState.WAITING_FOR_RESOURCES: Phase.QUEUED,
    QueuedState.PROVISIONING: Phase.BOOTING,
    QueuedState.ACTIVE: Phase.FAILED,
    QueuedState.FAILED: Phase.FAILED,
    QueuedState.SUSPENDING: Phase.PREEMPTED,
    QueuedState.SUSPENDED: Phase.PREEMPTED,
    QueuedState.DELETING: Phase.DELETING,
}
"""Phases of a queued resource without a node. PROVISIONING has left the queue; ACTIVE without a node means that the node was
deleted by hand."""

_DEADLINE_EXCEEDED = 4
"""The error code of a queued resource that found no capacity before its `valid_until`."""


def node_of(order: Order, settings: TpuSettings, metadata: Mapping[str, str]) -> tpu_v2.Node:
    """The node to create, with its labels."""
    kind, capacity = catalogue.tpu_kind(order.variant, hosts=order.hosts), settings.capacity_of(order)
    node = tpu_v2.Node(
        accelerator_type=kind.accelerator_type,
        runtime_version=settings.runtime_version or kind.runtime_version,
        labels=settings.labels | ownership_labels(order.labels),
        metadata=metadata,
        tags=settings.tags,
        network_config=tpu_v2.NetworkConfig(
            network=settings.network or "", subnetwork=settings.subnetwork or "", enable_external_ips=settings.external_ips
        ),
        scheduling_config=tpu_v2.SchedulingConfig(spot=capacity is Capacity.SPOT, reserved=capacity is Capacity.RESERVED),
    )
    if settings.service_account is not None:
        node.service_account = tpu_v2.ServiceAccount(email=settings.service_account, scope=settings.scopes)
    return node


def queued_of(order: Order, settings: TpuSettings, node: tpu_v2.Node, *, parent: str) -> tpu_v2.QueuedResource:
    """The queued resource that waits for the node; both have the same name."""
    spec = tpu_v2.QueuedResource.Tpu.NodeSpec(parent=parent, node_id=order.name, node=node)
    queued = tpu_v2.QueuedResource(tpu=tpu_v2.QueuedResource.Tpu(node_spec=[spec]))
    match settings.capacity_of(order):
        case Capacity.SPOT:
            queued.spot = tpu_v2.QueuedResource.Spot()
        case Capacity.RESERVED:
            queued.guaranteed = tpu_v2.QueuedResource.Guaranteed()
            queued.reservation_name = _reservation(settings.reservation or "", parent)
        case Capacity.ON_DEMAND:
            queued.guaranteed = tpu_v2.QueuedResource.Guaranteed()
    if settings.valid_until_seconds is not None:
        until = timedelta(seconds=settings.valid_until_seconds)
        queued.queueing_policy = tpu_v2.QueuedResource.QueueingPolicy(valid_until_duration=until)
    return queued


def _reservation(name: str, parent: str) -> str:
    """The full name of a reservation, as queued resources need it; one of another project is given in full."""
    return name if "/" in name else f"{parent}/reservations/{name}"


class NodeView(NamedTuple):
    """An existing node."""

    pb: Any

    @property
    def owner(self) -> Labels | None:
        """Its owner; None if it is not ours."""
        return owner(self.pb.labels, self.pb.metadata)

    @property
    def phase(self) -> Phase:
        """By its state. The state lags behind, so hosts may serve before it is READY."""
        return _PHASES.get(self.pb.state, Phase.BOOTING)

    @property
    def health_metadata(self) -> str | None:
        """The health settings in its metadata, if it has any."""
        found: str | None = self.pb.metadata.get(HEALTH_KEY)
        return found

    @property
    def maintained(self) -> bool:
        """Whether Google took it out of service for maintenance."""
        return self.pb.state == State.REPAIRING or bool(self.pb.health == tpu_v2.Node.Health.UNHEALTHY_MAINTENANCE)

    @property
    def serving(self) -> bool:
        """Whether its hosts are checked: also during repair and restart, because some may answer."""
        return self.phase not in (Phase.PREEMPTED, Phase.FAILED, Phase.DELETING)

    @property
    def deleting(self) -> bool:
        """Whether it is being deleted."""
        return bool(self.pb.state == State.DELETING)

    @property
    def failure(self) -> Failure | None:
        """Why it failed, or why its hosts do not answer; None if neither is known."""
        if self.phase is Phase.FAILED:
            return Failure(kind=FailureKind.HOST_LOST, message=f"the node was stopped: {State(self.pb.state).name}")
        if self.phase is Phase.RUNNING and self.maintained:
            return under_maintenance(redact_metadata(self.pb.health_description, self.pb.metadata))
        return None

    @property
    def created_at(self) -> datetime:
        """The time of its order."""
        created: datetime = self.pb.create_time.ToDatetime(tzinfo=UTC)
        return created

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Its hosts before their health checks, in the order of worker numbers."""
        endpoints = self.pb.network_endpoints
        hosts = hosts_without_address(name_of(self.pb), catalogue.hosts_of(self.pb.accelerator_type) or max(1, len(endpoints)))
        addressed = [
            host.model_copy(update={"address": endpoint.ip_address, "external_address": endpoint.access_config.external_ip})
            for host, endpoint in zip(hosts, endpoints, strict=False)
        ]
        return (*addressed, *hosts[len(addressed) :])


class QueuedView(NamedTuple):
    """An existing queued resource."""

    pb: Any

    @property
    def owner(self) -> Labels | None:
        """Its owner, by the labels of its node spec because it has no labels itself; None if it is not ours."""
        if len(self.pb.tpu.node_spec) != 1:
            return None
        node = self.pb.tpu.node_spec[0].node
        return owner(node.labels, node.metadata)

    @property
    def phase(self) -> Phase:
        """By its state, for one without a node. One suspended by a user was partly deleted, not preempted."""
        phase = _QUEUED_PHASES.get(self.pb.state.state, Phase.QUEUED)
        by_user = self.pb.state.state_initiator == tpu_v2.QueuedResourceState.StateInitiator.USER
        return Phase.FAILED if phase is Phase.PREEMPTED and by_user else phase

    @property
    def preempted(self) -> bool:
        """Whether Google preempted its node, or is about to."""
        return self.phase is Phase.PREEMPTED

    @property
    def active(self) -> bool:
        """Whether its state claims that it has its node."""
        return bool(self.pb.state.state == QueuedState.ACTIVE)

    @property
    def deleting(self) -> bool:
        """Whether it is being deleted."""
        return self.phase is Phase.DELETING

    @property
    def created_at(self) -> datetime:
        """The time of its order."""
        created: datetime = self.pb.create_time.ToDatetime(tzinfo=UTC)
        return created

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts that it waits for."""
        return hosts_without_address(name_of(self.pb), catalogue.hosts_of(self.pb.tpu.node_spec[0].node.accelerator_type) or 1)

    def failure(self, zone: ProjectZone) -> Failure | None:
        """Why it failed; None if it did not."""
        if self.phase is not Phase.FAILED:
            return None
        if self.pb.state.state != QueuedState.FAILED:
            return Failure(kind=FailureKind.HOST_LOST, message="the node of the queued resource was deleted")
        fault = fault_of_status(self.pb.state.failed_data.error)
        fault = fault._replace(message=redact_metadata(fault.message, self.pb.tpu.node_spec[0].node.metadata))
        expired = self.pb.state.failed_data.error.code == _DEADLINE_EXCEEDED
        return failure_of(fault._replace(meaning=Meaning.STOCKOUT) if expired else fault, zone)


def phase_and_failure(node: NodeView, queued: QueuedView | None) -> tuple[Phase, Failure | None]:
    """By the node, unless its queued resource shows a preemption: the node shows that late or never."""
    if queued is not None and queued.preempted and queued.owner == node.owner:
        return Phase.PREEMPTED, None
    return node.phase, node.failure


def hosts_without_address(node: str, count: int) -> tuple[Host, ...]:
    """The hosts of a node, in order. The API does not name them: they are named by the node and the worker number."""
    return tuple(Host(name=f"{node}-w-{worker}", address="") for worker in range(count))


def name_of(pb: Any) -> str:
    """The last part of a full name."""
    return str(pb.name).rsplit("/", 1)[-1]


def is_ours(resource: NodeView | QueuedView | None, ref: Ref) -> bool:
    """Whether it carries the labels of the ref; another resource may have its name."""
    return resource is not None and resource.owner == ref.labels
