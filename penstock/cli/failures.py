"""What can keep a command from doing its work: exit codes, and the words for each on standard error."""

from collections.abc import Sequence

import click

from penstock.config.problems import Problem

EXIT_DIFFERS = 1
"""The command did its work, and what it compared is not the same, or not well."""
EXIT_BAD_INPUT = 2
EXIT_UNMET = 3
EXIT_UNREACHABLE = 4
"""No server, no worker, or no simulated cloud answers."""
EXIT_NO_CLUSTER = 5
EXIT_REFUSED = 6
EXIT_INTERRUPTED = 130
"""What shells say of a program that Ctrl-C ended."""


TOLD = 30
"""Mistakes in files that are told before the rest are only counted: about a screen, and whoever mends them tries again."""


class CommandFailed(Exception):
    """A command cannot do its work: a sentence, what to do about it line by line, and the exit code."""

    def __init__(self, message: str, *hints: str, code: int) -> None:
        super().__init__(message)
        self.message = message
        self.hints = hints
        self.code = code

    def tell(self, kind: str = "error") -> None:
        """Say it on standard error."""
        click.echo(click.style(f"{kind}: ", fg="red") + self.message, err=True)
        for hint in self.hints:
            click.echo(f"  {hint}", err=True)


def tell_problems(problems: Sequence[Problem], kind: str) -> None:
    """Say what is wrong with files, one line each, on standard error; beyond the first so many only how many more."""
    for problem in problems[:TOLD]:
        click.echo(f"{kind}: {problem}", err=True)
    if len(problems) > TOLD:
        click.echo(f"and {len(problems) - TOLD:,} more", err=True)
