"""`python -m bench`: run the benchmarks, print the tables and the verdicts."""

from pathlib import Path

import click

from bench.packing import PackingRun, run_packing
from bench.report import packing_table, routing_table, state_line, verdict_lines, wide_console
from bench.routing import RoutingResult, run_routing
from bench.state import StateResult, run_state
from bench.targets import packing_verdicts, routing_verdicts, state_verdicts
from bench.temporal.run import TemporalRun, run_temporal, temporal_table, temporal_verdicts
from bench.verdicts import Verdict
from penstock.model.value import Value


class BenchRun(Value):
    """All results of one run, as `--json` writes them."""

    quick: bool
    routing: tuple[RoutingResult, ...] = ()
    packing: PackingRun | None = None
    state: StateResult | None = None
    temporal: TemporalRun | None = None
    verdicts: tuple[Verdict, ...]


@click.command()
@click.option("--quick", is_flag=True, help="At most 10,000 entries, and only the large packing cases.")
@click.option("--only", type=click.Choice(["routing", "packing", "state", "temporal"]), help="Run only this benchmark.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write every figure to this file.")
def main(*, quick: bool, only: str | None, json_file: Path | None) -> None:
    """Compare decisions on recorded workloads with the best public planners, and the durable loop with bare Temporal."""
    found = _measure(quick=quick, only=only)
    console = wide_console()
    if found.routing:
        console.print(routing_table(found.routing))
    if found.packing:
        console.print(packing_table(found.packing))
    if found.state:
        console.print(state_line(found.state), highlight=False, soft_wrap=True)
    if found.temporal:
        console.print(temporal_table(found.temporal))
    console.print("Targets")
    for line in verdict_lines(found.verdicts):
        console.print(line, highlight=False, soft_wrap=True)
    if json_file is not None:
        json_file.write_text(found.model_dump_json(indent=1) + "\n")


def _measure(*, quick: bool, only: str | None) -> BenchRun:
    verdicts: list[Verdict] = []
    routing: list[RoutingResult] = []
    packing = state = temporal = None
    if only in (None, "routing"):
        routing = run_routing(quick=quick)
        verdicts += routing_verdicts(routing)
    if only in (None, "packing"):
        packing = run_packing(quick=quick)
        verdicts += packing_verdicts(packing)
    if only in (None, "state"):
        state = run_state()
        verdicts += state_verdicts(state)
    if only in (None, "temporal"):
        temporal = run_temporal(quick=quick)
        verdicts += temporal_verdicts(temporal)
    return BenchRun(
        quick=quick, routing=tuple(routing), packing=packing, state=state, temporal=temporal, verdicts=tuple(verdicts)
    )


if __name__ == "__main__":
    main()
