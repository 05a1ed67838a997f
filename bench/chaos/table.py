"""Print a run: its table, what was done to the service, and every fault."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from rich.table import Table

from bench.chaos.accounts import Fault, Finding

MOST_FAULTS = 40
"""Faults that are printed; the table counts them all."""


class Outcome(NamedTuple):
    """The result of a run."""

    seed: int
    minutes: float
    orders: int
    findings: tuple[Finding, ...]
    clean_seconds: float | None
    """From the last fault until everything was at rest; None if it never was."""
    deleted_seconds: float | None
    """From the order to delete the cluster until nothing was left."""
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether there is no fault."""
        return not self.findings and self.clean_seconds is not None and self.deleted_seconds is not None


def outcome_table(outcome: Outcome) -> Table:
    """One row: orders, a count of each kind of fault, and the times."""
    table = Table(title=f"{outcome.minutes:g} minutes of churn, seed {outcome.seed}", title_justify="left")
    counts = Counter(found.fault for found in outcome.findings)
    for name in ("orders", *Fault, "seconds to clean", "seconds to delete"):
        table.add_column(str(name), justify="right")
    faults = [str(counts[fault]) for fault in Fault]
    table.add_row(str(outcome.orders), *faults, _seconds(outcome.clean_seconds), _seconds(outcome.deleted_seconds))
    return table


def fault_lines(findings: Iterable[Finding]) -> list[str]:
    """A line for each fault, the first ones in full."""
    lines = [f"{found.fault}: {found.subject}: {found.message}" for found in findings]
    more = len(lines) - MOST_FAULTS
    return lines[:MOST_FAULTS] + ([f"… and {more} more"] if more > 0 else [])


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.0f}"
