"""Generate bad input from a seed: valid documents with a few parts replaced, removed, repeated, or broken as text."""

import json
import random
from copy import deepcopy
from typing import Any

import yaml

from penstock.contract.tasks import demand_of
from penstock.model.packed import pack, pack_ids, pack_ints

LONG = 100_000
"""Characters of the longest texts."""

# fmt: off
SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 0.5, -0.0, 1e308, float("inf"), float("nan"), 10**5, 10**8, 10**18, 10**30, -(10**30), "", " ",
    10**400, "0", "x", "null", "banana", "5x", "1e5", "٣", "½", "192GiB", "-1GiB", "10m", "-5m", "99999999999d",
    "2026-11-17T05:00:00Z",
    "2499-12-31T23:59:59-10:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-02-30", "a\x00b",
    "a\x1b[31mb", "a\nb", "a/b/../c", "'; --", "{{x}}", "%s%n", "\ud800", "x\udfff", "\u202e", "é" * 300, "default", "idle",
    "READY", "tpu", "whole_slices", [], {}, [[]], [None], {"": None}, {"x": {"x": {"x": 1}}}, {"\ud800": 1}, [1] * 50,
    {"type": "tpu"}, {"size": 10**9}, {"id": "g", "size": 10**9}, {"size": 3, "pending": 2},
)
"""Values to put anywhere. Long texts are rarer: `_value` adds them."""
# fmt: on

CLUSTER: dict[str, Any] = {
    "cluster": "demo",
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
        {
            "id": "gone-1",
            "group": "gone",
            "state": "ready",
            "fingerprint": "0a1b2c3d",
            "replaces": "gone-0",
            "kept_until": "2026-11-17T06:00:00Z",
            "cordoned": True,
            "notice": {"kind": "maintenance", "until": "2026-11-17T06:00:00Z"},
            "left": {"pool": "p", "chips": 8, "idle_timeout_seconds": 60},
        },
    ],
    "health": {"v5e": {"availability": "backoff", "until": "2026-11-17T06:00:00Z", "reason": "no capacity"}},
    "standing": [{"owner": "notebooks", "wants": [{"count": 2, "resources": {"cpu": 4}}]}],
    "launched": [["cpu", 2, "2026-11-17T04:59:30Z"]],
}
USAGE: dict[str, Any] = {
    "cpu-1": "idle",
    "v5e-1": ["idle", "busy", "busy", {"reserved": {"cpu": 2}, "tasks": ["pretrain/0/0"], "idle_since": "2026-11-17T04:00:00Z"}],
    "cpu-2": {"state": "busy", "do_not_disrupt": True},
}
DEMAND_MESSAGE: dict[str, Any] = {"source": "train", "epoch": 5, "revision": 2, "part": 1, "parts": 1, "tasks": TASKS}
PACKED_MESSAGE: dict[str, Any] = DEMAND_MESSAGE | {"tasks": None, "demand": demand_of(TASKS).model_dump(mode="json")}
"""The same in packed columns, as the Python client sends it."""
PACKED: tuple[str, ...] = (
    pack(["\ud800"]),
    pack("x"),
    pack({}),
    pack([{}] * 26),
    pack([1] * 26),
    pack(["a"] * 300_000),
    pack_ids(["\ud800"] * 26),
    pack_ids([f"t{i}" for i in range(26)]),
    pack_ids(["a\x1b", "b" * 1000] * 13),
    pack_ints([0] * 5),
    pack_ints([1 << 60] * 5),
    pack_ints(range(200_001)),
    "H",
    "Q!",
    "x.",
)
"""Packed columns that are wrong in the place where they are put, or everywhere."""
_LOCATION = {"provider": "sim", "account": "sim", "name": "us-west4-a"}
_SLICE_REPORT: dict[str, Any] = {
    "slice_id": "cpu-1",
    "group": "cpu",
    "state": "READY",
    "since": "2026-11-17T05:00:00Z",
    "ordered_at": "2026-11-17T04:00:00Z",
    "sequence": 3,
    "location": _LOCATION,
    "hosts": [{"name": "h0", "internal": "10.0.0.1"}],
}
MESSAGES: dict[str, Any] = {
    "report": {"demand": DEMAND_MESSAGE, "usage": USAGE, "confirmed": ["cpu-1"]},
    "demand": DEMAND_MESSAGE,
    "usage": {"usage": USAGE},
    "pressure": {"group": "cpu", "length": 4},
    "confirm_drain": {"slices": ["cpu-1", "nobody"]},
    "slices_reported": {"reports": [_SLICE_REPORT, _SLICE_REPORT | {"slice_id": "v5e-9", "group": "v5e", "state": "DELETING"}]},
    "location_reported": {
        "location": _LOCATION,
        "at": "2026-11-17T05:00:00Z",
        "complete": True,
        "missing": ["cpu-2"],
        "failure": {"kind": "permission", "message": "no"},
    },
    "submit_demand": DEMAND_MESSAGE | {"base": 1, "removed": ["t/0"]},
    "apply_config": CLUSTER,
    "request_capacity": {
        "owner": "notebooks",
        "wants": [{"count": 2, "resources": {"cpu": 4}}],
        "expires": "2027-11-17T05:00:00Z",
    },
    "drain_slice": {"slice_id": "cpu-1", "cause": "noisy fan", "force": True},
    "cancel_drain": {"slice_id": "cpu-1"},
    "clear_block": {"group": "v5e"},
    "pause": {"reason": "maintenance"},
    "resume": {},
    "close": {"force": False},
}
"""A valid body of every signal and update."""

