"""`python -m bench`: run the benchmarks, print the tables and the verdicts."""

from pathlib import Path

import click

from bench.adversarial import AdversarialResult, adversarial_verdicts, run_adversarial
from bench.backlog import BacklogResult, backlog_table, backlog_verdicts, run_backlog
from bench.fullsize import FullSizeResult, full_size_table, full_size_verdicts, run_full_size
from bench.giving_back import GivingBackResult, giving_back_verdicts, run_giving_back
from bench.packing import PackingRun, run_packing
from bench.remedies import RemedyResult, run_remedies
from bench.report import giving_back_table, packing_table, routing_table, scaling_table, state_line, verdict_lines, wide_console
from bench.routing import RoutingResult, run_routing
from bench.scaling import ScalingResult, run_scaling, scaling_verdicts
from bench.state import StateResult, run_state
from bench.targets import packing_verdicts, remedy_verdicts, routing_verdicts, state_verdicts
from bench.temporal.run import TemporalRun, run_temporal, temporal_table, temporal_verdicts
from bench.verdicts import Verdict
from penstock.model.value import Value

PARTS = ("routing", "packing", "scaling", "adversarial", "giving-back", "state", "remedies", "temporal", "backlog", "fullsize")
"""What `--only` can name, in the order in which all are run."""


class BenchRun(Value):
    """All results of one run, as `--json` writes them."""

    quick: bool
    routing: tuple[RoutingResult, ...] = ()
    packing: PackingRun | None = None
    scaling: tuple[ScalingResult, ...] = ()
    adversarial: tuple[AdversarialResult, ...] = ()
    giving_back: tuple[GivingBackResult, ...] = ()
    state: StateResult | None = None
    remedies: tuple[RemedyResult, ...] = ()
    temporal: TemporalRun | None = None
    backlog: tuple[BacklogResult, ...] = ()
    fullsize: FullSizeResult | None = None
    verdicts: tuple[Verdict, ...]


@click.command()
@click.option("--quick", is_flag=True, help="At most 10,000 entries, and only the large packing cases.")
@click.option(
    "--only",
    type=click.Choice(PARTS),
    help="Run only this benchmark.",
)
@click.option("--all-slices", is_flag=True, help="With fullsize: launch all 5,000 slices, which takes minutes more.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write every figure to this file.")
def main(*, quick: bool, only: str | None, all_slices: bool, json_file: Path | None) -> None:
    """Compare decisions on recorded workloads with the best public planners, and the durable loop with bare Temporal."""
    found = _measure(quick=quick, only=only, all_slices=all_slices)
    console = wide_console()
    if found.routing:
        console.print(routing_table(found.routing))
    if found.packing:
        console.print(packing_table(found.packing))
    if found.scaling:
        console.print(scaling_table(found.scaling))
    if found.giving_back:
        console.print(giving_back_table(found.giving_back))
    if found.state:
        console.print(state_line(found.state), highlight=False, soft_wrap=True)
    if found.temporal:
        console.print(temporal_table(found.temporal))
    if found.backlog:
        console.print(backlog_table(found.backlog))
    if found.fullsize:
        console.print(full_size_table(found.fullsize))
    console.print("Targets")
    for line in verdict_lines(found.verdicts):
        console.print(line, highlight=False, soft_wrap=True)
    if json_file is not None:
        json_file.write_text(found.model_dump_json(indent=1) + "\n")


def _measure(*, quick: bool, only: str | None, all_slices: bool) -> BenchRun:
    verdicts: list[Verdict] = []
    routing: list[RoutingResult] = []
    remedies: list[RemedyResult] = []
    scaling: list[ScalingResult] = []
    adversarial: list[AdversarialResult] = []
    backlog: list[BacklogResult] = []
    giving_back: list[GivingBackResult] = []
    packing = state = temporal = fullsize = None
    if only in (None, "routing"):
        routing = run_routing(quick=quick)
        verdicts += routing_verdicts(routing)
    if only in (None, "packing"):
        packing = run_packing(quick=quick)
        verdicts += packing_verdicts(packing)
    if only in (None, "scaling"):
        scaling = run_scaling(quick=quick)
        verdicts += scaling_verdicts(scaling)
    if only in (None, "adversarial"):
        adversarial = run_adversarial(quick=quick or only is None)
        verdicts += adversarial_verdicts(adversarial)
    if only in (None, "giving-back"):
        giving_back = run_giving_back(quick=quick)
        verdicts += giving_back_verdicts(giving_back)
    if only in (None, "state"):
        state = run_state()
        verdicts += state_verdicts(state)
    if only in (None, "remedies"):
        remedies = run_remedies(quick=quick)
        verdicts += remedy_verdicts(remedies)
    if only in (None, "temporal"):
        temporal = run_temporal(quick=quick)
        verdicts += temporal_verdicts(temporal)
    if only in (None, "backlog"):
        backlog = run_backlog(quick=quick)
        verdicts += backlog_verdicts(backlog)
    if only in (None, "fullsize"):
        fullsize = run_full_size(quick=quick, everything=all_slices)
        verdicts += full_size_verdicts(fullsize)
    return BenchRun(
        quick=quick,
        routing=tuple(routing),
        packing=packing,
        scaling=tuple(scaling),
        adversarial=tuple(adversarial),
        giving_back=tuple(giving_back),
        state=state,
        remedies=tuple(remedies),
        temporal=temporal,
        backlog=tuple(backlog),
        fullsize=fullsize,
        verdicts=tuple(verdicts),
    )


if __name__ == "__main__":
    main()
