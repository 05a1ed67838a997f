"""The values of the port: names that every cloud accepts, and the properties of a sighting."""

import re

from hypothesis import given
from hypothesis import strategies as st

from activities.providers.port import Host, Labels, Phase, Ref, Sighting, resource_name

RFC1035 = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


@given(st.text(), st.text(), st.text())
def test_any_slice_has_a_name_that_clouds_accept(cluster: str, group: str, slice_id: str) -> None:
    assert RFC1035.fullmatch(resource_name(cluster=cluster, group=group, slice_id=slice_id))


@given(st.tuples(st.text(), st.text(), st.text()), st.tuples(st.text(), st.text(), st.text()))
def test_different_slices_have_different_names(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    names = {resource_name(cluster=cluster, group=group, slice_id=slice_id) for cluster, group, slice_id in (one, other)}
    assert len(names) == len({one, other})


def test_a_name_begins_with_the_slice_id_and_never_changes() -> None:
    """Running resources are found by name: a version with other names would lose them all."""
    assert resource_name(cluster="prod", group="v5e-16", slice_id="v5e-16-7f3a9c") == "v5e-16-7f3a9c-d8daa83808"
    assert resource_name(cluster="prod", group="v5e-16", slice_id="16_Hosts!") == "s-16-hosts-e2434e936b"


def seen(*hosts: Host) -> Sighting:
    labels = Labels(cluster="prod", group="v5e-16", slice="a1")
    return Sighting(ref=Ref(location="us-west4-a", name="a1", labels=labels), phase=Phase.RUNNING, hosts=hosts)


def test_a_slice_is_healthy_when_every_host_answers_with_its_id() -> None:
    well = Host(name="a1-0", address="10.0.0.1", asked=True, answered="a1")
    assert seen(well, well).healthy
    assert not seen(well, Host(name="a1-1", address="10.0.0.2", asked=True)).healthy
    assert not seen(well, Host(name="a1-1", address="10.0.0.2", asked=True, answered="b2")).healthy
    assert not seen().healthy


def test_a_slice_is_addressed_when_every_host_has_an_address() -> None:
    assert seen(Host(name="a1-0", address="10.0.0.1"), Host(name="a1-1", address="10.0.0.2")).addressed
    assert not seen(Host(name="a1-0", address="10.0.0.1"), Host(name="a1-1", address="")).addressed
    assert not seen().addressed
