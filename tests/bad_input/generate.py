"""Generate bad input from a seed: valid documents with a few parts replaced, removed, repeated, or broken as text."""

import base64
import json
import lzma
import random
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import yaml

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
    ["x", 10**9], {"type": "tpu"}, {"size": 10**9}, {"id": "g", "size": 10**9}, {"size": 3, "pending": 2},
)
"""Values to put anywhere. Long texts are rarer: `_value` adds them."""
# fmt: on

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
    *(kind + pack_ints([1 << 60] * 26)[1:] for kind in "sdfqcx?"),
    base64.b64encode(lzma.compress(b"[" * LONG)).decode(),
    "H",
    "Q!",
    "x.",
)
"""Packed columns that are wrong in the place where they are put, or everywhere."""
# fmt: off
_YAML_TOKENS = (
    "!!timestamp banana", "!!int x", "!!float x", "!!bool maybe", "!!binary é", "!!binary QUI", "!!set {a, b}", "!!omap [a]",
    "!!pairs [a: 1]", "!!python/object/apply:os.getcwd []", "!unknown x", "!!null x", "!!merge x", "!!str [a]", "!!map [a]",
    "!!seq {a: 1}", "&a [*a]", "*nowhere", "<<: {a: 1}", "<<: 5", "? [a, b]", "? {a: b}\n: c", "- - - -", "%YAML 9.9", "---",
    "...", "\t", "\x00", "\ufeff", "'", '"', '"\\ud800"', '"\\x"', "{", "}", "[", "]", ":", "#", "|", ">-", "@", "`", "0o17",
    "0x_", "1:99:99", "2026-99-99", "2001-12-14t21:59:43.10-99:99", ".nan", "~", "=",
)
# fmt: on


def message(rng: random.Random, bodies: Sequence[Any]) -> Any:
    """One of the valid bodies with up to five changes."""
    return document(rng, rng.choice(bodies))


def document(rng: random.Random, valid: Any) -> Any:
    """A copy of a valid document with up to five changes."""
    data = deepcopy(valid)
    for _ in range(rng.randint(0, 5)):
        data = _changed(rng, data)
    return data


def swollen(rng: random.Random, data: Any) -> Any:
    """A copy of a document with one text, list or object in it that has far more than before, of the same kind."""
    if isinstance(data, dict) and data and rng.random() < 0.9:
        key = rng.choice(list(data))
        return data | {key: swollen(rng, data[key])}
    if isinstance(data, list) and data and rng.random() < 0.7:
        i = rng.randrange(len(data))
        return [*data[:i], swollen(rng, data[i]), *data[i + 1 :]]
    many = [rng.randbytes(20).hex() for _ in range(500)]
    if isinstance(data, list):
        return many if not data or isinstance(data[0], str) else [_named(data[0], name) for name in many]
    return dict.fromkeys(many, next(iter(data.values()), 1)) if isinstance(data, dict) else "".join(many)


def _named(item: Any, name: str) -> Any:
    """The item with another id."""
    return item | {key: name for key in ("id", "slice_id", "name") if key in item} if isinstance(item, dict) else item


def raw_of(body: Any) -> bytes:
    """A document as JSON."""
    return json.dumps(body).encode()


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
    if rng.random() < 0.02:
        return rng.randbytes(LONG // 2).hex()
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


def command_line(
    rng: random.Random, commands: Sequence[tuple[str, ...]], options: Sequence[str], files: Sequence[str]
) -> list[str]:
    """A command with some arguments and options replaced or put in, mostly by wrong ones."""
    words = list(rng.choice(commands))
    for _ in range(rng.randint(0, 3)):
        word = _word(rng, options, files)
        if len(words) > 1 and rng.random() < 0.5:
            words[rng.randrange(1, len(words))] = word
        else:
            words.insert(rng.randint(min(1, len(words)), len(words)), word)
    if rng.random() < 0.15:
        words += ["--json"]
    if words and rng.random() < 0.05:
        words[0] = _word(rng, options, files)
    return words


# fmt: off
_WORDS = (
    "demo", "gone", "train", "cpu-1", "t/3", "x=y", "a=[", "a=!!timestamp banana", "\udcff\udcfe", "a\udc80=1", "\ud800", "", " ",
    "\x1b[31m", "a\nb", "x" * 600, "1", "-1", "9" * 400, "é", "..", "/", "8h", "1e9", "--", "-", "---", "--=", "--json=1",
    "--page=x", "--cluster=", "--unknown", "-v",
)
# fmt: on


def _word(rng: random.Random, options: Sequence[str], files: Sequence[str]) -> str:
    chance = rng.random()
    if chance < 0.02:
        return "a" * LONG
    return rng.choice(options if chance < 0.35 else _WORDS if chance < 0.8 else files)
