"""The `penstock` command: where each subcommand is, and what it does in a line."""

import io
import sys

import click

from penstock.cli.lazy import Entry, LazyGroup

SECTIONS = {
    "How things are": {
        "status": Entry("penstock.cli.status:status", "Show the groups, the demand, and what is wrong."),
        "slices": Entry("penstock.cli.status:slices", "List slices."),
        "decision": Entry("penstock.cli.status:decision", "Show what is decided now: launches, unmet demand, and why."),
        "explain": Entry("penstock.cli.status:explain", "Explain what becomes of one task."),
    },
    "What is wanted": {
        "demand": Entry("penstock.cli.demand:demand", "Submit the tasks that wait, or clear them."),
        "request": Entry("penstock.cli.demand:request", "Ask for a floor of capacity, busy or not."),
        "config": Entry("penstock.cli.configuration:config", "Apply, show or compare a cluster's configuration."),
    },
    "Orders": {
        "drain": Entry("penstock.cli.operations:drain", "Empty a slice and give it back, or cancel that."),
        "pause": Entry("penstock.cli.operations:pause", "Stop launching and draining; slices live on."),
        "resume": Entry("penstock.cli.operations:resume", "Launch and drain again."),
        "clear-block": Entry("penstock.cli.operations:clear_block", "Ask the cloud again for a blocked group, or for all."),
        "delete": Entry("penstock.cli.deletion:delete", "Delete a cluster: its slices, then its autoscaler."),
    },
    "Checks": {
        "verify": Entry("penstock.cli.checking:verify", "Compare ledger, workflows and cloud, now."),
        "doctor": Entry("penstock.cli.checking:doctor", "Check the server, the worker and its clouds."),
    },
    "Without a server": {
        "plan": Entry("penstock.cli.plan:plan", "Decide once, on files: what would be launched, and why."),
        "schema": Entry("penstock.cli.schema:schema", "Print the JSON Schemas of files and messages."),
        "sim": Entry("penstock.cli.sim:sim", "Look at the simulated cloud, and make trouble there."),
    },
}


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="penstock")
def main() -> None:
    """Decide which slices of accelerators to create and which to give back, and explain why."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character shows a question mark
