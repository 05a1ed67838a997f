"""Print a run: the routing and packing tables, the line of the state, and the verdicts."""

from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.giving_back import GivingBackResult
from bench.packing import PackingResult, PackingRun
from bench.ray_peer import RAY
from bench.routing import RoutingResult
from bench.scaling import REPEATS as SCALING_REPEATS
from bench.scaling import ScalingResult
from bench.state import REPEATS, SLICES, TASKS, StateResult
from bench.targets import cost_speedup, packing_speedup
from bench.verdicts import Status, Verdict

_COLOURS = {Status.REACHED: "green", Status.MISSED: "red", Status.NOT_RUN: "yellow"}
_TABLE_WIDTH = 170
"""Columns of the widest row. Figures that wrap are hard to compare, so a narrower terminal gets long lines."""


def wide_console() -> Console:
    """A console on which no row of the tables wraps."""
    console = Console()
    return console if console.width >= _TABLE_WIDTH else Console(width=_TABLE_WIDTH)


def routing_table(results: Iterable[RoutingResult]) -> Table:
    """A row per workload, with the recorded times of the public router."""
    table = Table(title="Demand routing: one decision by priority", title_justify="left", caption_justify="left")
    table.caption = (
        "CPU seconds of decide(), including reasons and messages: best of 3, or one call at n = 100,000, each on a new snapshot. "
        "Router: Iris route_demand as recorded in 2026-11 on a 2-core machine, not measured in this run; the ratio is an order "
        "of magnitude. Peak: memory of the process up to the last decision. Demand: build_demand(), timed separately, without "
        "validation of the tasks. It merges consecutive entries of one shape into runs (tpu/ample and tpu/tight become a single "
        "run), so add its column before comparing with a router that takes entries one by one."
    )
    table.add_column("workload")
    for name in ("groups", "n", "CPU s", "router s", "ratio", "placed", "unmet", "slices", "peak MB", "demand CPU s"):
        table.add_column(name, justify="right")
    previous = None
    for row in results:
        if previous is not None and previous != row.workload:
            table.add_section()
        previous = row.workload
        table.add_row(*_routing_cells(row))
    return table


def state_line(result: StateResult) -> str:
    """One line with the size and times of the full state."""
    return (
        f"State of {TASKS:,} tasks and {SLICES:,} slices: {result.json_bytes:,} bytes of JSON, encoded in "
        f"{result.encode_seconds:.3f} s, decoded in {result.decode_seconds:.3f} s of CPU (best of {REPEATS}), "
        f"peak {result.peak_mb:.0f} MB"
    )


