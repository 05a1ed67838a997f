"""Conversions for the Compute API: an order into insert requests, listed machines into slices."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from google.cloud import compute_v1

from activities.providers.gcp import catalogue
from activities.providers.gcp.naming import HEALTH_KEY, HOSTS_LABEL, RESOURCE_LABEL, machine_names, owner, ownership_labels
from activities.providers.gcp.settings import LONGEST_RUN_SECONDS, Capacity, ComputeSettings
from activities.providers.port import Host, Invalid, Labels, Order, Phase, Ref
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
_STOPPED_BY_GOOGLE = ("SPOT", "FLEX_START")
"""Provisioning models of machines that Google stops itself: by preemption, or at the end of their run."""
_GIB = 1 << 30
_DEFAULT_ACCOUNT = "default"
"""Compute's name of the project's default service account; a machine without a name gets no account."""
_RESERVATION_KEY = "compute.googleapis.com/reservation-name"


def instance_of(order: Order, settings: ComputeSettings, metadata: Mapping[str, str]) -> compute_v1.Instance:
    """The machine of a slice with one host, which may be queued."""
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
    """The machines of a slice with several hosts: all are created, or none."""
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
    """Raise `Invalid` if the group has settings that flex-start machines, the only queued ones, do not allow."""
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
    """The properties of a machine, in a single insert or a bulk insert."""
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
    """The network interface. A subnetwork implies its network; the API refuses a different network beside it."""
    interface = compute_v1.NetworkInterface()
    if settings.network is not None or settings.subnetwork is None:
        interface.network = settings.network or "global/networks/default"
    if settings.subnetwork is not None:
        interface.subnetwork = settings.subnetwork
    if settings.external_ips:
        interface.access_configs = [compute_v1.AccessConfig(name="External NAT", type_="ONE_TO_ONE_NAT")]
    return interface


def _scheduling(order: Order, settings: ComputeSettings) -> compute_v1.Scheduling:
    """Preempted machines are stopped, not deleted, so that a preemption can be distinguished from a deletion by hand."""
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
    """An existing machine."""

    pb: compute_v1.Instance

    @property
    def owner(self) -> Labels | None:
        """Its owner; None unless it is ours and this provider's: machines of TPU nodes are listed as instances too."""
        if RESOURCE_LABEL not in self.pb.labels or not self.pb.labels.get(HOSTS_LABEL, "").isdecimal():
            return None
        return owner(self.pb.labels, self._metadata)

    @property
    def health_metadata(self) -> str | None:
        """The health settings in its metadata, if it has any."""
        return self._metadata.get(HEALTH_KEY)

    @property
    def _metadata(self) -> dict[str, str]:
        return {item.key: item.value for item in self.pb.metadata.items}

    @property
    def slice_name(self) -> str:
        """The resource name of its slice."""
        return str(self.pb.labels[RESOURCE_LABEL])

    @property
    def hosts(self) -> int:
        """The number of machines of its slice."""
        return int(self.pb.labels[HOSTS_LABEL])

    @property
    def stopping(self) -> bool:
        """Whether it is stopping, for any reason."""
        return self.pb.status in _STOPPING

    @property
    def maintained(self) -> bool:
        """Whether Google took it, or its host, out of service for maintenance."""
        maintenance = self.pb.resource_status.upcoming_maintenance
        return self.pb.status == "REPAIRING" or bool(maintenance.maintenance_status == "ONGOING")

    @property
    def stopped_by_google(self) -> bool:
        """Whether Google stops such machines itself: spot and flex-start ones."""
        return self.pb.scheduling.provisioning_model in _STOPPED_BY_GOOGLE

    @property
    def created_at(self) -> datetime:
        """The time of its order."""
        return datetime.fromisoformat(self.pb.creation_timestamp)

    def phase(self, being_deleted: frozenset[str]) -> Phase:
        """By its status. A stopping machine is deleted if its deletion is in progress, else preempted or stopped by hand."""
        if (known := _PHASES.get(self.pb.status)) is not None:
            return known
        if self.pb.self_link in being_deleted:
            return Phase.DELETING
        return Phase.PREEMPTED if self.stopped_by_google else Phase.DELETING if self.stopping else Phase.FAILED

    @property
    def host(self) -> Host:
        """The host before its health check: its name, and the addresses of its first network interface."""
        internal = external = ""
        for interface in self.pb.network_interfaces[:1]:
            internal = interface.network_i_p
            external = next((access.nat_i_p for access in interface.access_configs if access.nat_i_p), "")
        return Host(name=self.pb.name, address=internal, external_address=external)


_DECISIVE = (Phase.PREEMPTED, Phase.FAILED, Phase.QUEUED, Phase.BOOTING, Phase.RUNNING)
"""The phase of a slice by its machines: a lost one ends the slice, else the one that is least advanced counts."""


class Slice(NamedTuple):
    """The existing machines of one slice."""

    ref: Ref
    machines: tuple[Machine, ...]
    being_deleted: frozenset[str] = frozenset()

    @property
    def phase(self) -> Phase:
        """The phase of the slice. A machine that is missing or being deleted is a host that does not answer."""
        phases = [machine.phase(self.being_deleted) for machine in self.machines]
        staying = [phase for phase in phases if phase is not Phase.DELETING]
        return min(staying, key=_DECISIVE.index, default=Phase.DELETING)

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Its hosts before their health checks, in order; the host of a missing machine has no address."""
        existing = {machine.pb.name: machine.host for machine in self.machines}
        names = machine_names(self.ref, self.machines[0].hosts)
        return tuple(existing.get(name) or Host(name=name, address="") for name in names)

    @property
    def created_at(self) -> datetime:
        """The time of the first order."""
        return min(machine.created_at for machine in self.machines)


def slices_of(machines: Sequence[Machine], location: str, being_deleted: frozenset[str]) -> list[Slice]:
    """Our machines grouped into slices, sorted by name."""
    parts: dict[tuple[str, Labels], list[Machine]] = {}
    for machine in machines:
        if (labels := machine.owner) is not None:
            parts.setdefault((machine.slice_name, labels), []).append(machine)
    return [
        Slice(Ref(location=location, name=name, labels=labels), tuple(found), being_deleted)
        for (name, labels), found in sorted(parts.items(), key=lambda part: part[0][0])
    ]
