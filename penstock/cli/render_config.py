"""A configuration as people write it, and what differs between two."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel
from rich.console import Group, RenderableType
from rich.markup import escape

from penstock.model.cluster import ClusterConfig
from penstock.model.units import format_bytes, format_seconds, parse_bytes, parse_seconds


class Change(NamedTuple):
    """One field, before and after; None where it is not there."""

    path: str
    before: str | None
    after: str | None


def config_text(config: ClusterConfig) -> str:
    """The configuration as YAML, without what is as it is by default."""
    return str(yaml.safe_dump(_written(config, defaults=False), sort_keys=False, allow_unicode=True, width=120))


def changes_between(before: ClusterConfig, after: ClusterConfig) -> tuple[Change, ...]:
    """What differs, field by field; groups and pools go by name, so their order is no difference."""
    old, new = _flat(_written(before, defaults=True)), _flat(_written(after, defaults=True))
    paths = [*new, *(path for path in old if path not in new)]
    named = _parts(before) ^ _parts(after)
    found = [Change(path, *_presence(path, _parts(after))) for path in sorted(named)]
    rest = [path for path in paths if not any(path.startswith(f"{part}.") for part in named)]
    return (*found, *(Change(path, old.get(path), new.get(path)) for path in rest if old.get(path) != new.get(path)))


def changes_view(changes: Sequence[Change]) -> RenderableType:
    """One line for each difference."""
    return Group(*(_line(change) for change in changes))


def _line(change: Change) -> str:
    path = escape(change.path)
    if change.before is None:
        return f"[green]+ {path}[/]: {escape(change.after or '')}"
    if change.after is None:
        return f"[red]- {path}[/]: {escape(change.before)}"
    return f"[yellow]~ {path}[/]: {escape(change.before)} → {escape(change.after)}"


def _parts(config: ClusterConfig) -> set[str]:
    """The paths of the groups and pools."""
    return {f"groups.{group.name}" for group in config.groups} | {f"pools.{pool.name}" for pool in config.pools}


def _presence(path: str, present: set[str]) -> tuple[str | None, str | None]:
    kind = "group" if path.startswith("groups.") else "pool"
    return (None, f"a new {kind}") if path in present else (f"the {kind} goes", None)


def _written(model: BaseModel, *, defaults: bool) -> dict[str, Any]:
    """The fields by the names and in the units in which people write them."""
    found: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if defaults or field.is_required() or value != field.get_default(call_default_factory=True):
            found[field.alias or name] = _value(name, value, defaults=defaults)
    return found | (model.model_extra or {})


def _value(name: str, value: Any, *, defaults: bool) -> Any:
    if isinstance(value, BaseModel):
        return _written(value, defaults=defaults)
    if isinstance(value, tuple):
        return [_value(name, item, defaults=defaults) for item in value]
    if value is None or isinstance(value, bool):
        return value
    if name.endswith("_seconds"):
        return _exactly(format_seconds(value), value, parse_seconds(format_seconds(value)))
    if name.endswith("_bytes"):
        return _exactly(format_bytes(value), value, parse_bytes(format_bytes(value)))
    if name.endswith("_milli"):
        return value // 1000 if value % 1000 == 0 else value / 1000
    return str(value) if isinstance(value, str) else value


def _exactly(text: str, value: float, meant: float) -> str | float:
    """The text if it says all of the value."""
    return text if meant == value else value


def _flat(data: Any, path: str = "") -> dict[str, str]:
    """Every leaf by its path; items that have a name go by it."""
    if isinstance(data, dict) and data:
        parts = [_flat(value, f"{path}.{key}" if path else str(key)) for key, value in data.items()]
    elif isinstance(data, list) and data and all(isinstance(item, dict) and "name" in item for item in data):
        parts = [_flat({k: v for k, v in item.items() if k != "name"}, f"{path}.{item['name']}") for item in data]
    else:
        return {path: _leaf(data)}
    return {key: text for part in parts for key, text in part.items()}


def _leaf(data: Any) -> str:
    if data is None:
        return "unset"
    if isinstance(data, bool):
        return "true" if data else "false"
    return str(data) if not isinstance(data, dict | list) else ("none" if not data else yaml.safe_dump(data).strip())
