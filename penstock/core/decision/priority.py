"""Placement `priority`: entries in the order they were given, each on the first capacity that takes it."""

from collections.abc import Mapping

from penstock.core.decision.cursors import ShapeCursor, ShapeCursors
from penstock.core.decision.fleet import HostBin
from penstock.core.decision.gangs import place_gangs
from penstock.core.decision.plan import Plan
from penstock.core.decision.singles import place_singles
from penstock.model.runs import HostRef, Run

HostsByRef = Mapping[tuple[str, int], HostBin]


def place_by_priority(plan: Plan, wants: ShapeCursors, runs: tuple[Run, ...], hosts: HostsByRef) -> None:
    """Place every run; what the first pass leaves of CPU work tries accelerator groups after all else is placed."""
    first_pass = wants.first_pass()
    left_over: list[tuple[int, int]] = []
    for number, run in enumerate(runs):
        if run.fault is None:
            left = place_run(plan, first_pass[run.shape], number, run, 0, hosts)
            if left:
                left_over.append((number, left))
    second_pass = wants.second_pass()
    for number, left in left_over:
        run = runs[number]
        want = second_pass[run.shape]
        if want is not None:
            left = place_run(plan, want, number, run, run.entries - left, hosts)
        if left:
            plan.unplaced.append((number, run.entries - left, left))


def place_run(plan: Plan, want: ShapeCursor, number: int, run: Run, first: int, hosts: HostsByRef) -> int:
    """Place the entries of a run from `first` on; returns how many found no place."""
    count = run.entries - first
    if want.gang is None:
        return place_singles(plan, want, number, first, count)
    return place_gangs(plan, want, number, first, count, pending=run.pending, apart=apart_hosts(run.apart, hosts))


def apart_hosts(refs: tuple[HostRef, ...], hosts: HostsByRef) -> frozenset[HostBin]:
    """The hosts where other members of a gang run already."""
    return frozenset(hosts[ref] for ref in refs if ref in hosts)
