"""A command group that imports a command when it is called, so that help comes at once."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

import click


class Entry(NamedTuple):
    """Where a command is, as `module:attribute`, and its line in the help, word for word as the command itself has it."""

    target: str
    summary: str


class LazyGroup(click.Group):
    """Commands by section; none is imported before it is called."""

    def __init__(self, *args: Any, sections: Mapping[str, Mapping[str, Entry]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections
        self._entries = {name: entry for section in sections.values() for name, entry in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Every command, in the order of the help."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command, imported now."""
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that was meant; one that does not exist is answered with the nearest that does."""
        close = get_close_matches(args[0], self._entries, n=1)
        if args[0] not in self._entries and close:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {close[0]}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The commands' lines, section by section."""
        longest = max(map(len, self._entries))
        for title, section in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(longest), entry.summary) for name, entry in section.items()])
