"""Requests to the Cloud TPU API, and the phase of each state of nodes and queued resources."""

from datetime import timedelta
from typing import Any

import pytest
from google.cloud import tpu_v2

from activities.providers.gcp.naming import ownership_labels, ownership_metadata
from activities.providers.gcp.settings import TpuSettings, read
from activities.providers.gcp.tpu_wire import NodeView, QueuedView, node_of, phase_and_failure, queued_of
from activities.providers.port import Host, Labels, Order, Phase

STATES = {
    "CREATING": Phase.BOOTING,
    "STARTING": Phase.BOOTING,
    "READY": Phase.RUNNING,
    "RESTARTING": Phase.RUNNING,
    "REIMAGING": Phase.RUNNING,
    "REPAIRING": Phase.RUNNING,
    "UNHIDING": Phase.RUNNING,
    "UNKNOWN": Phase.RUNNING,
    "STOPPING": Phase.FAILED,
    "STOPPED": Phase.FAILED,
    "PREEMPTED": Phase.PREEMPTED,
    "TERMINATED": Phase.PREEMPTED,
    "DELETING": Phase.DELETING,
    "HIDING": Phase.DELETING,
    "HIDDEN": Phase.DELETING,
    "STATE_UNSPECIFIED": Phase.BOOTING,
}


@pytest.mark.parametrize("state", tpu_v2.Node.State, ids=lambda state: state.name)
def test_every_state_of_a_node_is_a_phase(state: tpu_v2.Node.State) -> None:
    node = NodeView(tpu_v2.Node.pb(tpu_v2.Node(state=state, accelerator_type="v4-16")))
    assert node.phase is STATES[state.name]
    assert (node.failure is not None) == (node.phase is Phase.FAILED or state.name == "REPAIRING")
    assert node.serving == (node.phase in (Phase.BOOTING, Phase.RUNNING))


QUEUE = tpu_v2.QueuedResourceState
OURS = Labels(cluster="c", group="g", slice="s")
OTHERS = Labels(cluster="c", group="g", slice="t")


def seen(state: tpu_v2.Node.State, queued: tpu_v2.QueuedResourceState, labels: Labels = OURS) -> tuple[NodeView, QueuedView]:
    """A node of ours, and the queued resource of its name."""
    node, asked = (
        tpu_v2.Node(state=state, accelerator_type="v4-8", labels=ownership_labels(whose), metadata=ownership_metadata(whose))
        for whose in (OURS, labels)
    )
    resource = tpu_v2.QueuedResource(tpu={"node_spec": [{"node": asked}]}, state=queued)
    return NodeView(tpu_v2.Node.pb(node)), QueuedView(tpu_v2.QueuedResource.pb(resource))


@pytest.mark.parametrize("suspended", [QUEUE.State.SUSPENDING, QUEUE.State.SUSPENDED], ids=lambda state: state.name)
@pytest.mark.parametrize("state", tpu_v2.Node.State, ids=lambda state: state.name)
def test_a_node_whose_queued_resource_google_suspends_is_preempted_in_every_state(
    state: tpu_v2.Node.State, suspended: tpu_v2.QueuedResourceState.State
) -> None:
    by_google = QUEUE(state=suspended, state_initiator=QUEUE.StateInitiator.SERVICE)
    assert phase_and_failure(*seen(state, by_google)) == (Phase.PREEMPTED, None)


@pytest.mark.parametrize("state", tpu_v2.Node.State, ids=lambda state: state.name)
def test_a_node_goes_by_its_own_state_otherwise(state: tpu_v2.Node.State) -> None:
    by_google = QUEUE(state=QUEUE.State.SUSPENDED, state_initiator=QUEUE.StateInitiator.SERVICE)
    by_user = QUEUE(state=QUEUE.State.SUSPENDED, state_initiator=QUEUE.StateInitiator.USER)
    for queued in (QUEUE(state=QUEUE.State.ACTIVE), by_user):
        assert phase_and_failure(*seen(state, queued))[0] is STATES[state.name]
    assert phase_and_failure(*seen(state, by_google, OTHERS))[0] is STATES[state.name]


