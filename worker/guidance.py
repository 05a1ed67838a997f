"""What an embedded service says once it runs: where to look, and what to type next."""

import os
import sys
from pathlib import Path

from worker.home import DEFAULT_HOME, Home

EXAMPLE_DEMAND = Path("examples/demand.json")
"""Tasks that fit the example's cluster."""


def guidance(home: Home, *, address: str, ui: str, demand: Path | None, changed: Path | None) -> str:
    """The text, with commands that work as they stand in another terminal of the same directory.

    `demand` is a file that fits the cluster, if one is known. `changed` is a cluster file that says something else than what the
    cluster runs with.
    """
    command = _command()
    needed = [] if _found_by_itself(home) else [f"export TEMPORAL_ADDRESS={address}"]
    lines = [
        "",
        f"Temporal UI: {ui}",
        "",
        "In another terminal, in this directory:",
        *(f"  {line}" for line in needed),
        f"  {command} status --watch",
        f"  {command} demand submit {demand or 'FILE'}",
        f"  {command} slices",
        f"  {command} verify",
        "",
        *([] if changed is None else _difference(command, changed)),
        f"Ctrl-C stops everything; {home.path}/ keeps it for the next start.",
    ]
    return "\n".join(lines)


def _difference(command: str, changed: Path) -> list[str]:
    """What to do about a file that the cluster does not run with."""
    return [
        f"{changed} differs from what the cluster runs with, which stays as it was. What differs, and how to apply it:",
        f"  {command} config diff {changed}",
        f"  {command} config apply {changed}",
        "",
    ]


def _command() -> str:
    """The `penstock` command as it can be typed here."""
    beside = Path(sys.executable).with_name("penstock")
    if not beside.exists():
        return "penstock"
    within = os.path.relpath(beside)
    return str(beside) if within.startswith("..") else within


def _found_by_itself(home: Home) -> bool:
    """Whether commands find the server through the home's address file."""
    return home.path.resolve() == DEFAULT_HOME.resolve()
