"""Nodes and queued resources as the Cloud TPU API has them: how they are ordered, and what they say of themselves."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from google.cloud import tpu_v2

from activities.providers.gcp import catalogue
from activities.providers.gcp.codes import Meaning
from activities.providers.gcp.errors import Place, failure_of, fault_of_status, under_maintenance
from activities.providers.gcp.naming import HEALTH_KEY, owner, ownership_labels
from activities.providers.gcp.quoting import without_metadata
from activities.providers.gcp.settings import Capacity, Reach, TpuSettings
from activities.providers.port import Failure, FailureKind, Labels, Order, Phase, Ref

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
"""A node exists from the moment it is shown, so that it boots while it is made. One under repair runs, and whether its hosts
serve is for them to say: how long their silence is borne is not decided here."""

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
"""Of a queued resource that has no node. One that is PROVISIONING has left the queue; one that is ACTIVE without a node has lost
it to somebody's hand."""

_DEADLINE_EXCEEDED = 4
"""What a queued resource fails with that waited for capacity until it was no longer valid."""


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
            queued.reservation_name = _reservation(settings.reservation or "", parent)
        case Capacity.ON_DEMAND:
            queued.guaranteed = tpu_v2.QueuedResource.Guaranteed()
    if settings.valid_until_seconds is not None:
        until = timedelta(seconds=settings.valid_until_seconds)
        queued.queueing_policy = tpu_v2.QueuedResource.QueueingPolicy(valid_until_duration=until)
    return queued


def _reservation(name: str, parent: str) -> str:
    """The reservation in full, as queued resources name it; another project's is given so."""
    return name if "/" in name else f"{parent}/reservations/{name}"


class SeenNode(NamedTuple):
    """A node that exists, as it was sent."""

    pb: Any

    @property
    def owner(self) -> Labels | None:
        """Whose it is, if it is ours."""
        return owner(self.pb.labels, self.pb.metadata)

    @property
    def phase(self) -> Phase:
        """Its state; operations lag behind live nodes, so that hosts may serve before it is READY."""
        return _PHASES.get(self.pb.state, Phase.BOOTING)

    @property
    def health_said(self) -> str | None:
        """How its hosts want to be asked, if it says so."""
        said: str | None = self.pb.metadata.get(HEALTH_KEY)
        return said

    @property
    def maintained(self) -> bool:
        """Whether Google took it out of service to mend it."""
        return self.pb.state == State.REPAIRING or bool(self.pb.health == tpu_v2.Node.Health.UNHEALTHY_MAINTENANCE)

    @property
    def serving(self) -> bool:
        """Whether its hosts are worth asking: also while it is mended or begins anew, for some may answer all the same."""
        return self.phase not in (Phase.PREEMPTED, Phase.FAILED, Phase.DELETING)

    @property
    def deleting(self) -> bool:
        """Whether it is already on its way out."""
        return bool(self.pb.state == State.DELETING)

    @property
    def failure(self) -> Failure | None:
        """Why it failed, if it did, or why its hosts are silent, if they are."""
        if self.phase is Phase.FAILED:
            return Failure(kind=FailureKind.HOST_LOST, message=f"the node was stopped: {State(self.pb.state).name}")
        if self.phase is Phase.RUNNING and self.maintained:
            return under_maintenance(without_metadata(self.pb.health_description, self.pb.metadata))
        return None

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
    def active(self) -> bool:
        """Whether it says that it has its node."""
        return bool(self.pb.state.state == QueuedState.ACTIVE)

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
        fault = fault._replace(message=without_metadata(fault.message, self.pb.tpu.node_spec[0].node.metadata))
        expired = self.pb.state.failed_data.error.code == _DEADLINE_EXCEEDED
        return failure_of(fault._replace(meaning=Meaning.STOCKOUT) if expired else fault, place)


def standing(node: SeenNode, queued: SeenQueued | None) -> tuple[Phase, Failure | None]:
    """What a node says of itself, unless its queued resource says that Google takes it back: nodes hear of it late, or never."""
    if queued is not None and queued.preempted and queued.owner == node.owner:
        return Phase.PREEMPTED, None
    return node.phase, node.failure


def name_of(pb: Any) -> str:
    """The last part of a full name."""
    return str(pb.name).rsplit("/", 1)[-1]


def is_ours(seen: SeenNode | SeenQueued | None, ref: Ref) -> bool:
    """Whether it is what the ref means, and not a namesake."""
    return seen is not None and seen.owner == ref.labels