QUEUED_STATES = {
    "CREATING": Phase.QUEUED,
    "ACCEPTED": Phase.QUEUED,
    "WAITING_FOR_RESOURCES": Phase.QUEUED,
    "PROVISIONING": Phase.BOOTING,
    "ACTIVE": Phase.FAILED,
    "FAILED": Phase.FAILED,
    "SUSPENDING": Phase.PREEMPTED,
    "SUSPENDED": Phase.PREEMPTED,
    "DELETING": Phase.DELETING,
    "STATE_UNSPECIFIED": Phase.QUEUED,
}


@pytest.mark.parametrize("state", tpu_v2.QueuedResourceState.State, ids=lambda state: state.name)
def test_every_state_of_a_queued_resource_without_a_node_is_a_phase(state: tpu_v2.QueuedResourceState.State) -> None:
    queued = QueuedView(tpu_v2.QueuedResource.pb(tpu_v2.QueuedResource(state=tpu_v2.QueuedResourceState(state=state))))
    assert queued.phase is QUEUED_STATES[state.name]


def test_a_queued_resource_that_a_user_suspended_was_not_preempted() -> None:
    by = tpu_v2.QueuedResourceState.StateInitiator.USER
    state = tpu_v2.QueuedResourceState(state=tpu_v2.QueuedResourceState.State.SUSPENDED, state_initiator=by)
    assert QueuedView(tpu_v2.QueuedResource.pb(tpu_v2.QueuedResource(state=state))).phase is Phase.FAILED


def test_the_hosts_of_a_node_have_its_name_with_a_worker_number_and_the_addresses_of_their_endpoints() -> None:
    endpoint = tpu_v2.NetworkEndpoint(ip_address="10.0.0.2", access_config=tpu_v2.AccessConfig(external_ip="203.0.113.9"))
    internal = tpu_v2.NetworkEndpoint(ip_address="10.0.0.3")
    name = "projects/p/locations/z/nodes/n"
    node = tpu_v2.Node(name=name, accelerator_type="v4-32", network_endpoints=[endpoint, internal])
    assert NodeView(tpu_v2.Node.pb(node)).hosts == (
        Host(name="n-w-0", address="10.0.0.2", external_address="203.0.113.9"),
        Host(name="n-w-1", address="10.0.0.3", external_address=""),
        Host(name="n-w-2", address="", external_address=""),
        Host(name="n-w-3", address="", external_address=""),
    )


def tpu_order(**fields: Any) -> Order:
    return Order(**{"cluster": "c", "group": "g", "slice": "s", "location": "z", "hosts": 2, "variant": "v4-16", **fields})


def test_a_node_is_ordered_as_the_settings_say() -> None:
    settings = read(
        TpuSettings,
        {
            "project": "p",
            "network": "global/networks/n",
            "subnetwork": "regions/r/subnetworks/s",
            "external_ips": True,
            "service_account": "worker@p.iam.gserviceaccount.com",
            "runtime_version": "my-runtime",
            "tags": ["a"],
            "capacity": "reserved",
            "reservation": "mine",
        },
    )
    node = node_of(tpu_order(), settings, {"k": "v"})
    assert (node.network_config.network, node.network_config.enable_external_ips) == ("global/networks/n", True)
    assert (node.service_account.email, node.runtime_version) == ("worker@p.iam.gserviceaccount.com", "my-runtime")
    assert (node.scheduling_config.reserved, node.scheduling_config.spot) == (True, False)
    queued = queued_of(tpu_order(), settings, node, parent="projects/p/locations/z")
    assert "guaranteed" in queued
    assert queued.reservation_name == "projects/p/locations/z/reservations/mine"
    shared = settings.model_copy(update={"reservation": "projects/q/locations/z/reservations/ours"})
    queued = queued_of(tpu_order(), shared, node, parent="projects/p/locations/z")
    assert queued.reservation_name == "projects/q/locations/z/reservations/ours"


def test_a_queued_resource_is_spot_or_guaranteed_as_its_group_is() -> None:
    settings = read(TpuSettings, {"project": "p", "valid_until": "2d"})
    spot = queued_of(tpu_order(preemptible=True), settings, tpu_v2.Node(), parent="projects/p/locations/z")
    assert "spot" in spot
    assert "guaranteed" not in spot
    assert spot.queueing_policy.valid_until_duration == timedelta(days=2)
    assert "guaranteed" in queued_of(tpu_order(), settings, tpu_v2.Node(), parent="projects/p/locations/z")
