"""The `penstock` command and its subcommands."""

import io
import sys
from pathlib import Path

import click

EXIT_BAD_INPUT = 2
EXIT_UNMET = 3

_FILE = click.Path(dir_okay=False, path_type=Path)
_PLACEMENTS = click.Choice(["priority", "packing", "cost"])


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="penstock")
def main() -> None:
    """Decide which slices of accelerators to create and which to give back, and explain why."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character shows a question mark


@main.command()
@click.argument("cluster", type=_FILE)
@click.argument("demand", type=_FILE)
@click.option("--slices", type=_FILE, help="What exists now: slices, usage, health, standing requests.")
@click.option("--placement", type=_PLACEMENTS, help="Instead of the configured one.")
@click.option("--json", "as_json", is_flag=True, help="Print the decision as JSON.")
@click.option("--explain", "task", metavar="TASK", help="Explain what becomes of one task.")
def plan(cluster: Path, demand: Path, slices: Path | None, placement: str | None, as_json: bool, task: str | None) -> None:
    """Decide once, on files, with no server: what would be launched, what is unmet, and why.

    CLUSTER is the configuration, DEMAND the tasks that wait. Exit status: 0 with everything placed, 3 with unmet demand, 2 on
    bad input.
    """
    from penstock.cli.plan import run_plan

    raise SystemExit(run_plan(cluster, demand, slices=slices, placement=placement, as_json=as_json, task=task))


@main.command()
@click.argument("name", required=False)
def schema(name: str | None) -> None:
    """Print the JSON Schemas of every file and message, or of the one called NAME."""
    from penstock.cli.schema import run_schema

    raise SystemExit(run_schema(name))
