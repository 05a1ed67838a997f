"""Entry point of `penstock`: the table of subcommands, each with its module and its line in the help."""

import io
import sys

import click

from penstock.cli.lazy_group import Entry, LazyGroup

SECTIONS = {
    "Observe": {
        "clusters": Entry("penstock.cli.clusters:clusters", "List the clusters of the namespace."),
        "status": Entry("penstock.cli.status:status", "Show groups, demand, drains and recent failures."),
        "slices": Entry("penstock.cli.slices:slices", "List slices."),
        "slice": Entry("penstock.cli.slices:slice_", "Show everything about one slice."),
        "decision": Entry("penstock.cli.status:decision", "Show the current decision: launches, unmet demand, reasons."),
        "explain": Entry("penstock.cli.status:explain", "Explain where a task is placed, or why it is not."),
        "ui": Entry("penstock.cli.ui:ui", "Print addresses of the Temporal UI."),
    },
    "Demand and configuration": {
        "demand": Entry("penstock.cli.demand:demand", "Submit, show or clear pending tasks; forget a source."),
        "request": Entry("penstock.cli.request:request", "Request capacity that exists whether used or not."),
        "config": Entry("penstock.cli.configuration:config", "Apply, show or compare a cluster's configuration."),
    },
    "Operate": {
        "drain": Entry("penstock.cli.operations:drain", "Drain a slice and delete it, or cancel its drain."),
        "keep": Entry("penstock.cli.operations:keep", "Keep a slice from being given back for a while."),
        "cordon": Entry("penstock.cli.operations:cordon", "Place nothing more on a slice, without draining it."),
        "uncordon": Entry("penstock.cli.operations:uncordon", "Place work on a cordoned slice again."),
        "pause": Entry("penstock.cli.operations:pause", "Stop launching and draining; slices keep running."),
        "resume": Entry("penstock.cli.operations:resume", "Launch and drain again."),
        "clear-block": Entry("penstock.cli.operations:clear_block", "Try launches of a blocked group again, or of all groups."),
        "restore": Entry("penstock.cli.operations:restore", "Start an ended autoscaler again with its last state."),
        "delete": Entry("penstock.cli.delete:delete", "Delete a cluster: its slices, then its autoscaler."),
    },
    "Check": {
        "verify": Entry("penstock.cli.checks:verify", "Compare the ledger, the workflows and the cloud."),
        "doctor": Entry("penstock.cli.checks:doctor", "Check the server, the worker and its clouds."),
    },
    "Without a server": {
        "plan": Entry("penstock.cli.plan:plan", "Decide once, on files: what would be launched, and why."),
        "schema": Entry("penstock.cli.schema:schema", "Print the JSON Schemas of files and messages."),
        "sim": Entry("penstock.cli.sim:sim", "Inspect the simulated cloud and inject faults."),
        "completion": Entry("penstock.cli.completion:completion", "Print the completion script of a shell."),
    },
}


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="penstock")
def main() -> None:
    """Scale slices of accelerators to the demand of job controllers, and explain every decision."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # A terminal that cannot show a character shows a question mark.
