"""`python -m bench.chaos`: churn on a real service, then a table of what went wrong; exits non-zero if anything did."""

import asyncio
import secrets
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

from bench.chaos.run import Options, run
from bench.chaos.table import fault_lines, outcome_table

FAULT_SHARE = 0.1
BACKLOG = 500
"""Raw reports in one backlog: eight minutes of a controller that reports once a second."""
CLEAN_SECONDS = 240.0
"""Deadline for coming to rest: a killed worker is missed after 15 s, and retries back off for as long as calls failed."""


@click.command()
@click.option("--minutes", default=5.0, show_default=True, type=click.FloatRange(0.1), help="How long to churn.")
@click.option("--seed", type=int, help="Repeat the order of steps of an earlier run; drawn if omitted.")
@click.option("--workers", default=3, show_default=True, type=click.IntRange(1), help="Worker processes.")
@click.option(
    "--faults", default=FAULT_SHARE, show_default=True, type=click.FloatRange(0, 1), help="Share of cloud calls that fail."
)
@click.option("--backlog", default=BACKLOG, show_default=True, type=click.IntRange(1), help="Raw reports in one backlog.")
@click.option(
    "--clean-seconds", default=CLEAN_SECONDS, show_default=True, type=click.FloatRange(1), help="Deadline to come to rest."
)
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Keep logs and databases in this new folder.")
def main(
    *, minutes: float, seed: int | None, workers: int, faults: float, backlog: int, clean_seconds: float, keep: Path | None
) -> None:
    """Kill, fail, steal and reset for minutes; then nothing may be doubled, leaked, lost, stuck, wedged or touched."""
    seed = secrets.randbelow(10**6) if seed is None else seed
    # Calls fail on purpose here, and the SDK would log a line for every retry.
    logging = LoggingConfig(filter=TelemetryFilter(core_level="ERROR", other_level="ERROR"))
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=logging)))
    click.echo(f"seed {seed}; repeat with: python -m bench.chaos --minutes {minutes:g} --seed {seed}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        outcome = asyncio.run(
            run(
                Options(
                    minutes=minutes,
                    seed=seed,
                    workers=workers,
                    fault_share=faults,
                    backlog=backlog,
                    clean_seconds=clean_seconds,
                    folder=folder,
                )
            )
        )
    console = Console(width=120)
    console.print(outcome_table(outcome))
    for line in (*outcome.notes, *fault_lines(outcome.findings)):
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    sys.exit(0 if outcome.passed else 1)


if __name__ == "__main__":
    main()
