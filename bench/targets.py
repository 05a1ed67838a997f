"""The performance targets, and whether the results of a run reach them."""

from collections.abc import Callable, Iterable

from bench.packing import PackingResult, PackingRun
from bench.remedies import RemedyResult
from bench.routing import RoutingResult
from bench.state import StateResult
from bench.verdicts import Status, Verdict

CPU_TIGHT_SECONDS = 0.4
TPU_TIGHT_SECONDS = 0.04
HUGE_SECONDS = 2.0
HUGE_MEGABYTES = 300.0
FASTER_THAN_RAY = 30.0
OVER_BOUND = 1.02
STATE_BYTES = 1_000_000
STATE_SECONDS = 0.3
ASKER_SECONDS = 2.0
PLAN_RATIO = 5.0
BOUND_FROM_TASKS = 1_000
"""With fewer tasks, a single additional slice would exceed `OVER_BOUND`."""

_ALMOST = 1e-6
"""Tolerance for floating-point sums of prices."""


def routing_verdicts(results: Iterable[RoutingResult]) -> list[Verdict]:
    """Targets for speed and memory of routing."""
    rows = list(results)
    huge = [row for row in rows if row.entries == 100_000 and row.groups == 200]
    return [
        _fast_enough(rows, "cpu/tight", CPU_TIGHT_SECONDS),
        _fast_enough(rows, "tpu/tight", TPU_TIGHT_SECONDS),
        _at_most(f"every workload 100,000 × 200 under {HUGE_SECONDS:g} s", huge, HUGE_SECONDS, lambda r: r.cpu_seconds, "s"),
        _at_most(f"every workload 100,000 × 200 under {HUGE_MEGABYTES:g} MB", huge, HUGE_MEGABYTES, lambda r: r.peak_mb, "MB"),
    ]


def packing_verdicts(run: PackingRun) -> list[Verdict]:
    """Targets for speed and quality of packing, compared with Ray and the bounds."""
    rows = run.results
    large = [row for row in rows if row.large]
    from_tasks = [row for row in rows if row.tasks >= BOUND_FROM_TASKS]
    same_cost = [row for row in rows if abs(row.ours.cost.cost - row.ray.cost) < _ALMOST]
    return [
        _all_hold(
            f"`packing` {FASTER_THAN_RAY:g}× faster than Ray on large cases", large, packing_speedup, FASTER_THAN_RAY, _speedup
        ),
        _all_hold(f"`cost` {FASTER_THAN_RAY:g}× faster than Ray on large cases", large, cost_speedup, FASTER_THAN_RAY, _speedup),
        _all_hold("`packing` never more slices than Ray", rows, lambda r: r.ray.nodes - r.ours.packing.slices, 0, _slices),
        _all_hold("`cost` never more expensive than Ray", rows, lambda r: r.ray.cost - r.ours.cost.cost, -_ALMOST, _costs),
        _all_hold(
            f"`cost` within {OVER_BOUND - 1:.0%} of the bound from {BOUND_FROM_TASKS:,} tasks",
            from_tasks,
            lambda r: -r.over_bound,
            -OVER_BOUND,
            lambda r: f"{r.over_bound:.4f} (cost {r.ours.cost.cost:g}, bound {r.best_cost_bound:g})",
        ),
        _all_hold(
            "`cost` no more slices than Ray where the cost is equal",
            same_cost,
            lambda r: r.ray.nodes - r.ours.cost.slices,
            0,
            lambda r: f"{r.ours.cost.slices} slices, Ray {r.ray.nodes}",
        ),
        _all_hold(
            "everything placed",
            rows,
            lambda r: -max(r.ours.packing.unmet, r.ours.cost.unmet),
            0,
            lambda r: f"unmet {r.ours.packing.unmet} with packing, {r.ours.cost.unmet} with cost",
        ),
    ]


def state_verdicts(result: StateResult) -> list[Verdict]:
    """Targets for the size of the state, and the time to encode and decode it."""
    small = Status.REACHED if result.json_bytes < STATE_BYTES else Status.MISSED
    slowest = max(result.encode_seconds, result.decode_seconds)
    fast = Status.REACHED if slowest < STATE_SECONDS else Status.MISSED
    times = f"encode {result.encode_seconds:.3f} s, decode {result.decode_seconds:.3f} s"
    return [
        Verdict(target="the full state is less than 1 MB of JSON", status=small, figures=f"{result.json_bytes:,} bytes"),
        Verdict(target=f"it is encoded, and decoded, in under {STATE_SECONDS:g} s", status=fast, figures=times),
    ]


