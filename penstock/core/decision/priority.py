"""Placement `priority`: entries in the order given, each on the first capacity that takes it."""

from collections.abc import Mapping

from penstock.core.decision.bins import HostBin
from penstock.core.decision.cursors import ShapeCursor, ShapeCursors
from penstock.core.decision.gangs import place_gangs
from penstock.core.decision.plan import Plan
from penstock.core.decision.singles import place_singles
from penstock.model.runs import HostRef, Run

HostsByRef = Mapping[tuple[str, int], HostBin]


def place_by_priority(plan: Plan, cursors: ShapeCursors, runs: tuple[Run, ...], hosts: HostsByRef) -> None:
    """Place every run. CPU work that the first pass leaves unplaced tries accelerator groups after everything else."""
    first_pass = cursors.first_pass()
    left_over: list[tuple[int, int]] = []
    for number, run in enumerate(runs):
        if run.fault is None:
            left = run.entries if plan.gives_up(number) else place_run(plan, first_pass[run.shape], number, run, 0, hosts)
            if left:
                left_over.append((number, left))
    second_pass = cursors.second_pass()
    for number, left in left_over:
        run = runs[number]
        cursor = second_pass[run.shape]
        if cursor is not None and not plan.gives_up(number):
            left = place_run(plan, cursor, number, run, run.entries - left, hosts)
        if left:
            plan.unplaced.append((number, run.entries - left, left))


def place_run(plan: Plan, cursor: ShapeCursor, number: int, run: Run, first: int, hosts: HostsByRef) -> int:
    """Place the entries of a run from `first` on; returns how many stay unplaced."""
    count = run.entries - first
    if cursor.gang is None:
        return place_singles(plan, cursor, number, first, count)
    return place_gangs(plan, cursor, number, first, count, pending=run.pending, apart=apart_hosts(run.apart, hosts))


def apart_hosts(refs: tuple[HostRef, ...], hosts: HostsByRef) -> frozenset[HostBin]:
    """The hosts on which other tasks of a gang already run."""
    return frozenset(hosts[ref] for ref in refs if ref in hosts)
