"""The top-level command group: it imports a command only when it is called, and reports every failure of a command."""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from inspect import cleandoc
from typing import Any, NamedTuple, NoReturn

import click

from penstock.wording import shortened, similar

_SETTINGS = ("PENSTOCK_", "TEMPORAL_")
"""Prefixes of the environment variables that commands read."""
_SHOWN = 60
"""Characters of an offending value that are shown."""


class Entry(NamedTuple):
    """A command: `module:attribute` where it is defined, and its line in the help."""

    target: str
    summary: str


def _check_encoding(arguments: Sequence[str]) -> None:
    """Refuse arguments and settings that are not UTF-8: neither JSON nor Temporal can carry them."""
    settings = {name: value for name, value in os.environ.items() if name.startswith(_SETTINGS)}
    for name, value in [(f"argument {i}", each) for i, each in enumerate(arguments, start=1)] + list(settings.items()):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise click.UsageError(f"{name} is not UTF-8: {shortened(ascii(value), _SHOWN)}")


class LazyGroup(click.Group):
    """Commands by section. Help is printed without importing any of them."""

    def __init__(self, *args: Any, sections: Mapping[str, Mapping[str, Entry]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections
        self._entries = {name: entry for section in sections.values() for name, entry in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Every command, in the order of the help."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command. Its help begins with its line in the list of commands."""
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        if command.short_help is None:
            command.short_help = entry.summary
            command.help = f"{entry.summary}\n\n{cleandoc(command.help or '')}"
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown name fails with the most similar one."""
        close = similar(args[0], self._entries)
        if args[0] not in self._entries and close:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {close[0]}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The commands' lines, section by section."""
        longest = max(map(len, self._entries))
        for title, section in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(longest), entry.summary) for name, entry in section.items()])

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> NoReturn:
        """Run the command, report its failure, and end with its exit status."""
        arguments = list(sys.argv[1:] if args is None else args)
        try:
            _check_encoding(arguments)
            status = super().main(arguments, *rest, **extra | {"standalone_mode": False})
        except click.ClickException as failed:
            from penstock.cli.failures import report

            status = report(failed, as_json="--json" in arguments)
        except click.Abort:
            from penstock.cli.failures import Interrupted, report

            status = report(Interrupted(), as_json="--json" in arguments)
        except Exception as error:  # The last resort: nobody is shown a traceback who did not ask for it.
            from penstock.cli.failures import report, unexpected

            status = report(unexpected(error), as_json="--json" in arguments)
        sys.exit(status if isinstance(status, int) else 0)