# fmt: off
_YAML_TOKENS = (
    "!!timestamp banana", "!!int x", "!!float x", "!!bool maybe", "!!binary é", "!!binary QUI", "!!set {a, b}", "!!omap [a]",
    "!!pairs [a: 1]", "!!python/object/apply:os.getcwd []", "!unknown x", "!!null x", "!!merge x", "!!str [a]", "!!map [a]",
    "!!seq {a: 1}", "&a [*a]", "*nowhere", "<<: {a: 1}", "<<: 5", "? [a, b]", "? {a: b}\n: c", "- - - -", "%YAML 9.9", "---",
    "...", "\t", "\x00", "\ufeff", "'", '"', '"\\ud800"', '"\\x"', "{", "}", "[", "]", ":", "#", "|", ">-", "@", "`", "0o17",
    "0x_", "1:99:99", "2026-99-99", "2001-12-14t21:59:43.10-99:99", ".nan", "~", "=",
)
# fmt: on


def message(rng: random.Random, name: str) -> Any:
    """The body of a signal or update with up to five changes; demand is in packed columns half of the time."""
    valid = MESSAGES.get(name, TASKS)
    if rng.random() < 0.5:
        valid = PACKED_MESSAGE if valid is DEMAND_MESSAGE else valid | {"demand": PACKED_MESSAGE} if name == "report" else valid
    return document(rng, valid)


def document(rng: random.Random, valid: Any) -> Any:
    """A copy of a valid document with up to five changes."""
    data = deepcopy(valid)
    for _ in range(rng.randint(0, 5)):
        data = _changed(rng, data)
    return data


def as_json(rng: random.Random, data: Any) -> bytes:
    """A document as JSON, now and then broken; NaN and lone surrogates are written as Python writes them."""
    return _broken(
        rng, json.dumps(data, default=str).encode(), ('"', "{", "]", ",", "\\ud800", "\\x", "\x00", "1e999", "NaN", "-")
    )


def as_yaml(rng: random.Random, data: Any) -> bytes:
    """A document as YAML, now and then broken, or with aliases to aliases."""
    plain = json.dumps(data, default=str)
    try:
        text = yaml.dump(json.loads(plain), Dumper=_DUMPER, default_flow_style=rng.choice([None, False]))
    except UnicodeEncodeError:  # Only JSON, which is YAML too, can write a lone surrogate.
        text = plain
    if rng.random() < 0.03:
        text += _aliases(rng)
    return _broken(rng, text.encode("utf-8", "surrogatepass"), _YAML_TOKENS)


