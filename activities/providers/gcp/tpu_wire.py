"""Nodes and queued resources as the Cloud TPU API has them: how they are ordered, and what they say of themselves."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from google.cloud import tpu_v2

from activities.providers.gcp import catalogue
from activities.providers.gcp.codes import Meaning
from activities.providers.gcp.errors import Place, failure_of, fault_of_status
from activities.providers.gcp.naming import HEALTH_KEY, owner, ownership_labels
from activities.providers.gcp.settings import Capacity, Reach, TpuSettings
from activities.providers.port import Failure, FailureKind, Labels, Order, Phase, Ref

State = tpu_v2.Node.State
QueuedState = tpu_v2.QueuedResourceState.State

_PHASES: dict[int, Phase] = {
    State.CREATING: Phase.CREATING,
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
"""A node under repair runs, and its hosts are silent until it is mended: how long that is borne is not decided here."""

_QUEUED_PHASES: dict[int, Phase] = {
    QueuedState.CREATING: Phase.QUEUED,
    QueuedState.ACCEPTED: Phase.QUEUED,
    QueuedState.WAITING_FOR_RESOURCES: Phase.QUEUED,
    QueuedState.PROVISIONING: Phase.CREATING,
    QueuedState.ACTIVE: Phase.FAILED,
    QueuedState.FAILED: Phase.FAILED,
    QueuedState.SUSPENDING: Phase.PREEMPTED,
    QueuedState.SUSPENDED: Phase.PREEMPTED,
    QueuedState.DELETING: Phase.DELETING,
}
"""Of a queued resource that has no node. One that is ACTIVE without a node has lost it to somebody's hand."""

_DEADLINE_EXCEEDED = 4
"""What a queued resource fails with that waited for capacity until it was no longer valid."""
_REPAIRED = (State.RESTARTING, State.REIMAGING, State.REPAIRING)


def node_of(order: Order, settings: TpuSettings, metadata: Mapping[str, str]) -> tpu_v2.Node:
    """The node to create, labelled from its first moment."""
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
    """The queued resource that waits for the node, under the node's own name."""
    spec = tpu_v2.QueuedResource.Tpu.NodeSpec(parent=parent, node_id=order.name, node=node)
    queued = tpu_v2.QueuedResource(tpu=tpu_v2.QueuedResource.Tpu(node_spec=[spec]))
    match settings.capacity_of(order):
        case Capacity.SPOT:
            queued.spot = tpu_v2.QueuedResource.Spot()
        case Capacity.RESERVED:
            queued.guaranteed = tpu_v2.QueuedResource.Guaranteed()
            queued.reservation_name = settings.reservation or ""
        case Capacity.ON_DEMAND:
            queued.guaranteed = tpu_v2.QueuedResource.Guaranteed()
    if settings.valid_until_seconds is not None:
        until = timedelta(seconds=settings.valid_until_seconds)
        queued.queueing_policy = tpu_v2.QueuedResource.QueueingPolicy(valid_until_duration=until)
    return queued


class SeenNode(NamedTuple):
    """A node that exists, as it was sent."""

    pb: Any

    @property
    def owner(self) -> Labels | None:
        """Whose it is, if it is ours."""
        return owner(self.pb.labels, self.pb.metadata)

    @property
    def phase(self) -> Phase:
        """Its state; once every host has an address it boots, whatever else it says: operations lag behind live nodes."""
        phase = _PHASES.get(self.pb.state, Phase.CREATING)
        if phase is Phase.CREATING and None not in self.addresses(Reach.INTERNAL):
            return Phase.BOOTING
        return phase

    @property
    def health_said(self) -> str | None:
        """How its hosts want to be asked, if it says so."""
        said: str | None = self.pb.metadata.get(HEALTH_KEY)
        return said

    @property
    def repaired(self) -> bool:
        """Whether it is out of service to be mended, so that its hosts count as silent."""
        return self.pb.state in _REPAIRED or self.pb.health == tpu_v2.Node.Health.UNHEALTHY_MAINTENANCE

    @property
    def deleting(self) -> bool:
        """Whether it is already on its way out."""
        return bool(self.pb.state == State.DELETING)

    @property
    def failure(self) -> Failure | None:
        """Why it failed, if it did."""
        if self.phase is not Phase.FAILED:
            return None
        return Failure(kind=FailureKind.HOST_LOST, message=f"the node was stopped: {State(self.pb.state).name}")

    @property
    def created_at(self) -> datetime:
        """When it was ordered."""
        created: datetime = self.pb.create_time.ToDatetime(tzinfo=UTC)
        return created

    def addresses(self, reach: Reach) -> tuple[str | None, ...]:
        """One for each of its hosts, those that have none yet included."""
        if reach is Reach.EXTERNAL:
            given = [endpoint.access_config.external_ip or None for endpoint in self.pb.network_endpoints]
        else:
            given = [endpoint.ip_address or None for endpoint in self.pb.network_endpoints]
        missing = (catalogue.hosts_of(self.pb.accelerator_type) or max(1, len(given))) - len(given)
        return (*given, *(None,) * missing)


class SeenQueued(NamedTuple):
    """A queued resource that exists, as it was sent."""

    pb: Any

    @property
    def owner(self) -> Labels | None:
        """Whose it is, if it is ours: a queued resource has no labels but those of the node it waits for."""
        if len(self.pb.tpu.node_spec) != 1:
            return None
        node = self.pb.tpu.node_spec[0].node
        return owner(node.labels, node.metadata)

    @property
    def phase(self) -> Phase:
        """Its state, if it has no node. One suspended by a user was deleted in part, not preempted."""
        phase = _QUEUED_PHASES.get(self.pb.state.state, Phase.QUEUED)
        by_user = self.pb.state.state_initiator == tpu_v2.QueuedResourceState.StateInitiator.USER
        return Phase.FAILED if phase is Phase.PREEMPTED and by_user else phase

    @property
    def preempted(self) -> bool:
        """Whether Google took its node away, or is about to."""
        return self.phase is Phase.PREEMPTED

    @property
    def deleting(self) -> bool:
        """Whether it is already on its way out."""
        return self.phase is Phase.DELETING

    @property
    def created_at(self) -> datetime:
        """When it was ordered."""
        created: datetime = self.pb.create_time.ToDatetime(tzinfo=UTC)
        return created

    @property
    def hosts(self) -> int:
        """How many hosts it waits for."""
        return catalogue.hosts_of(self.pb.tpu.node_spec[0].node.accelerator_type) or 1

    def failure(self, place: Place) -> Failure | None:
        """Why it failed, if it did."""
        if self.phase is not Phase.FAILED:
            return None
        if self.pb.state.state != QueuedState.FAILED:
            return Failure(kind=FailureKind.HOST_LOST, message="the node of the queued resource was deleted")
        fault = fault_of_status(self.pb.state.failed_data.error)
        expired = self.pb.state.failed_data.error.code == _DEADLINE_EXCEEDED
        return failure_of(fault._replace(meaning=Meaning.STOCKOUT) if expired else fault, place)


def name_of(pb: Any) -> str:
    """The last part of a full name."""
    return str(pb.name).rsplit("/", 1)[-1]


def is_ours(seen: SeenNode | SeenQueued | None, ref: Ref) -> bool:
    """Whether it is what the ref means, and not a namesake."""
    return seen is not None and seen.owner == ref.labels
