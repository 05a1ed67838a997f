"""Run 10,000 or more bad files, messages and command lines; print a table and the first findings. `make check-input`."""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

import click

from tests.bad_input.check import CHECKS, describe, timed

SHARES = {"files": 0.35, "messages": 0.35, "tasks of the client": 0.1, "command lines": 0.2}


def main() -> int:
    """The exit status: 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="cases in all")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other cases")
    parser.add_argument("--only", choices=CHECKS, help="one kind")
    options = parser.parse_args()
    found = []
    click.echo(f"{'bad input':22}{'cases':>8}{'tracebacks':>12}{'wedges':>8}{'seconds':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for kind in [options.only] if options.only else CHECKS:
            count = options.count if options.only else round(options.count * SHARES[kind])
            here, seconds = timed(kind, options.seed, count, Path(folder))
            tally = Counter("wedges" if each.what.startswith("wedged") else "tracebacks" for each in here)
            click.echo(f"{kind:22}{count:8,}{tally['tracebacks']:12}{tally['wedges']:8}{seconds:9.1f}")
            found += here
    if found:
        click.echo(describe(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