def packing_table(run: PackingRun) -> Table:
    """A row per case: Ray, `packing`, `cost`, and the bounds."""
    table = Table(title="Bin packing: one decision compared with Ray", title_justify="left", caption_justify="left")
    table.caption = _packing_caption(run)
    table.add_column("case", no_wrap=True)
    for name in (
        "Ray\nCPU s",
        "packing\nCPU s",
        "ratio",
        "slices\nours / Ray / bound",
        "cost\nCPU s",
        "ratio",
        "cost\nours / Ray / LP bound",
        "whole-task\nbound",
        "cost /\nbound",
        "slices\nof cost",
        "peak\nMB",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for row in run.results:
        table.add_row(*_packing_cells(row))
    return table


def scaling_table(results: Iterable[ScalingResult]) -> Table:
    """A row per workload and placement, with the ratio for twice the entries."""
    table = Table(title="Distinct sizes and pack gangs: one decision", title_justify="left", caption_justify="left")
    table.caption = (
        f"CPU seconds of decide(), best of {SCALING_REPEATS}. distinct/k: single tasks, no two of one size, for 200 groups of k "
        "different machines. pack: gangs of 4 on 5,000 idle slices of 4 hosts. Thorough: the budget of work sufficed."
    )
    for name in ("workload", "placement"):
        table.add_column(name)
    for name in ("n", "CPU s", "CPU s of 2n", "ratio", "slices", "cost", "thorough"):
        table.add_column(name, justify="right")
    for row in results:
        times = (f"{row.cpu_seconds:.3f}", f"{row.cpu_seconds_of_twice:.3f}", f"{row.ratio:.2f}")
        outcome = (str(row.slices), f"{row.cost:.2f}", "yes" if row.thorough else "no")
        table.add_row(row.workload, row.placement, f"{row.entries:,}", *times, *outcome)
    return table


def giving_back_table(results: Iterable[GivingBackResult]) -> Table:
    """A row per cause for which slices go."""
    table = Table(title="Giving back: one decision at full size", title_justify="left", caption_justify="left")
    table.caption = (
        "CPU seconds of decide() and of the reasons of every slice that stays. idle: a fifth of the slices is idle beyond the "
        "timeout. replacement: all others are outdated. consolidation: their work could be packed. A hundred may be disrupted."
    )
    table.add_column("case")
    for name in ("READY slices", "tasks", "decide s", "reasons s", "drains", "replacements"):
        table.add_column(name, justify="right")
    for row in results:
        times = (f"{row.decide_seconds:.3f}", f"{row.kept_seconds:.3f}")
        table.add_row(row.case, f"{row.slices:,}", f"{row.tasks:,}", *times, f"{row.drains:,}", f"{row.replacements:,}")
    return table


def verdict_lines(verdicts: Iterable[Verdict]) -> list[str]:
    """A line per target, followed by a line per row that misses it."""
    lines = []
    for verdict in verdicts:
        colour = _COLOURS[verdict.status]
        figures = f": {escape(verdict.figures)}" if verdict.figures else ""
        lines.append(f"[{colour}]{verdict.status:8}[/{colour}] {escape(verdict.target)}{figures}")
        lines += [f"           {escape(miss)}" for miss in verdict.misses]
    return lines


def _routing_cells(row: RoutingResult) -> list[str]:
    router = row.router_seconds
    return [
        row.workload,
        str(row.groups),
        f"{row.entries:,}",
        f"{row.cpu_seconds:.4f}",
        "–" if router is None else f"{router:g}",
        "–" if router is None else f"{router / row.cpu_seconds:.0f}×",
        f"{row.placed:,}",
        f"{row.unmet:,}",
        f"{row.launched:,}",
        f"{row.peak_mb:.0f}",
        f"{row.demand_seconds:.4f}",
    ]


def _packing_cells(row: PackingResult) -> list[str]:
    packing, cost, ray = row.ours.packing, row.ours.cost, row.ray
    whole = row.whole_task_cost_bound
    return [
        row.case,
        f"{ray.cpu_seconds:.4f}{'' if ray.measured else '*'}",
        f"{packing.cpu_seconds:.4f}",
        f"{packing_speedup(row):.0f}×",
        f"{packing.slices} / {ray.nodes} / {row.slices_bound}",
        f"{cost.cpu_seconds:.4f}",
        f"{cost_speedup(row):.0f}×",
        f"{cost.cost:.2f} / {ray.cost:.2f} / {row.cost_bound:.2f}",
        "–" if whole is None else f"{whole:.2f}",
        f"{row.over_bound:.4f}",
        str(cost.slices),
        f"{row.ours.peak_mb:.0f}",
    ]


def _packing_caption(run: PackingRun) -> str:
    if run.ray_missing is None:
        ray = f"{RAY} ResourceDemandScheduler.schedule() in this run and on this machine"
    else:
        ray = f"* as recorded in the cases: {RAY} could not be installed here ({escape(run.ray_missing)}), so ratios mix machines"
    return (
        f"CPU seconds: median of 3 on both sides; one call if Ray takes over 2 s. Ray: {ray}. "
        "The LP bound divides tasks between hosts, so no plan may reach it with existing nodes (e200). For a single shape, the "
        "whole-task bound (tasks that fit on existing hosts, the others at the cheapest share of a host) replaces it."
    )
