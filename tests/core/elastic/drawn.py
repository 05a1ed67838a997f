"""What is drawn for the stories of the machine: groups, jobs, faults and settings."""

from typing import Any

from hypothesis import strategies as st

from penstock.model.failures import NoticeKind
from tests.core.elastic.queue_controller import SLOTS

GROUPS: tuple[dict[str, Any], ...] = (
    {"name": "cpu", "zone": "a", "host": {"cpu": 4}, "price_per_hour": 1.0},
    {"name": "spare", "zone": "b", "host": {"cpu": 4}, "price_per_hour": 2.0, "priority": 200},
    {
        "name": "pod",
        "zone": "a",
        "device": {"type": "tpu"},
        "host": {"cpu": 8, "tpu": 4},
        "hosts_per_slice": 2,
        "price_per_hour": 8.0,
        "pool": "chips",
    },
)
QUEUE: dict[str, Any] = {
    "name": "queue",
    "zone": "b",
    "drive": "pressure",
    "slots_per_slice": SLOTS,
    "host": {"cpu": 4},
    "price_per_hour": 1.0,
    "priority": 300,
    "idle_timeout": "5m",
}
"""The group that reports of pressure drive."""
CHIPS = 24
JOBS = {
    "small": {"cpu": 1},
    "half": {"cpu": 2},
    "whole": {"cpu": 4},
    "chip": {"cpu": 1, "tpu": 4},
    "pair": {"cpu": 1, "tpu": 4, "gang": 2},
    "four": {"cpu": 1, "tpu": 4, "gang": 4},
    "duo": {"cpu": 4, "gang": 2},
    "huge": {"cpu": 64},
}
FAULTS: tuple[dict[str, Any], ...] = (
    {},
    {"stockout": True},
    {"stockout_after": 1},
    {"lost_replies": 2},
    {"failing_deletes": 3},
    {"partial_lists": True},
    {"create_latency": 1500},
    {"boot_latency": 900},
    {"hold_queue": True},
)

WINDOWS: tuple[dict[str, str], ...] = ({"hours": "00:00-01:00"}, {"hours": "01:00-03:00"}, {"hours": "02:00-24:00"})
"""Stories begin at midnight, and last some hours."""

providers = st.sampled_from(({"kind": "sim"}, {"kind": "sim", "image": "b"}, {"kind": "sim", "image": "c"}))
group_shares = st.sampled_from((1, 1, 2, "50%", "100%", 0))
group_facts = st.fixed_dictionaries(
    {
        "max_slices": st.integers(1, 3),
        "min_slices": st.sampled_from((0, 0, 1)),
        "warm_slices": st.sampled_from((0, 0, 0, 1)),
        "idle_timeout": st.sampled_from(("2m", "10m")),
        "cancel_after": st.sampled_from(("30s", "5m")),
        "protect_first": st.booleans(),
        "watermark": st.sampled_from((None, None, 60)),
        "queued": st.booleans(),
        "keep_queued": st.booleans(),
        "timeouts": st.sampled_from(({}, {"drain": "1m", "requesting": "10m"})),
        "provider": providers,
        "degraded_after": st.sampled_from(("1m", "30m")),
        "max_age": st.sampled_from((None, None, None, "40m", "3h")),
        "max_unavailable": group_shares,
        "window": st.sampled_from((None, None, None, None, *WINDOWS)),
    }
)
replacement_facts = st.fixed_dictionaries(
    {
        "replace_drifted": st.sampled_from((True, True, True, False)),
        "max_unavailable": st.sampled_from((1, 1, 2, 3, "34%", "100%", 0)),
        "window": st.sampled_from((None, None, None, None, *WINDOWS)),
        "return_home": st.sampled_from((None, {"settle": "2m"}, {"settle": "10m"})),
        "consolidation": st.sampled_from((None, {"settle": "0s"}, {"settle": "5m"})),
    }
)
cluster_facts = st.fixed_dictionaries(
    {
        "max_slices": st.sampled_from((None, None, 4)),
        "patience": st.sampled_from(("2m", "10m")),
        "unclaimed_after": st.sampled_from((None, "5m")),
        "placement": st.sampled_from(("priority", "priority", "packing", "cost")),
    }
)
which = st.integers(0, 5)
group_names = st.sampled_from([group["name"] for group in GROUPS])
notice_kinds = st.sampled_from(NoticeKind)
notice_seconds = st.sampled_from((30.0, 300.0, 1800.0))
queue_facts = st.fixed_dictionaries(
    {
        "max_slices": st.integers(0, 3),
        "min_slices": st.just(0),
        "provider": providers,
        "max_age": st.sampled_from((None, None, "3h")),
        "max_unavailable": group_shares,
        "timeouts": st.sampled_from(({}, {"drain": "1m"})),
    }
)
