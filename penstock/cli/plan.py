"""`penstock plan`: a dry run, one decision on files without a server."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import click

from penstock.cli.failures import EXIT_BAD_INPUT, EXIT_UNMET, BadFiles, print_problems
from penstock.cli.render_decision import print_decision, print_explanation, print_slice_explanation
from penstock.config.cluster import load_cluster
from penstock.config.demand import load_demand
from penstock.config.problems import BadInput, Problem
from penstock.config.slices import SlicesFile, load_slices
from penstock.contract.answers import TaskStatus
from penstock.core.answers.explain import explain
from penstock.core.answers.explain_slice import explain_slice
from penstock.core.answers.remedy import remedies_for
from penstock.core.answers.snapshot import snapshot_of
from penstock.core.answers.summary import summarize
from penstock.core.decision.decide import decide
from penstock.core.decision.keeping import kept_of
from penstock.core.state.apply import replay
from penstock.core.state.blocks import blocks_of
from penstock.core.state.events import ConfigApplied, DemandSnapshot
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig, Placement
from penstock.model.demand import Demand

T = TypeVar("T")

_FILE = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
_STANDARD_INPUT = Path("-")


@click.command()
@click.argument("cluster", type=_FILE)
@click.argument("demand", type=_FILE)
@click.option("--slices", type=_FILE, help="Existing slices, usage, health, standing requests, pressure.")
@click.option(
    "--placement",
    type=click.Choice([str(placement) for placement in Placement]),
    help="Placement to use instead of the configured one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the decision as JSON.")
@click.option(
    "--explain", "task", metavar="TASK", help="Explain where one task is placed, or why it is not; or why a slice is kept."
)
def plan(cluster: Path, demand: Path, slices: Path | None, placement: str | None, as_json: bool, task: str | None) -> None:
    """CLUSTER is a configuration, DEMAND a list of pending tasks; one of them may be - for standard input.

    Exit status: 0 if everything is placed, 3 with unmet demand, 2 on bad input.
    """
    raise SystemExit(run_plan(cluster, demand, slices=slices, placement=placement, as_json=as_json, task=task))


def run_plan(cluster: Path, demand: Path, *, slices: Path | None, placement: str | None, as_json: bool, task: str | None) -> int:
    """Decide on the files and print the decision; returns the exit status."""
    if [cluster, demand, slices].count(_STANDARD_INPUT) > 1:
        raise click.UsageError("only one of the files can be read from standard input")
    try:
        state = load_state(cluster, demand, slices, placement)
    except BadInput as bad:
        raise BadFiles(bad.problems) from None
    if task is not None:
        return _explain_task(state, task, as_json=as_json)
    view = snapshot_of(state)
    decision = decide(view.snapshot)
    kept = kept_of(view.snapshot, decision)
    summary = summarize(decision, view.demand, remedies_for(view.snapshot, decision), kept=kept)
    if as_json:
        click.echo(summary.model_dump_json(indent=2))
    else:
        print_decision(summary)
    return EXIT_UNMET if summary.unmet else 0


def load_state(cluster: Path, demand: Path, slices: Path | None, placement: str | None) -> AutoscalerState:
    """The state that the files describe; raises `BadInput` with the problems of all of them."""
    problems: list[Problem] = []

    def attempt(load: Callable[[], T]) -> T | None:
        try:
            return load()
        except BadInput as bad:
            problems.extend(bad.problems)
            return None

    loaded = attempt(lambda: load_cluster(cluster, placement=Placement(placement) if placement else None))
    tasks = attempt(lambda: load_demand(demand))
    seen = attempt(lambda: load_slices(slices)) if slices else None
    if loaded and seen:
        print_problems(attempt(lambda: seen.check(loaded.config)) or (), "warning")
    if problems or loaded is None or tasks is None:
        raise BadInput(problems)
    print_problems(loaded.warnings, "warning")
    return _state(loaded.config, tasks, seen.content if seen else SlicesFile())


def _state(config: ClusterConfig, tasks: Demand, seen: SlicesFile) -> AutoscalerState:
    now = seen.now or datetime.now(UTC)
    start = AutoscalerState(
        slices=seen.all_slices(),
        usage=seen.usage(),
        blocks=blocks_of(seen.health, now),
        standing={request.owner: request for request in seen.standing},
        launched=seen.launched,
        pressure={name: item.state(now) for name, item in seen.pressure.items()},
    )
    reported = DemandSnapshot(at=now, epoch=0, revision=0, demand=tasks)
    return replay([ConfigApplied(at=now, config=config), reported], start)


def _explain_task(state: AutoscalerState, task: str, *, as_json: bool) -> int:
    if task in state.by_id:
        about = explain_slice(state, task)
        click.echo(about.model_dump_json(indent=2)) if as_json else print_slice_explanation(about)
        return 0
    explanation = explain(state, task)
    if as_json:
        click.echo(explanation.model_dump_json(indent=2))
    else:
        print_explanation(explanation)
    return {TaskStatus.UNKNOWN: EXIT_BAD_INPUT, TaskStatus.UNMET: EXIT_UNMET}.get(explanation.status, 0)