_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def _aliases(rng: random.Random) -> str:
    """A few lines that stand for up to ten thousand million parts."""
    width, depth = rng.randint(2, 10), rng.randint(2, 10)
    lines = ["laugh0: &l0 [x, x]"]
    lines += [f"laugh{i}: &l{i} [{', '.join([f'*l{i - 1}'] * width)}]" for i in range(1, depth)]
    return "\n".join(lines) + "\n"


def _changed(rng: random.Random, data: Any) -> Any:
    """The data with one change somewhere inside."""
    if isinstance(data, dict) and data and rng.random() < 0.85:
        key = rng.choice(list(data))
        change = rng.random()
        if change < 0.65:
            return data | {key: _changed(rng, data[key])}
        if change < 0.75:
            return {other: value for other, value in data.items() if other != key}
        if change < 0.85:
            return data | {_key(rng, key): data[key]}
        if change < 0.87:
            return data | {f"key{i}": 1 for i in range(rng.choice([50, 2000]))}
        return data | {key: _value(rng)}
    if isinstance(data, list) and data and rng.random() < 0.85:
        i = rng.randrange(len(data))
        change = rng.random()
        if change < 0.7:
            return [*data[:i], _changed(rng, data[i]), *data[i + 1 :]]
        if change < 0.8:
            return data[:i] + data[i + 1 :]
        return data + data[i : i + 1] if change < 0.9 else [*data, _value(rng)]
    return _value(rng)


def _value(rng: random.Random) -> Any:
    if rng.random() < 0.02:
        return rng.choice("a9\U0001f980") * LONG
    if rng.random() < 0.1:
        return rng.choice(PACKED)
    return deepcopy(rng.choice(SCALARS))


def _key(rng: random.Random, key: str) -> str:
    return rng.choice(
        [key + "s", key.upper(), key[:-1], "", "x" * LONG, "\ud800", "a b", "__class__", "$ref", "model_config", "é"]
    )


def _broken(rng: random.Random, raw: bytes, tokens: tuple[str, ...]) -> bytes:
    """The bytes as they are, or cut, or with tokens or arbitrary bytes put in."""
    chance = rng.random()
    if chance < 0.6:
        return raw
    if chance < 0.65:
        return raw[: rng.randrange(len(raw) + 1)]
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(raw) + 1)
        if raw.find(b": ", at) >= 0 and rng.random() < 0.5:
            at = raw.find(b": ", at) + 2
        added = rng.choice(tokens).encode() if rng.random() < 0.8 else rng.randbytes(rng.randint(1, 6))
        raw = raw[:at] + added + raw[at + rng.choice([0, 0, 1, 5]) :]
    return raw


def command_line(rng: random.Random, commands: tuple[tuple[str, ...], ...], files: tuple[str, ...]) -> list[str]:
    """A command with arguments and options that are mostly wrong."""
    words = list(rng.choice(commands))
    for _ in range(rng.randint(0, 5)):
        words.insert(rng.randint(min(1, len(words)), len(words)), _word(rng, files))
    if rng.random() < 0.15:
        words += ["--json"]
    if words and rng.random() < 0.1:
        words[rng.randrange(len(words))] = _word(rng, files)
    return words


# fmt: off
_OPTIONS = (
    "--json", "--cluster", "--namespace", "--source", "--slices", "--placement", "--explain", "--count", "--cpu", "--memory",
    "--gpu", "--tpu", "--variant", "--for", "--release", "--group", "--state", "--page", "--page-size", "--cause", "--force",
    "--cancel", "--yes", "--no-wait", "--all", "--zone", "--reset", "--help", "-h", "--version", "--", "-", "---", "--=",
    "--json=1", "--page=x", "--cluster=", "--ui", "--since", "-v",
)
# fmt: on
# fmt: off
_WORDS = (
    "demo", "x=y", "a=[", "a=!!timestamp banana", "\udcff\udcfe", "a\udc80=1", "\ud800", "", " ", "\x1b[31m", "1", "-1",
    "9" * 400, "é", "..", "/", "8h", "1e9",
)
# fmt: on


def _word(rng: random.Random, files: tuple[str, ...]) -> str:
    chance = rng.random()
    if chance < 0.02:
        return "a" * LONG
    return rng.choice(_OPTIONS if chance < 0.45 else _WORDS if chance < 0.75 else files)
