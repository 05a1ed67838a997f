"""`python -m bench.compare OTHER_TREE`: the fleet and the latency of two trees in one run, in turn.

The other tree is a second checkout, for example `git worktree add ../before COMMIT`, with its own `.venv` if its dependencies
differ. The measuring script is this tree's; everything that it imports, and every process that it starts, is the other's.
"""

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import click
from rich.table import Table

from bench.measuring import ROOT, progress
from bench.report import wide_console
from bench.temporal import side
from bench.temporal.fleet import QUICK_SLICES, SLICES
from bench.temporal.side import SideResult
from bench.verdicts import Status, Verdict

OF_RATE = 1.5
"""What the rates of this tree are to be, of the other's."""
SAMPLES, QUICK_SAMPLES = 30, 10


def measured(tree: Path, *, slices: int, samples: int) -> SideResult:
    """The figures of one tree, from one run of its own processes."""
    python = tree / ".venv/bin/python"
    command = [str(python) if python.exists() else sys.executable, "-P", side.__file__, str(slices), str(samples)]
    progress(f"{tree}: {slices} slices, {samples} demands")
    environment = os.environ | {"PYTHONPATH": str(tree)}
    output = subprocess.run(command, cwd=tree, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    return SideResult.model_validate_json(output)


def comparison(other: list[SideResult], this: list[SideResult]) -> Table:
    """The medians of both trees, and the figures of this tree as a multiple of the other's."""
    table = Table(title=f"Median of {len(this)}, in turn", title_justify="left")
    for name in ("figure", "other", "this", "this / other"):
        table.add_column(name, justify="left" if name == "figure" else "right")
    for name in SideResult.model_fields:
        before, after = (median(getattr(result, name) for result in results) for results in (other, this))
        ratio = f"{after / before:.2f}" if before else ""
        table.add_row(name.replace("_", " "), f"{before:,.1f}", f"{after:,.1f}", ratio)
    return table


def rate_verdicts(other: list[SideResult], this: list[SideResult]) -> list[Verdict]:
    """Whether slices become READY, and are deleted, at `OF_RATE` times the other tree's rates."""
    found = []
    for name in ("ready_per_second", "deleted_per_second"):
        before, after = (median(getattr(result, name) for result in results) for results in (other, this))
        status = Status.REACHED if after >= OF_RATE * before else Status.MISSED
        figures = f"{after:.1f} of {before:.1f}"
        found.append(
            Verdict(target=f"{name.replace('_', ' ')}: at least {OF_RATE:g} times the other's", status=status, figures=figures)
        )
    return found


@click.command()
@click.argument("other_tree", type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path))
@click.option("--rounds", default=1, show_default=True, help="Runs of each tree; the medians are shown.")
@click.option("--slices", type=int, help=f"Slices of the fleet: {SLICES}, {QUICK_SLICES} with --quick.")
@click.option("--samples", type=int, help=f"Demands of the latency: {SAMPLES}, {QUICK_SAMPLES} with --quick; 0 for none.")
@click.option("--quick", is_flag=True)
def main(*, other_tree: Path, rounds: int, slices: int | None, samples: int | None, quick: bool) -> None:
    """Measure another tree and this one in turn, and print both with their ratios."""
    slices = (QUICK_SLICES if quick else SLICES) if slices is None else slices
    samples = (QUICK_SAMPLES if quick else SAMPLES) if samples is None else samples
    found: dict[Path, list[SideResult]] = {other_tree: [], ROOT: []}
    for _ in range(rounds):
        for tree, results in found.items():
            results.append(measured(tree, slices=slices, samples=samples))
            progress(results[-1].model_dump_json())
    wide_console().print(comparison(found[other_tree], found[ROOT]))
    verdicts = rate_verdicts(found[other_tree], found[ROOT])
    for verdict in verdicts:
        wide_console().print(f"{verdict.status:8} {verdict.target}: {verdict.figures}")
    sys.exit(any(verdict.status is Status.MISSED for verdict in verdicts))


if __name__ == "__main__":
    main()
