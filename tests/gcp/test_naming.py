"""Valid names and labels for slices, groups and clusters with any name."""

import re

from hypothesis import given
from hypothesis import strategies as st

from activities.providers.gcp.naming import (
    label_value,
    machine_names,
    owner,
    ownership_labels,
    ownership_metadata,
    request_id,
)
from activities.providers.port import Labels, Order, Ref, resource_name

LABEL = re.compile(r"[a-z0-9_-]{0,63}")
NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
texts = st.text(min_size=1)


def labels(cluster: str = "prod", group: str = "v5e.16", slice_id: str = "V5e-1") -> Labels:
    return Labels(cluster=cluster, group=group, slice=slice_id)


@given(texts, texts)
def test_any_text_has_a_label_of_its_own(one: str, other: str) -> None:
    assert LABEL.fullmatch(label_value(one))
    assert (label_value(one) == label_value(other)) == (one == other)


def test_a_text_that_is_a_label_stays_as_it_is() -> None:
    assert label_value("us-west_4") == "us-west_4"
    assert label_value("v5e.16") == "v5e-16-" + label_value("v5e.16").rsplit("-", 1)[1]


def test_ours_is_what_labels_and_metadata_say_together() -> None:
    mine = labels()
    assert owner(ownership_labels(mine), ownership_metadata(mine)) == mine
    assert owner(ownership_labels(mine), {}) is None
    assert owner({}, ownership_metadata(mine)) is None
    assert owner(ownership_labels(labels(slice_id="v5e-2")), ownership_metadata(mine)) is None
    assert owner({"team": "a", **ownership_labels(mine)}, {"x": "y", **ownership_metadata(mine)}) == mine


@given(texts, st.integers(1, 70))
def test_machines_have_names_of_their_own_and_the_first_has_the_slices(slice_id: str, hosts: int) -> None:
    ref = Ref(location="z", name=resource_name(cluster="c", group="g", slice_id=slice_id), labels=labels())
    names = machine_names(ref, hosts)
    assert names[0] == ref.name
    assert len(set(names)) == hosts
    assert all(NAME.fullmatch(name) for name in names)


def test_a_request_id_is_the_same_for_the_same_order_and_for_no_other() -> None:
    def order(slice_id: str, zone: str = "z") -> Order:
        return Order(cluster="c", group="g", slice=slice_id, location=zone)

    ids = [
        request_id(order("one"), project="p"),
        request_id(order("one"), project="p", attempt=1),
        request_id(order("one"), project="q"),
        request_id(order("one", "y"), project="p"),
        request_id(order("two"), project="p"),
    ]
    assert len(set(ids)) == 5
    assert request_id(order("one").ref, project="p") == ids[0]
