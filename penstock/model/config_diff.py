"""Diff two configurations field by field, and write a configuration with the keys and units of the YAML file."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel

from penstock.model.cluster import ClusterConfig
from penstock.model.units import format_bytes, format_seconds, parse_bytes, parse_seconds

Path = tuple[str, ...]
"""Keys from the top of a configuration, with groups and pools by name: (groups, cpu-16, max_slices)."""


_UNSET, _NONE = _EMPTY = ("unset", "none")
"""A part that is absent, or has no parts: once it has some, these are listed instead."""


class Change(NamedTuple):
    """One field, group or pool before and after; None where it does not exist."""

    path: str
    before: str | None
    after: str | None


def config_changes(before: ClusterConfig, after: ClusterConfig) -> tuple[Change, ...]:
    """Groups and pools added or removed, then changed fields. The order of groups and pools does not count."""
    old, new = dict(_leaves(as_written(before, defaults=True))), dict(_leaves(as_written(after, defaults=True)))
    had, has = _named_parts(before), _named_parts(after)
    added_or_removed = sorted(had ^ has)
    parts = [_added(path) if path in has else _removed(path) for path in added_or_removed]
    paths = [path for path in (*new, *(path for path in old if path not in new)) if path[:2] not in added_or_removed]
    empty = {path[:-1] for path in old.keys() ^ new.keys() if old.get(path[:-1], new.get(path[:-1])) in _EMPTY}
    changed = [path for path in paths if old.get(path) != new.get(path) and path not in empty]
    return (*parts, *(Change(".".join(path), old.get(path), new.get(path)) for path in changed))


def _added(path: Path) -> Change:
    return Change(".".join(path), None, f"new {path[0].removesuffix('s')}")


def _removed(path: Path) -> Change:
    return Change(".".join(path), f"removed {path[0].removesuffix('s')}", None)


def as_written(model: BaseModel, *, defaults: bool) -> dict[str, Any]:
    """The fields with the keys and units of the YAML file. `defaults` includes fields that have their default value."""
    found: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if defaults or field.is_required() or value != field.get_default(call_default_factory=True):
            found[field.alias or name] = _written_value(name, value, defaults=defaults)
    return found | (model.model_extra or {})


def _named_parts(config: ClusterConfig) -> set[Path]:
    """The paths of the groups and pools."""
    return {("groups", group.name) for group in config.groups} | {("pools", pool.name) for pool in config.pools}


def _written_value(name: str, value: Any, *, defaults: bool) -> Any:
    if isinstance(value, BaseModel):
        return as_written(value, defaults=defaults)
    if isinstance(value, tuple):
        return [_written_value(name, item, defaults=defaults) for item in value]
    if value is None or isinstance(value, bool):
        return value
    if name.endswith("_seconds"):
        return _unless_rounded(format_seconds(value), value, parse_seconds(format_seconds(value)))
    if name.endswith("_bytes"):
        return _unless_rounded(format_bytes(value), value, parse_bytes(format_bytes(value)))
    if name.endswith("_milli"):
        return value // 1000 if value % 1000 == 0 else value / 1000
    return str(value) if isinstance(value, str) else value


def _unless_rounded(text: str, value: float, parsed: float) -> str | float:
    """The text if it parses back to the same value, else the number."""
    return text if parsed == value else value


def _leaves(data: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Every leaf with its path. List items that have a name are keyed by that name instead of their position."""
    if isinstance(data, dict) and data:
        for key, value in data.items():
            yield from _leaves(value, (*path, str(key)))
    elif isinstance(data, list) and data and all(isinstance(item, dict) and "name" in item for item in data):
        for item in data:
            yield from _leaves({key: value for key, value in item.items() if key != "name"}, (*path, item["name"]))
    else:
        yield path, _leaf_text(data)


def _leaf_text(data: Any) -> str:
    if data is None:
        return _UNSET
    if isinstance(data, bool):
        return "true" if data else "false"
    if isinstance(data, dict | list):
        return json.dumps(data, ensure_ascii=False) if data else _NONE
    return str(data)
