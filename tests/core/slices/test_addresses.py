"""Addresses of hosts, from a look at the cloud through watch, lifecycle and report to the ledger."""

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.contract.slices import SliceLifecycle
from penstock.core.slices.lifecycle import Observed, advance, report_of
from penstock.core.slices.watch import pack_notified, recalled, unpack_notified
from penstock.core.state.specs import initial_lifecycle
from penstock.core.state.state import AutoscalerState
from penstock.model.failures import Phase
from penstock.model.sightings import Host, HostAddress, Sighting
from penstock.model.slices import Slice, SliceState
from tests.core.slices.looks import CLUSTER, GROUP, HEALTHY, RUNNING, UNADDRESSED, WELL, Watch, changed, hosts, sighting
from tests.core.state.ledgers import after_reports, audited, cluster, ordered

MOVED = hosts("s1", "s1", first=7)


def unchecked(found: Sequence[Host]) -> tuple[Host, ...]:
    return tuple(changed_host(host, asked=False, answered=None) for host in found)


def changed_host(host: Host, **changes: Any) -> Host:
    return host.model_copy(update=changes)


@pytest.mark.parametrize(
    "seen",
    [
        sighting(hosts=unchecked(MOVED)),
        sighting(hosts=MOVED, checked=True),
        sighting(hosts=unchecked(MOVED), checked=True),
        changed(RUNNING, hosts=(RUNNING.hosts[0], changed_host(RUNNING.hosts[1], external_address="192.0.2.1"))),
    ],
    ids=["listed", "healthy", "silent", "an external address"],
)
def test_a_host_whose_address_changes_is_notified_once(seen: Sighting) -> None:
    watch = Watch(s1=WELL)
    (notified,) = watch.look(seen)
    assert notified.addresses == seen.addresses
    assert notified.lost_hosts == ()
    assert not watch.look(seen)
    assert watch.known["s1"].healthy, "new addresses alone do not make a slice unhealthy"


def test_hosts_that_get_their_addresses_one_by_one_are_notified_once_they_all_have_one() -> None:
    watch, every = Watch(), hosts(None, None, None)
    for addressed in range(3):
        seen = sighting(hosts=(*every[:addressed], *(Host(name=host.name) for host in every[addressed:])))
        assert [s.addressed for s in watch.look(seen)] == ([False] if addressed == 0 else [])
    assert [s.addressed for s in watch.look(sighting(hosts=every))] == [True]


def test_a_host_that_loses_its_address_and_gets_it_back_is_no_change_of_addresses() -> None:
    watch = Watch(s1=WELL)
    assert not watch.look(changed(RUNNING, hosts=UNADDRESSED))
    assert not watch.look(RUNNING)
    assert [s.addresses for s in watch.look(sighting(hosts=MOVED, checked=True))] == [sighting(hosts=MOVED).addresses]


def test_addresses_that_changed_while_no_worker_watched_are_notified_if_the_ledger_has_the_old_ones() -> None:
    ready = Slice(id="s1", group="small", state=SliceState.READY, hosts=RUNNING.addresses)
    assert not Watch(**recalled({}, [ready])).look(RUNNING)
    (notified,) = Watch(**recalled({}, [ready])).look(sighting(hosts=unchecked(MOVED)))
    assert notified.addresses == sighting(hosts=MOVED).addresses


def test_a_watch_that_resumes_from_a_packed_table_notices_new_addresses() -> None:
    resumed = unpack_notified(pack_notified({"s1": WELL}))
    assert not Watch(**resumed).look(RUNNING)
    assert len(Watch(**resumed).look(sighting(hosts=unchecked(MOVED)))) == 1


class WatchedSlice:
    """A slice of two hosts whose watch notifies its lifecycle, which reports to a ledger."""

    def __init__(self) -> None:
        state = ordered(cluster({"name": GROUP, "hosts_per_slice": 2}, cluster=CLUSTER), "s1", group=GROUP)
        lifecycle = initial_lifecycle(state, state.by_id["s1"], state.now)
        assert lifecycle is not None
        self.watch, self.state, self.lifecycle = Watch(), state, lifecycle

    def look(self, seen: Sighting) -> tuple[HostAddress, ...]:
        """The addresses in the ledger after a look."""
        for notified in self.watch.look(seen):
            self.lifecycle = advance(self.lifecycle, Observed(self.watch.at, notified))
        self.state = after_reports(self.state, report_of(self.lifecycle))
        return self.state.by_id["s1"].hosts


def test_the_ledger_has_the_addresses_that_the_last_look_showed() -> None:
    watched, moved = WatchedSlice(), sighting(hosts=unchecked(MOVED))
    assert watched.look(sighting(phase=Phase.BOOTING)) == ()
    assert watched.look(changed(RUNNING, hosts=UNADDRESSED)) == ()
    assert watched.look(RUNNING) == RUNNING.addresses
    assert watched.look(HEALTHY) == RUNNING.addresses
    assert watched.look(moved) == moved.addresses == watched.lifecycle.hosts
    assert watched.look(changed(RUNNING, hosts=UNADDRESSED)) == moved.addresses
    assert watched.state.by_id["s1"].state is SliceState.READY


def test_new_addresses_alone_are_a_change_that_the_slice_reports() -> None:
    watched = WatchedSlice()
    watched.look(HEALTHY)
    before = watched.lifecycle
    watched.look(sighting(hosts=unchecked(MOVED)))
    assert (watched.lifecycle.state, watched.lifecycle.since) == (SliceState.READY, before.since)
    assert report_of(watched.lifecycle).sequence == before.sequence + 1 == watched.state.by_id["s1"].sequence


@pytest.mark.parametrize("kind", [AutoscalerState, SliceLifecycle])
def test_addresses_survive_the_serialization_of_ledger_and_lifecycle(kind: type[AutoscalerState | SliceLifecycle]) -> None:
    watched = WatchedSlice()
    external = tuple(changed_host(host, external_address=f"192.0.2.{i}") for i, host in enumerate(HEALTHY.hosts))
    watched.look(changed(HEALTHY, hosts=external))
    value = watched.state if kind is AutoscalerState else watched.lifecycle
    read = kind.model_validate_json(value.model_dump_json())
    assert read == value
    found = read.by_id["s1"].hosts if isinstance(read, AutoscalerState) else read.hosts
    assert [(host.name, host.address, host.external_address) for host in found] == [
        ("host-0", "10.0.0.1", "192.0.2.0"),
        ("host-1", "10.0.0.2", "192.0.2.1"),
    ]


def test_an_adopted_slice_enters_ledger_and_lifecycle_with_the_addresses_that_the_audit_saw() -> None:
    state = audited(cluster({"name": GROUP, "hosts_per_slice": 2}, cluster=CLUSTER), orphans=(RUNNING,))
    assert state.by_id["s1"].hosts == RUNNING.addresses
    lifecycle = initial_lifecycle(state, state.by_id["s1"], state.now)
    assert lifecycle is not None
    assert lifecycle.hosts == report_of(lifecycle).hosts == RUNNING.addresses
