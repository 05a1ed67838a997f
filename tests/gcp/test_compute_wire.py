"""Requests to the Compute API, and the phase of each machine status."""

from typing import Any

import pytest
from google.cloud import compute_v1

from activities.providers.gcp.compute_wire import Machine, bulk_of, instance_of
from activities.providers.gcp.doctor import check_order
from activities.providers.gcp.settings import ComputeSettings, read
from activities.providers.port import (
    Host,
    Invalid,
    Order,
    Phase,
)


def compute_order(**fields: Any) -> Order:
    return Order(**{"cluster": "c", "group": "g", "slice": "s", "location": "z", **fields})


def settings_of(**more: Any) -> ComputeSettings:
    return read(ComputeSettings, {"project": "p", "image": "i", "machine_type": "n2-standard-8", **more})


def test_a_machine_is_ordered_as_the_settings_say() -> None:
    settings = settings_of(
        network="global/networks/n",
        subnetwork="regions/r/subnetworks/s",
        external_ips=True,
        service_account="worker@p.iam.gserviceaccount.com",
        tags=["a"],
        disk="250GiB",
        disk_type="pd-ssd",
        capacity="reserved",
        reservation="mine",
        max_run_duration="8h",
        placement_policy="projects/p/regions/r/resourcePolicies/compact",
    )
    one = instance_of(compute_order(), settings, {"k": "v"})
    several = bulk_of(compute_order(hosts=2), settings, {"k": "v"}).instance_properties
    for machine in (one, several):
        assert machine.disks[0].initialize_params.disk_size_gb == 250
        assert machine.network_interfaces[0].subnetwork == "regions/r/subnetworks/s"
        assert machine.network_interfaces[0].access_configs[0].type_ == "ONE_TO_ONE_NAT"
        assert machine.service_accounts[0].email == "worker@p.iam.gserviceaccount.com"
        assert machine.reservation_affinity.values == ["mine"]
        assert machine.scheduling.max_run_duration.seconds == 8 * 3600
        assert machine.resource_policies == ["projects/p/regions/r/resourcePolicies/compact"]
    assert one.machine_type == "zones/z/machineTypes/n2-standard-8"
    assert several.machine_type == "n2-standard-8"
    assert one.disks[0].initialize_params.disk_type == "zones/z/diskTypes/pd-ssd"
    assert several.disks[0].initialize_params.disk_type == "pd-ssd"


@pytest.mark.parametrize(
    ("given", "network", "subnetwork"),
    [
        ({}, "global/networks/default", ""),
        ({"network": "global/networks/n"}, "global/networks/n", ""),
        ({"subnetwork": "regions/r/subnetworks/s"}, "", "regions/r/subnetworks/s"),
        (
            {"network": "global/networks/n", "subnetwork": "regions/r/subnetworks/s"},
            "global/networks/n",
            "regions/r/subnetworks/s",
        ),
    ],
)
def test_the_default_network_is_for_who_names_neither_network_nor_subnetwork(
    given: dict[str, str], network: str, subnetwork: str
) -> None:
    (interface,) = instance_of(compute_order(), settings_of(**given), {}).network_interfaces
    assert (interface.network, interface.subnetwork) == (network, subnetwork)


def test_a_queued_machine_is_flex_start_and_several_cannot_be() -> None:
    machine = instance_of(compute_order(queued=True), settings_of(valid_until="1h"), {})
    assert machine.scheduling.provisioning_model == "FLEX_START"
    assert machine.params.request_valid_for_duration.seconds == 3600
    assert machine.scheduling.max_run_duration.seconds == 7 * 86400
    with pytest.raises(Invalid, match="managed instance groups"):
        bulk_of(compute_order(queued=True, hosts=2), settings_of(), {})


