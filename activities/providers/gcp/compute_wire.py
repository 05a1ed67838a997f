"""Machines as the Compute API has them: how they are ordered, and what they say of themselves."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from google.cloud import compute_v1

from activities.providers.gcp import catalogue
from activities.providers.gcp.naming import HEALTH_KEY, HOSTS_LABEL, RESOURCE_LABEL, machine_names, owner, ownership_labels
from activities.providers.gcp.settings import LONGEST_RUN_SECONDS, Capacity, ComputeSettings, Reach
from activities.providers.port import Invalid, Labels, Order, Phase, Ref
from penstock.model.gpu import GPU_MACHINES
from penstock.model.units import format_seconds

_PHASES = {
    "PENDING": Phase.QUEUED,
    "PROVISIONING": Phase.BOOTING,
    "STAGING": Phase.BOOTING,
    "RUNNING": Phase.RUNNING,
    "REPAIRING": Phase.RUNNING,
    "DEPROVISIONING": Phase.DELETING,
}
_STOPPING = ("STOPPING", "PENDING_STOP", "SUSPENDING")
_TAKEN_BACK = ("SPOT", "FLEX_START")
"""How machines are provisioned that Google stops by itself: by preemption, or at the end of their run."""
_GIB = 1 << 30
_DEFAULT_ACCOUNT = "default"
"""How Compute calls the project's default account; a machine that names none has none."""
_RESERVATION_KEY = "compute.googleapis.com/reservation-name"


def instance_of(order: Order, settings: ComputeSettings, metadata: Mapping[str, str]) -> compute_v1.Instance:
    """The one machine of a slice of one, which may wait in a queue."""
    if order.queued:
        _check_flex_start(order, settings)
    zone = f"zones/{order.location}"
    parts = _parts(order, settings, metadata, disk_types=f"{zone}/diskTypes/")
    machine = compute_v1.Instance(name=order.name, machine_type=f"{zone}/machineTypes/{_machine_type(order, settings)}", **parts)
    if settings.placement_policy is not None:
        machine.resource_policies = [settings.placement_policy]
    if order.queued:
        valid = compute_v1.Duration(seconds=int(settings.valid_until_seconds))
        machine.params = compute_v1.InstanceParams(request_valid_for_duration=valid)
    return machine


def bulk_of(order: Order, settings: ComputeSettings, metadata: Mapping[str, str]) -> compute_v1.BulkInsertInstanceResource:
    """All the machines of a slice of several, or none of them."""
    if order.queued:
        raise Invalid("Compute Engine queues several machines together only in managed instance groups; set queued: false")
    properties = compute_v1.InstanceProperties(
        machine_type=_machine_type(order, settings), **_parts(order, settings, metadata, disk_types="")
    )
    if settings.placement_policy is not None:
        properties.resource_policies = [settings.placement_policy]
    names = machine_names(order.ref, order.hosts)
    return compute_v1.BulkInsertInstanceResource(
        count=order.hosts,
        min_count=order.hosts,
        per_instance_properties={name: compute_v1.BulkInsertInstanceResourcePerInstanceProperties() for name in names},
        instance_properties=properties,
    )


def _check_flex_start(order: Order, settings: ComputeSettings) -> None:
    """`Invalid` if the group wants what flex-start machines, which alone wait in a queue, never are."""
    capacity, run = settings.capacity_of(order), settings.max_run_seconds
    if capacity is Capacity.SPOT:
        raise Invalid("queued: true orders flex-start machines, which are never spot; set preemptible: false or queued: false")
    if capacity is Capacity.RESERVED:
        raise Invalid(
            "provider.capacity is reserved, but queued: true orders flex-start machines, which take nothing from a reservation; "
            "remove capacity and reservation, or set queued: false"
        )
    if run is not None and run > LONGEST_RUN_SECONDS:
        longest = format_seconds(LONGEST_RUN_SECONDS)
        raise Invalid(
            f"provider.max_run_duration is {format_seconds(run)}, but queued: true orders flex-start machines, which run "
            f"at most {longest}; lower it or set queued: false"
        )