def remedy_verdicts(results: Iterable[RemedyResult]) -> list[Verdict]:
    """Targets for the search of remedies: one asker at full size, and all remedies of a decision."""
    found = []
    for row in results:
        asker = f"one asker's remedy by {row.placement}, {row.tasks:,} tasks, in {ASKER_SECONDS:g} s"
        quick = Status.REACHED if row.asker_seconds <= ASKER_SECONDS else Status.MISSED
        found.append(Verdict(target=asker, status=quick, figures=f"{row.asker_seconds:.3f} s"))
        ratio = (row.decide_seconds + row.plan_seconds) / row.decide_seconds
        plan = f"decision and remedies by {row.placement}, {row.tasks:,} tasks, in {PLAN_RATIO:g} times the decision"
        cheap = Status.REACHED if ratio <= PLAN_RATIO else Status.MISSED
        found.append(Verdict(target=plan, status=cheap, figures=f"{ratio:.1f} times {row.decide_seconds:.3f} s"))
    return found


def packing_speedup(row: PackingResult) -> float:
    """Time of Ray divided by the time of `packing`."""
    return row.ray.cpu_seconds / row.ours.packing.cpu_seconds


def cost_speedup(row: PackingResult) -> float:
    """Time of Ray divided by the time of `cost`."""
    return row.ray.cpu_seconds / row.ours.cost.cpu_seconds


def _speedup(row: PackingResult) -> str:
    ours = f"packing {row.ours.packing.cpu_seconds:.4f} s ({packing_speedup(row):.0f}×)"
    cost = f"cost {row.ours.cost.cpu_seconds:.4f} s ({cost_speedup(row):.0f}×)"
    return f"{ours}, {cost}, Ray {row.ray.cpu_seconds:.3f} s{'' if row.ray.measured else ' as recorded'}"


def _slices(row: PackingResult) -> str:
    return f"{row.ours.packing.slices} slices {row.ours.packing.launched}, Ray {row.ray.nodes} {row.ray.launched}"


def _costs(row: PackingResult) -> str:
    return f"{row.ours.cost.cost:g} {row.ours.cost.launched}, Ray {row.ray.cost:g} {row.ray.launched}"


def _fast_enough(rows: list[RoutingResult], workload: str, most: float) -> Verdict:
    chosen = [row for row in rows if (row.workload, row.entries, row.groups) == (workload, 10_000, 200)]
    return _at_most(f"{workload} 10,000 × 200 in {most:g} s", chosen, most, lambda r: r.cpu_seconds, "s")


def _at_most(target: str, rows: list[RoutingResult], most: float, figure: Callable[[RoutingResult], float], unit: str) -> Verdict:
    if not rows:
        return Verdict(target=target, status=Status.NOT_RUN, figures="")
    worst = max(rows, key=figure)
    misses = tuple(f"{row.workload}: {figure(row):.3f} {unit}" for row in rows if figure(row) > most)
    status = Status.MISSED if misses else Status.REACHED
    return Verdict(target=target, status=status, figures=f"worst {worst.workload}: {figure(worst):.3f} {unit}", misses=misses)


def _all_hold(
    target: str,
    rows: Iterable[PackingResult],
    margin: Callable[[PackingResult], float],
    least: float,
    figures: Callable[[PackingResult], str],
) -> Verdict:
    """Whether the margin of every row is at least `least`. The verdict shows the row with the smallest margin."""
    ordered = sorted(rows, key=margin)
    if not ordered:
        return Verdict(target=target, status=Status.NOT_RUN, figures="")
    misses = tuple(f"{row.case}: {figures(row)}" for row in ordered if margin(row) < least)
    status = Status.MISSED if misses else Status.REACHED
    worst = ordered[0]
    return Verdict(target=target, status=status, figures=f"worst {worst.case}: {figures(worst)}", misses=misses)