@pytest.mark.parametrize(
    ("group", "given", "message"),
    [
        ({"preemptible": True}, {}, "queued: true .* never spot; set preemptible: false or queued: false"),
        ({"preemptible": True}, {"capacity": "spot"}, "queued: true .* never spot; set preemptible: false or queued: false"),
        ({}, {"capacity": "reserved", "reservation": "r"}, "provider.capacity is reserved, .*; remove .* or set queued: false"),
        ({}, {"max_run_duration": "8d"}, "provider.max_run_duration is 8d, .* at most 7d; lower it or set queued: false"),
    ],
)
def test_a_queued_machine_that_cannot_be_flex_start_is_refused_with_the_fix(
    group: dict[str, Any], given: dict[str, str], message: str
) -> None:
    order = compute_order(queued=True, **group)
    with pytest.raises(Invalid, match=message):
        instance_of(order, settings_of(**given), {})
    settings = {"project": "p", "image": "i", "machine_type": "n2-standard-8", **given}
    with pytest.raises(Invalid, match=message):
        check_order("gce", order.model_copy(update={"settings": settings}))


def test_a_machine_without_an_account_of_its_own_acts_for_the_projects_default() -> None:
    one = instance_of(compute_order(), settings_of(), {})
    several = bulk_of(compute_order(hosts=2), settings_of(), {}).instance_properties
    for machine in (one, several):
        (account,) = machine.service_accounts
        assert (account.email, list(account.scopes)) == ("default", ["https://www.googleapis.com/auth/cloud-platform"])


def test_a_machine_is_a_host_with_its_name_and_the_addresses_of_its_first_interface() -> None:
    access = compute_v1.AccessConfig(nat_i_p="203.0.113.9")
    interface = compute_v1.NetworkInterface(network_i_p="10.0.0.2", access_configs=[access])
    second = compute_v1.NetworkInterface(network_i_p="10.1.0.2")
    machine = Machine(compute_v1.Instance(name="m", network_interfaces=[interface, second]))
    assert machine.host == Host(name="m", address="10.0.0.2", external_address="203.0.113.9")
    internal = compute_v1.Instance(name="m", network_interfaces=[second])
    assert Machine(internal).host == Host(name="m", address="10.1.0.2", external_address="")
    assert Machine(compute_v1.Instance(name="m")).host == Host(name="m", address="", external_address="")


STATUSES = {
    "PENDING": (Phase.QUEUED, Phase.QUEUED),
    "PROVISIONING": (Phase.BOOTING, Phase.BOOTING),
    "STAGING": (Phase.BOOTING, Phase.BOOTING),
    "RUNNING": (Phase.RUNNING, Phase.RUNNING),
    "REPAIRING": (Phase.RUNNING, Phase.RUNNING),
    "STOPPING": (Phase.PREEMPTED, Phase.DELETING),
    "PENDING_STOP": (Phase.PREEMPTED, Phase.DELETING),
    "SUSPENDING": (Phase.PREEMPTED, Phase.DELETING),
    "STOPPED": (Phase.PREEMPTED, Phase.FAILED),
    "SUSPENDED": (Phase.PREEMPTED, Phase.FAILED),
    "TERMINATED": (Phase.PREEMPTED, Phase.FAILED),
    "DEPROVISIONING": (Phase.DELETING, Phase.DELETING),
}


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_of_a_machine_is_a_phase(status: str) -> None:
    spot, standard = (
        Machine(compute_v1.Instance(status=status, scheduling=compute_v1.Scheduling(provisioning_model=model)))
        for model in ("SPOT", "STANDARD")
    )
    assert (spot.phase(frozenset()), standard.phase(frozenset())) == STATUSES[status]


def test_no_status_is_left_out() -> None:
    assert {"UNDEFINED_STATUS", *STATUSES} == set(compute_v1.Instance.Status.__members__)


def test_a_maintenance_that_is_only_planned_changes_nothing() -> None:
    maintenance = compute_v1.UpcomingMaintenance(maintenance_status="PENDING")
    planned = compute_v1.Instance(status="RUNNING", resource_status=compute_v1.ResourceStatus(upcoming_maintenance=maintenance))
    assert not Machine(planned).maintained
    maintenance.maintenance_status = "ONGOING"
    begun = compute_v1.Instance(status="TERMINATED", resource_status=compute_v1.ResourceStatus(upcoming_maintenance=maintenance))
    assert Machine(begun).maintained
