"""Resources and zones of the simulated cloud for a terminal."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from penstock.cli.terminal import clock, lapse, titled
from penstock.model.failures import Notice
from penstock.model.units import format_seconds

_PHASE_STYLE = {"running": "green", "gone": "dim", "preempted": "red", "failed": "red", "deleting": "magenta"}
_COUNTED = ("capacity", "stockout_after")
"""For these 0 is a setting, and unset is the default."""


def resources_view(items: Sequence[Mapping[str, Any]], now: datetime) -> RenderableType:
    """Resources zone by zone, oldest first."""
    if not items:
        return "No resources."
    zones = sorted({item["zone"] for item in items})
    return Group(*(_zone_table(zone, [item for item in items if item["zone"] == zone], now) for zone in zones))


def _zone_table(zone: str, items: Sequence[Mapping[str, Any]], now: datetime) -> Table:
    table = titled(escape(zone))
    table.add_column("name", no_wrap=True, overflow="fold")
    table.add_column("phase", no_wrap=True)
    table.add_column("hosts", justify="right", no_wrap=True)
    table.add_column("age", justify="right", no_wrap=True)
    table.add_column("cluster", overflow="fold")
    announced = any(item.get("notice") for item in items)
    if announced:
        table.add_column("notice", overflow="fold")
    for item in items:
        phase = f"[{_PHASE_STYLE.get(item['phase'], 'yellow')}]{escape(item['phase'])}[/]"
        age = lapse(datetime.fromisoformat(item["created_at"]), now)
        whose = item["labels"].get("penstock-cluster", "–")
        notice = [_notice(item.get("notice"), now)] if announced else []
        table.add_row(escape(item["name"]), phase, str(len(item["hosts"])), age, escape(whose), *notice)
    return table


def _notice(raw: Mapping[str, Any] | None, now: datetime) -> str:
    """What is announced for a resource, and when."""
    if raw is None:
        return "–"
    notice = Notice.model_validate(raw)
    return f"{notice.kind.noun} at {clock(notice.until, now)}"


def behaviour_view(zone: str, behaviour: Mapping[str, Any]) -> RenderableType:
    """The settings of a zone that are not the default."""
    settings = {
        key: value for key, value in behaviour.items() if value not in (None, False, 0) or (key in _COUNTED and value == 0)
    }
    if not settings:
        return f"[bold]{escape(zone)}[/] has default settings: it creates everything at once and never fails."
    lines = [f"[bold]{escape(zone)}[/]:"]
    return Group(*lines, *(f"  {escape(key)}: {escape(_written(key, value))}" for key, value in settings.items()))


def _written(key: str, value: Any) -> str:
    if key.endswith("_latency"):
        return format_seconds(value) if value == round(value) else f"{value:g}s"
    if isinstance(value, dict):
        return ", ".join(f"{name} {item}" for name, item in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)
