"""JSON encoding of the ledger: every field is kept, and equal locations are stored once."""

import json
from datetime import UTC, datetime

from pydantic import TypeAdapter

from penstock.model.failures import Notice, NoticeKind
from penstock.model.ledger import Ledger, UsageTable
from penstock.model.left_behind import LeftBehind
from penstock.model.location import Location
from penstock.model.packed import pack, unpack
from penstock.model.sightings import HostAddress
from penstock.model.slices import DrainTerms, HostState, HostUsage, Slice, SliceState, SliceUsage

NOW = datetime(2026, 1, 1, 12, 30, 0, 250_000, tzinfo=UTC)
THERE = Location(provider="gce", account="gce:p", name="us-west4-a", settings={"project": "p", "labels": {"team": "x"}})
ELSEWHERE = THERE.model_copy(update={"name": "us-east1-b"})
HOSTS = (
    HostAddress(name="a-0", address="10.0.0.1", external_address="34.1.2.3"),
    HostAddress(name="a-1", address="10.0.0.2"),
    HostAddress(),
)
FULL = Slice(
    id="a",
    group="g",
    state=SliceState.DRAINING,
    since=NOW,
    queued=True,
    drain=DrainTerms(cause="idle", detail="for 10m", force=True, number=3, deadline=NOW),
    cause="demand",
    source="queue",
    joined=True,
    unnamed=NOW,
    unclaimed=NOW,
    started=False,
    adopted=True,
    created_at=NOW,
    location=THERE,
    hosts=HOSTS,
    left=LeftBehind(pool="p", chips=8, idle_timeout_seconds=60.0, cancel_after_seconds=1.0, keep_queued=True, price_per_hour=2.5),
    fingerprint="0a1b2c3d",
    replaces="b",
    home="h",
    idle_since=NOW,
    unneeded_since=NOW,
    degraded_since=NOW,
    received_at=NOW,
    unconfirmed_at=NOW,
    kept_until=NOW,
    cordoned=True,
    notice=Notice(kind=NoticeKind.MAINTENANCE, until=NOW),
    confirmed_empty=True,
    returning=True,
    sequence=7,
)
PLAIN = Slice(id="b", group="g", state=SliceState.READY)
LEDGER: TypeAdapter[tuple[Slice, ...]] = TypeAdapter(Ledger)
USAGE: TypeAdapter[dict[str, SliceUsage]] = TypeAdapter(UsageTable)


def test_every_field_of_a_slice_survives_json() -> None:
    assert all(getattr(FULL, name) != field.get_default() for name, field in Slice.model_fields.items()), "a field is not tested"
    for slices in ((), (PLAIN,), (FULL, PLAIN, FULL.model_copy(update={"id": "c", "location": ELSEWHERE, "hosts": HOSTS[:1]}))):
        assert LEDGER.validate_json(LEDGER.dump_json(slices)) == slices


def test_a_location_of_many_slices_is_stored_once() -> None:
    slices = tuple(FULL.model_copy(update={"id": f"s{i}"}) for i in range(50))
    locations, _, _ = unpack(json.loads(LEDGER.dump_json((*slices, FULL.model_copy(update={"location": ELSEWHERE})))))
    assert [location["name"] for location in locations] == ["us-west4-a", "us-east1-b"]


def test_slices_that_were_stored_without_newer_fields_are_read_with_what_they_kept_of_a_removed_group() -> None:
    kept = {"id": ["a", "b"], "group": ["g", "h"], "state": ["READY", "READY"], "since": [NOW.timestamp(), None]}
    columns = kept | {
        "drain": [None, None],
        "location": [None, None],
        "hosts": [0, 0],
        "pool": ["p", None],
        "chips": [8, 0],
        "idle_timeout_seconds": [60.0, None],
    }
    gone, configured = LEDGER.validate_python(pack([[], {}, columns]))
    assert gone.left == LeftBehind(pool="p", chips=8, idle_timeout_seconds=60.0)
    assert configured.left is None


def test_every_field_of_a_hosts_usage_survives_json() -> None:
    full = HostUsage(state=HostState.BUSY, reserved={"cpu": 2}, tasks=("t",), gangs=("g",), idle_since=NOW, do_not_disrupt=True)
    assert all(getattr(full, name) != field.get_default() for name, field in HostUsage.model_fields.items()), "one is not tested"
    some: dict[str, SliceUsage] = {"a": (full, HostUsage())}
    for usage in ({}, some):
        assert USAGE.validate_json(USAGE.dump_json(usage)) == usage