def _machine_type(order: Order, settings: ComputeSettings) -> str:
    return catalogue.machine_type(settings.machine_type, variant=order.variant)


def _parts(order: Order, settings: ComputeSettings, metadata: Mapping[str, str], *, disk_types: str) -> dict[str, Any]:
    """What a machine has, ordered alone or with others."""
    labels = settings.labels | ownership_labels(order.labels) | {RESOURCE_LABEL: order.name, HOSTS_LABEL: str(order.hosts)}
    disk = compute_v1.AttachedDiskInitializeParams(source_image=settings.image, disk_size_gb=-(-settings.disk_bytes // _GIB))
    if settings.disk_type is not None:
        disk.disk_type = disk_types + settings.disk_type
    return {
        "labels": labels,
        "metadata": compute_v1.Metadata(items=[compute_v1.Items(key=key, value=value) for key, value in metadata.items()]),
        "disks": [compute_v1.AttachedDisk(boot=True, auto_delete=True, initialize_params=disk)],
        "network_interfaces": [_interface(settings)],
        "tags": compute_v1.Tags(items=list(settings.tags)),
        "scheduling": _scheduling(order, settings),
        "reservation_affinity": _reservation(settings),
        "service_accounts": [
            compute_v1.ServiceAccount(email=settings.service_account or _DEFAULT_ACCOUNT, scopes=list(settings.scopes))
        ],
    }


def _interface(settings: ComputeSettings) -> compute_v1.NetworkInterface:
    """Where a machine is connected. A subnetwork names its network by itself, and is refused beside another."""
    interface = compute_v1.NetworkInterface()
    if settings.network is not None or settings.subnetwork is None:
        interface.network = settings.network or "global/networks/default"
    if settings.subnetwork is not None:
        interface.subnetwork = settings.subnetwork
    if settings.external_ips:
        interface.access_configs = [compute_v1.AccessConfig(name="External NAT", type_="ONE_TO_ONE_NAT")]
    return interface


def _scheduling(order: Order, settings: ComputeSettings) -> compute_v1.Scheduling:
    """Preempted machines stop and stay until deleted, so that a preemption is told from a machine that somebody deleted."""
    scheduling = compute_v1.Scheduling()
    spot = settings.capacity_of(order) is Capacity.SPOT
    if order.queued or spot or _machine_type(order, settings) in GPU_MACHINES:
        scheduling.on_host_maintenance = "TERMINATE"
    if order.queued or spot:
        scheduling.provisioning_model = "FLEX_START" if order.queued else "SPOT"
        scheduling.automatic_restart = False
    run = settings.max_run_seconds or (LONGEST_RUN_SECONDS if order.queued else None)
    if run is not None:
        scheduling.max_run_duration = compute_v1.Duration(seconds=int(run))
    if order.queued or spot or run is not None:
        scheduling.instance_termination_action = "STOP"
    return scheduling


def _reservation(settings: ComputeSettings) -> compute_v1.ReservationAffinity:
    if settings.capacity is Capacity.RESERVED:
        return compute_v1.ReservationAffinity(
            consume_reservation_type="SPECIFIC_RESERVATION", key=_RESERVATION_KEY, values=[settings.reservation or ""]
        )
    return compute_v1.ReservationAffinity(consume_reservation_type="NO_RESERVATION")


class Machine(NamedTuple):
    """A machine that exists, as it was sent."""

    sent: compute_v1.Instance

    @property
    def owner(self) -> Labels | None:
        """Whose it is, if it is ours and this provider's: machines of TPU nodes are listed among instances too."""
        if RESOURCE_LABEL not in self.sent.labels or not self.sent.labels.get(HOSTS_LABEL, "").isdecimal():
            return None
        return owner(self.sent.labels, self._metadata)

    @property
    def health_said(self) -> str | None:
        """How it wants to be asked, if it says so."""
        return self._metadata.get(HEALTH_KEY)

    @property
    def _metadata(self) -> dict[str, str]:
        return {item.key: item.value for item in self.sent.metadata.items}

    @property
    def slice_name(self) -> str:
        """The name of the slice that it is a part of."""
        return str(self.sent.labels[RESOURCE_LABEL])

    @property
    def hosts(self) -> int:
        """How many machines the slice has."""
        return int(self.sent.labels[HOSTS_LABEL])

    @property
    def stopping(self) -> bool:
        """Whether it is on its way out, by anyone's will."""
        return self.sent.status in _STOPPING

    @property
    def maintained(self) -> bool:
        """Whether Google took it out of service to mend it, or its host."""
        maintenance = self.sent.resource_status.upcoming_maintenance
        return self.sent.status == "REPAIRING" or bool(maintenance.maintenance_status == "ONGOING")

    @property
    def taken_back(self) -> bool:
        """Whether it is of the sort that Google stops by itself."""
        return self.sent.scheduling.provisioning_model in _TAKEN_BACK

    @property
    def created_at(self) -> datetime:
        """When it was ordered."""
        return datetime.fromisoformat(self.sent.creation_timestamp)

    def phase(self, being_deleted: frozenset[str]) -> Phase:
        """Its status; one that stops is deleted if a deletion of it is under way, else taken back or stopped by a hand."""
        if (known := _PHASES.get(self.sent.status)) is not None:
            return known
        if self.sent.self_link in being_deleted:
            return Phase.DELETING
        return Phase.PREEMPTED if self.taken_back else Phase.DELETING if self.stopping else Phase.FAILED

    def address(self, reach: Reach) -> str | None:
        """Where it is reached, once it has an address."""
        for interface in self.sent.network_interfaces:
            if reach is Reach.INTERNAL:
                return interface.network_i_p or None
            return next((access.nat_i_p or None for access in interface.access_configs), None)
        return None


_TELLING = (Phase.PREEMPTED, Phase.FAILED, Phase.QUEUED, Phase.BOOTING, Phase.RUNNING)
"""What one machine says of the slice: one lost is all lost, and the slice is as far as the last of them."""


class Slice(NamedTuple):
    """The machines of one slice that exist, in the order of its hosts."""

    ref: Ref
    machines: tuple[Machine, ...]
    being_deleted: frozenset[str] = frozenset()

    @property
    def phase(self) -> Phase:
        """Where the slice is. A machine that is missing from the others, or about to be, is a host that is silent."""
        phases = [machine.phase(self.being_deleted) for machine in self.machines]
        staying = [phase for phase in phases if phase is not Phase.DELETING]
        return min(staying, key=_TELLING.index, default=Phase.DELETING)

    @property
    def places(self) -> tuple[Machine | None, ...]:
        """A machine for each host, or None where it is missing."""
        by_name = {machine.sent.name: machine for machine in self.machines}
        return tuple(by_name.get(name) for name in machine_names(self.ref, self.machines[0].hosts))

    @property
    def created_at(self) -> datetime:
        """When the first of them was ordered."""
        return min(machine.created_at for machine in self.machines)


def slices_of(machines: Sequence[Machine], location: str, being_deleted: frozenset[str]) -> list[Slice]:
    """Our machines put together, by the name of their slice."""
    parts: dict[tuple[str, Labels], list[Machine]] = {}
    for machine in machines:
        if (labels := machine.owner) is not None:
            parts.setdefault((machine.slice_name, labels), []).append(machine)
    return [
        Slice(Ref(location=location, name=name, labels=labels), tuple(found), being_deleted)
        for (name, labels), found in sorted(parts.items(), key=lambda part: part[0][0])
    ]
