"""Valid files, messages, queries and command lines, to be broken."""

from typing import Any

from penstock.contract.tasks import demand_of

RUNS, ENDED = "demo", "gone"
"""The cluster of the configuration, and one whose autoscaler was terminated."""
CLUSTER: dict[str, Any] = {
    "cluster": RUNS,
    "placement": "cost",
    "limits": {"in_flight": 4, "creates_per_minute": 10, "growth": 0.5},
    "patience": "10m",
    "max_cost_per_hour": 200.5,
    "max_unavailable": "25%",
    "window": {"days": ["sat", "sun"], "hours": "22:00-06:00"},
    "replace_drifted": False,
    "return_home": {"settle": "1h"},
    "consolidation": {"settle": "1h", "least_saving_per_hour": 2},
    "inventory": {"look": "2s", "lost_misses": 3},
    "backoff": {"first": "1m"},
    "pools": [{"name": "p", "chips": 128, "system": 8}],
    "groups": [
        {
            "name": "v5e",
            "device": {"type": "tpu", "variant": "v5litepod-16"},
            "host": {"cpu": 112, "memory": "192GiB"},
            "min_slices": 1,
            "max_slices": 12,
            "zone": "us-west4-a",
            "price_per_hour": 4.5,
            "pool": "p",
            "quota_pool": "q",
            "quota_tier": 1,
            "drive": "pressure",
            "slots_per_slice": 4,
            "grow_cooldown": "10s",
            "shrink_cooldown": "1m",
            "provider": {"kind": "sim", "url": "http://127.0.0.1:7234"},
        },
        {
            "name": "cpu",
            "host": {"cpu": 16, "memory": "64GiB"},
            "max_slices": 10**9,
            "warm_slices": 1,
            "watermark": 80,
            "hold_after_stockout": "1h",
            "degraded_after": "10m",
            "max_age": "7d",
            "max_unavailable": 2,
            "window": {"hours": "00:00-24:00"},
            "price_per_hour": 0.8,
            "attributes": {"network": "fast", "rank": 3},
        },
    ],
}
TASKS: list[Any] = [
    {"id": "pretrain", "count": 3, "resources": {"cpu": 32, "tpu": 4}, "gang": {"size": 4, "placement": "whole_slices"}},
    {"id": "a", "gang": {"id": "g", "size": 2, "placement": "pack"}, "resources": {"cpu": 1}},
    {"id": "b", "gang": {"id": "g", "size": 2, "placement": "pack"}, "resources": {"cpu": 1}},
    {"id": "t", "count": 20, "resources": {"cpu": 2, "memory": "6GiB"}, "preemptible": False},
    {
        "id": "z",
        "device": {"type": "gpu", "variants": ["l4"]},
        "constraints": [
            {"attribute": "zone", "op": "eq", "value": "x"},
            {"attribute": "rank", "op": "gt", "value": 1, "soft": True},
        ],
    },
]
SLICES: dict[str, Any] = {
    "now": "2026-11-17T05:00:00Z",
    "slices": [
        {"id": "cpu-1", "group": "cpu", "state": "ready", "since": "2026-11-17T04:00:00Z", "usage": "busy"},
        {"id": "cpu-2", "group": "cpu", "state": "ready", "usage": {"reserved": {"cpu": 4}, "tasks": ["r"]}, "count": 2},
        {"id": "v5e-1", "group": "v5e", "state": "booting", "hosts": [], "drain": {"cause": "x"}},
    ],
    "health": {"v5e": {"availability": "backoff", "until": "2026-11-17T06:00:00Z", "reason": "no capacity"}},
    "standing": [{"owner": "notebooks", "wants": [{"count": 2, "resources": {"cpu": 4}}]}],
    "launched": [["cpu", 2, "2026-11-17T04:59:30Z"]],
    "pressure": {"v5e": {"queued": 12, "running": 4, "capacity": 8, "slices": 4, "at": "2026-11-17T04:59:30Z", "desired": 4}},
}
PRESSURE: dict[str, Any] = {"v5e": {"queued": 12, "running": 4, "capacity": 8, "slices": 4}}
USAGE: dict[str, Any] = {
    "cpu-1": "idle",
    "v5e-1": ["idle", "busy", "busy", {"reserved": {"cpu": 2}, "tasks": ["pretrain/0/0"], "idle_since": "2026-11-17T04:00:00Z"}],
}
_BUSY = {"state": "busy", "tasks": ["pretrain/0/0"], "gangs": ["g"]}
DEMAND_MESSAGE: dict[str, Any] = {"source": "train", "epoch": 5, "revision": 2, "part": 1, "parts": 1, "tasks": TASKS}
PACKED_MESSAGE: dict[str, Any] = DEMAND_MESSAGE | {"tasks": None, "demand": demand_of(TASKS).model_dump(mode="json")}
"""The same in packed columns, as the Python client sends it."""
_FAULTY = demand_of([*TASKS, {"id": "bad", "count": -1}]).model_dump(mode="json")
_FAULTY["workload"]["runs"].append([["x", len(TASKS) + 1]])
_FAULTY_MESSAGE: dict[str, Any] = PACKED_MESSAGE | {"demand": _FAULTY}
"""Packed columns with everything that they may have: faults, and sources."""
_DELTA: dict[str, Any] = DEMAND_MESSAGE | {"base": 1, "removed": ["t/0"], "tasks": [{"id": "new"}], "positions": [3]}
_PART: dict[str, Any] = DEMAND_MESSAGE | {"parts": 2, "lease": "10m"}
_USAGE_MESSAGE: dict[str, Any] = {"source": "train", "epoch": 5, "revision": 2, "complete": True, "usage": USAGE}
_LOCATION = {"provider": "sim", "account": "sim", "name": "us-west4-a"}
_SLICE_REPORT: dict[str, Any] = {
    "slice_id": "cpu-1",
    "group": "cpu",
    "state": "READY",
    "since": "2026-11-17T05:00:00Z",
    "ordered_at": "2026-11-17T04:00:00Z",
    "sequence": 3,
    "location": _LOCATION,
    "hosts": [{"name": "h0", "address": "10.0.0.1"}],
}
_FAILED_REPORT: dict[str, Any] = _SLICE_REPORT | {
    "slice_id": "v5e-1",
    "group": "v5e",
    "state": "DELETING",
    "drain": {"cause": "operator", "number": 1, "deadline": "2026-11-17T06:00:00Z"},
    "failure": {"kind": "stockout", "message": "no capacity", "scope": "zone", "subject": "us-west4-a"},
}
_ORPHAN: dict[str, Any] = {
    "ref": {"location": "us-west4-a", "name": "x-0123456789", "labels": {"cluster": "demo", "group": "v5e", "slice": "v5e-8"}},
    "phase": "running",
    "hosts": [{"name": "h0", "address": "10.0.0.2"}],
    "created_at": "2026-11-17T04:00:00Z",
}
_LISTED: dict[str, Any] = {
    "location": _LOCATION,
    "at": "2026-11-17T05:00:00Z",
    "complete": True,
    "asked": "recovery-1",
    "orphans": [_ORPHAN],
    "missing": ["cpu-2"],
}
_REFUSED: dict[str, Any] = _LISTED | {"complete": False, "failure": {"kind": "permission", "message": "no"}}
_SILENT: dict[str, Any] = _REFUSED | {"failure": None, "problem": {"kind": "no_answer", "since": _LISTED["at"], "message": "no"}}
SIGNALS: dict[str, tuple[Any, ...]] = {
    "report": (
        {
            "demand": DEMAND_MESSAGE,
            "usage": USAGE,
            "pressure": PRESSURE,
            "confirmed": ["cpu-1", {"slice_id": "cpu-2", "number": 2}],
        },
        {"demand": PACKED_MESSAGE, "source": "train", "epoch": 5, "revision": 3, "usage": USAGE},
        {"source": "train"},
    ),
    "demand": (DEMAND_MESSAGE, PACKED_MESSAGE, _FAULTY_MESSAGE, _DELTA, _PART, TASKS),
    "usage": (_USAGE_MESSAGE, {"usage": USAGE}, {"usage": {"cpu-1": [_BUSY]}}),
    "pressure": (
        {"pressure": PRESSURE},
        {"source": "queues", "epoch": 5, "revision": 2, "config_revision": 1, "pressure": PRESSURE},
    ),
    "confirm_drain": ({"slices": ["cpu-1", "nobody"]}, "cpu-1"),
    "slices_reported": ({"reports": [_SLICE_REPORT, _FAILED_REPORT]}, {"reports": [_SLICE_REPORT | {"slice_id": "v5e-9"}]}),
    "location_reported": (_LISTED, _REFUSED, _SILENT),
}
"""Valid bodies of every signal."""
CONTROLLERS = ("report", "demand", "usage", "pressure", "confirm_drain")
"""The signals of controllers. The others come from Penstock's own workflows."""
UPDATES: dict[str, tuple[Any, ...]] = {
    "submit_demand": (DEMAND_MESSAGE, PACKED_MESSAGE, _DELTA, _PART),
    "forget_source": ({"source": "train"}, {"source": "nobody"}),
    "apply_config": (CLUSTER,),
    "request_capacity": (
        {"owner": "notebooks", "wants": [{"count": 2, "resources": {"cpu": 4}}], "expires": "2027-11-17T05:00:00Z"},
        {"owner": "notebooks"},
    ),
    "drain_slice": ({"slice_id": "cpu-1", "cause": "noisy fan", "force": True},),
    "cancel_drain": ({"slice_id": "cpu-1"}, {"slice_id": "cpu-3"}),
    "keep_slice": ({"slice_id": "cpu-1", "for": "2h"}, {"slice_id": "cpu-3", "off": True}),
    "cordon_slice": ({"slice_id": "cpu-1"}, {"slice_id": "cpu-3", "cordoned": False}),
    "clear_block": ({"group": "v5e"}, {}),
    "pause": ({"reason": "maintenance"},),
    "resume": ({},),
    "close": ({"force": False},),
}
"""Valid bodies of every update."""
QUERIES: dict[str, tuple[Any, ...]] = {
    "status": ({}, {"since": 3}),
    "decision": ({},),
    "explain_slice": (*({"slice_id": asked} for asked in ("s-1", "nobody", "g-261116-115900-00ff00ff")), "s-1"),
    "explain": (*({"task_id": asked} for asked in ("t/3", "t/", "pretrain/0", "g", "z", "r", "nobody")), "t/3", "p"),
    "slices": ({}, {"group": "cpu", "state": "ready", "page": 1, "page_size": 2}, {"about": True}),
}
"""Valid arguments of every query that has one."""
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("plan", "examples/cluster.yaml", "examples/demand.json"),
    ("plan", "examples/cluster.yaml", "examples/demand.json", "--slices", "examples/slices.yaml", "--explain", "pretrain"),
    ("status",),
    ("decision",),
    ("explain", "t/3"),
    ("slices", "--group", "cpu", "--state", "ready", "--page", "1", "--page-size", "2"),
    ("slice", "cpu-1"),
    ("demand", "submit", "examples/demand.json", "--source", "train"),
    ("demand", "show", "--source", "train"),
    ("demand", "clear", "--source", "train"),
    ("demand", "forget", "train"),
    ("request", "notebooks", "--count", "2", "--cpu", "4", "--memory", "16GiB", "--for", "8h"),
    ("request", "notebooks", "--release"),
    ("config", "apply", "examples/cluster.yaml"),
    ("config", "diff", "examples/cluster.yaml"),
    ("config", "show"),
    ("drain", "cpu-1", "--cause", "noisy fan", "--force"),
    ("drain", "cpu-3", "--cancel"),
    ("pause", "maintenance"),
    ("resume",),
    ("clear-block", "v5e"),
    ("restore", "gone"),
    ("restore", "demo"),
    ("delete", "demo", "--yes", "--no-wait"),
    ("verify", "--cluster", "demo"),
    ("doctor",),
    ("clusters", "--all"),
    ("ui", "--group", "cpu"),
    ("schema", "cluster"),
    ("sim", "set", "us-east1-c", "capacity=2"),
    ("completion", "bash"),
)
"""Valid command lines with arguments."""
