"""Failures of commands: exit statuses, and the error on standard error or as JSON on standard output."""

import json
import os
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

import click

from penstock.config.problems import Problem
from penstock.contract.error_codes import ErrorCode
from penstock.wording import clipped, similar

EXIT_DIFFERS = 1
"""The command succeeded, but a comparison or check found differences."""
EXIT_BAD_INPUT = 2
EXIT_UNMET = 3
EXIT_UNREACHABLE = 4
EXIT_NO_CLUSTER = 5
EXIT_REFUSED = 6
EXIT_UNEXPECTED = 70
"""EX_SOFTWARE of sysexits.h: an internal error."""
EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells report a program that Ctrl-C ended."""
EXIT_STATUS = {
    ErrorCode.BAD_INPUT: EXIT_BAD_INPUT,
    ErrorCode.NO_SUCH_SLICE: EXIT_BAD_INPUT,
    ErrorCode.NO_SERVER: EXIT_UNREACHABLE,
    ErrorCode.NO_WORKER: EXIT_UNREACHABLE,
    ErrorCode.NO_ANSWER: EXIT_UNREACHABLE,
    ErrorCode.NO_SIMULATED_CLOUD: EXIT_UNREACHABLE,
    ErrorCode.NO_SUCH_CLUSTER: EXIT_NO_CLUSTER,
    ErrorCode.SEVERAL_CLUSTERS: EXIT_NO_CLUSTER,
    ErrorCode.UNEXPECTED: EXIT_UNEXPECTED,
    ErrorCode.INTERRUPTED: EXIT_INTERRUPTED,
    ErrorCode.AUTOSCALER_ENDED: EXIT_DIFFERS,
}
"""Every other code is a refusal."""

DESCRIBED = 30
"""Problems of files that are printed before the rest are only counted: about a screen."""
_MORE = "and"
LONGEST_FAILURE = 1000
"""Characters printed of one failure, and of each fix, which may quote an argument of any length."""
DEBUG_VARIABLE = "PENSTOCK_DEBUG"
"""Environment variable that asks for the traceback of an unexpected failure."""


class CommandFailed(click.ClickException):
    """A command cannot do its work: a code, a sentence, and what to do about it, one line each."""

    def __init__(self, message: str, *fixes: str, code: ErrorCode) -> None:
        super().__init__(message)
        self.fixes = tuple(clipped(fix, LONGEST_FAILURE) for fix in fixes)
        self.code = code

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """The exit status of the process."""
        return EXIT_STATUS.get(self.code, EXIT_REFUSED)

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it on standard error."""
        self._print("error", file)

    def warn(self) -> None:
        """Print it as a warning on standard error."""
        self._print("warning")

    def show_json(self) -> None:
        """Print it as JSON on standard output."""
        described = {"code": str(self.code), "message": self.message}
        fix = {"fix": "\n".join(self.fixes)} if self.fixes else {}
        click.echo(json.dumps({"error": described | fix}, indent=2, ensure_ascii=False))

    def _print(self, kind: str, file: IO[Any] | None = None) -> None:
        click.echo(click.style(f"{kind}: ", fg="red") + self.message, file, err=True)
        for fix in self.fixes:
            click.echo(f"  {fix}", file, err=True)


class BadFiles(CommandFailed):
    """Files have problems, each on a line of its own."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(_described(problems)), code=ErrorCode.BAD_INPUT)

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002
        """Print the first problems on standard error."""
        print_problems(self.problems, "error")


def unexpected(error: Exception) -> CommandFailed:
    """The failure for an exception that no code foresaw. PENSTOCK_DEBUG=1 prints its traceback too."""
    if os.environ.get(DEBUG_VARIABLE):
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    where = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(f" in {Path(frame.filename).stem}.{frame.name}, line {frame.lineno}" for frame in where)
    kind = " ".join(f"{type(error).__name__}: {error}".split())
    return CommandFailed(
        f"a bug in Penstock: {kind}{place}",
        f"Please report it with this line, the command and the output of {DEBUG_VARIABLE}=1 penstock …",
        code=ErrorCode.UNEXPECTED,
    )


class Interrupted(CommandFailed):
    """Ctrl-C ended the command. Without a message nothing is printed, except as JSON."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or "interrupted", code=ErrorCode.INTERRUPTED)
        self._silent = not message

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message, if there is one."""
        if not self._silent:
            super().show(file)


def suggestions(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """`Did you mean a?` as a fix, if a known name resembles the given one."""
    return tuple(f"Did you mean {close}?" for close in similar(name, known))


def report(failed: click.ClickException, *, as_json: bool) -> int:
    """Print a failure, as JSON on standard output or in words on standard error; returns the exit status."""
    if not isinstance(failed, BadFiles):  # Its lines are bounded one by one.
        vars(failed)["message"] = clipped(failed.message, LONGEST_FAILURE)
    if not as_json:
        failed.show()
    elif isinstance(failed, CommandFailed):
        failed.show_json()
    else:
        CommandFailed(failed.format_message(), code=ErrorCode.BAD_INPUT).show_json()
    return failed.exit_code


def wants_json() -> bool:
    """Whether the command that runs was given --json."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.params.get("as_json"))


def print_problems(problems: Sequence[Problem], kind: str) -> None:
    """Print the first problems of files on standard error, one line each, and how many more there are."""
    for line in _described(problems):
        click.echo(line if line.startswith(_MORE) else f"{kind}: {line}", err=True)


def _described(problems: Sequence[Problem]) -> list[str]:
    more = len(problems) - DESCRIBED
    return [str(problem) for problem in problems[:DESCRIBED]] + ([f"{_MORE} {more:,} more"] if more > 0 else [])
