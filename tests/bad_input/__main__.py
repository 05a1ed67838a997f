"""Run 10,000 or more bad files, messages, queries and command lines; print a table and the first findings. `make check-input`."""

import argparse
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

import click

from tests.bad_input.check import CHECKS
from tests.bad_input.findings import Finding, describe, findings

SHARES = {
    "files": 0.3,
    "messages": 0.15,
    "batches": 0.15,
    "queries": 0.12,
    "tasks of the client": 0.08,
    "command lines": 0.2,
}
_TOGETHER = 100
"""Cases that one process takes at once."""


def main() -> int:
    """The exit status: 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="cases in all")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other cases")
    parser.add_argument("--only", choices=CHECKS, help="one kind")
    options = parser.parse_args()
    found = []
    click.echo(f"{'bad input':22}{'cases':>8}{'tracebacks':>12}{'wedges':>8}{'seconds of a core':>19}")
    with ProcessPoolExecutor() as pool:
        for kind in [options.only] if options.only else CHECKS:
            count = options.count if options.only else round(options.count * SHARES[kind])
            cases = [range(i, min(i + _TOGETHER, count)) for i in range(0, count, _TOGETHER)]
            taken = list(pool.map(_taken, repeat(kind), repeat(options.seed), cases))
            here = [finding for chunk, _ in taken for finding in chunk]
            tally = Counter("wedges" if each.what.startswith("wedged") else "tracebacks" for each in here)
            seconds = sum(spent for _, spent in taken)
            click.echo(f"{kind:22}{count:8,}{tally['tracebacks']:12}{tally['wedges']:8}{seconds:19.1f}")
            found += here
    if found:
        click.echo(describe(found))
    return 1 if found else 0


def _taken(kind: str, seed: int, cases: range) -> tuple[list[Finding], float]:
    """The findings of some cases, and the seconds of a core that they took."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        return list(findings(kind, CHECKS[kind], seed, cases, Path(folder))), time.process_time() - began


if __name__ == "__main__":
    sys.exit(main())
