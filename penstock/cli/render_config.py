"""A configuration as YAML, and the differences between two of them, for a terminal."""

from collections.abc import Sequence

import yaml
from rich.console import Group, RenderableType
from rich.markup import escape

from penstock.cli.terminal import Prose
from penstock.model.cluster import ClusterConfig
from penstock.model.config_diff import Change, as_written


def config_text(config: ClusterConfig) -> str:
    """The configuration as YAML that can be applied again, without defaults."""
    return str(yaml.safe_dump(as_written(config, defaults=False), sort_keys=False, allow_unicode=True, width=120))


def changes_view(changes: Sequence[Change]) -> RenderableType:
    """One line for each change: + added, - removed, ~ changed."""
    return Group(*(Prose(_line(change)) for change in changes))


def _line(change: Change) -> str:
    path = escape(change.path)
    if change.before is None:
        return f"[green]+ {path}[/]: {escape(change.after or '')}"
    if change.after is None:
        return f"[red]- {path}[/]: {escape(change.before)}"
    return f"[yellow]~ {path}[/]: {escape(change.before)} → {escape(change.after)}"
