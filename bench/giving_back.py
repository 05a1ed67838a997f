"""Giving back at full size: deciding on 5,000 READY slices with usage and 100,000 tasks, by what slices go for."""

import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from bench.measuring import output_of, progress
from bench.verdicts import Status, Verdict
from penstock.core.decision.decide import decide
from penstock.core.decision.keeping import kept_of
from penstock.model.cluster import ClusterConfig, ScaleGroup
from penstock.model.constraints import Constraint, Operator
from penstock.model.demand import Demand, Workload
from penstock.model.demand_builder import DemandBuilder
from penstock.model.elasticity import Consolidation
from penstock.model.resources import Resources
from penstock.model.shape import Shape
from penstock.model.slices import HostUsage, Slice, SliceState
from penstock.model.snapshot import Snapshot
from penstock.model.value import Value

TASKS = 100_000
SLICES = 5_000
IDLE = 1_000
HOSTS = 4
SHAPES = 200
GROUPS = 50
IDLE_GROUPS = 10
"""Groups whose slices no waiting task can use: theirs are idle."""
DECIDE_SECONDS = 1.0

_NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


class GivingBackResult(Value):
    """CPU seconds of one case: the decision, and the reasons of all slices that stay; and what the decision orders."""

    case: str
    tasks: int
    slices: int
    decide_seconds: float
    kept_seconds: float
    drains: int
    replacements: int


def run_giving_back(*, quick: bool) -> list[GivingBackResult]:
    """Measure each case in a separate process; `quick` with a tenth of everything."""
    found = []
    for case in CASES:
        result = GivingBackResult.model_validate_json(output_of("bench.giving_back", case, "10" if quick else "1"))
        progress(f"giving back, {case}: decision {result.decide_seconds:.2f} s, reasons {result.kept_seconds:.2f} s")
        found.append(result)
    return found


def giving_back_verdicts(results: list[GivingBackResult]) -> list[Verdict]:
    """Whether a decision at full size stays within its time."""
    slow = tuple(result.case for result in results if result.decide_seconds >= DECIDE_SECONDS)
    target = f"giving back: a decision on {SLICES:,} READY slices and {TASKS:,} tasks takes less than {DECIDE_SECONDS:g} s of CPU"
    figures = ", ".join(f"{result.case} {result.decide_seconds:.2f}" for result in results)
    return [Verdict(target=target, status=Status.MISSED if slow else Status.REACHED, figures=figures, misses=slow)]


def _full(divisor: int) -> Snapshot:
    """Slices of four hosts with tasks that are named on each; a fifth of them idle beyond their timeout."""
    chance = random.Random(7)
    slices, idle = SLICES // divisor, IDLE // divisor
    groups = tuple(
        ScaleGroup(
            name=f"g{i:02}",
            host={"cpu": 16, "memory": "64GiB", "disk": "200GiB"},
            hosts_per_slice=HOSTS,
            max_slices=SLICES,
            zone=f"zone-{i:02}",
            attributes={"pool": "idle" if i < IDLE_GROUPS else "busy"},
            price_per_hour=1 + i % 7,
        )
        for i in range(GROUPS)
    )
    made, usage = [], {}
    for n in range(slices):
        is_idle = n < idle
        g = n % IDLE_GROUPS if is_idle else IDLE_GROUPS + n % (GROUPS - IDLE_GROUPS)
        piece = Slice(
            id=f"s{n:04}",
            group=groups[g].name,
            state=SliceState.READY,
            since=_NOW - timedelta(hours=2),
            created_at=_NOW - timedelta(hours=2, seconds=n),
            fingerprint=groups[g].fingerprint,
            idle_since=_NOW - timedelta(minutes=11 + n % 50) if is_idle else None,
            joined=True,
        )
        made.append(piece)
        load = Resources(cpu=chance.choice((4, 8, 12, 15)), memory=f"{chance.choice((8, 16, 48))}GiB")
        busy = tuple(HostUsage(reserved=load, tasks=(f"/u/run{n}/{k}",)) for k in range(HOSTS))
        usage[piece.id] = (HostUsage(),) * HOSTS if is_idle else busy
    return Snapshot(
        config=ClusterConfig(cluster="full", groups=groups, max_slices=slices),
        now=_NOW,
        workload=_demand(TASKS // divisor, chance).workload,
        slices=tuple(made),
        usage=usage,
    )


def _demand(tasks: int, chance: random.Random) -> Demand:
    """Tasks that the idle slices cannot take, and for most of which the busy ones have no room."""
    only_busy = (Constraint(attribute="pool", op=Operator.EQ, values=("busy",)),)
    shapes = [
        Shape(resources=Resources(cpu=1 + i % 4, memory=f"{2 + i // 4 % 15}GiB"), constraints=only_busy) for i in range(SHAPES)
    ]
    builder = DemandBuilder()
    for i in range(tasks):
        builder.add(chance.choice(shapes), (f"t{i}",))
    return builder.build()


def _configured(snapshot: Snapshot, **changes: object) -> Snapshot:
    return snapshot.model_copy(update={"config": snapshot.config.model_copy(update=changes)})


def _quiet(snapshot: Snapshot) -> Snapshot:
    """No task waits, no slice is idle for long enough, and a hundred slices may be disrupted at a time."""
    changes = {"max_unavailable": "100%", "idle_timeout_seconds": 86400.0}
    groups = tuple(group.model_copy(update=changes) for group in snapshot.config.groups)
    found = _configured(snapshot, groups=groups, max_unavailable=100, max_slices=None)
    return found.model_copy(update={"workload": Workload()})


def _drifted(snapshot: Snapshot) -> Snapshot:
    """Every busy slice is outdated."""
    slices = tuple(piece if piece.idle_since else piece.changed(fingerprint="0" * 8) for piece in snapshot.slices)
    return _quiet(snapshot.model_copy(update={"slices": slices}))


CASES: dict[str, Callable[[Snapshot], Snapshot]] = {
    "idle": lambda snapshot: snapshot,
    "replacement": _drifted,
    "consolidation": lambda snapshot: _configured(_quiet(snapshot), consolidation=Consolidation()),
}
"""Why slices go, and how the snapshot differs."""


def measure(case: str, divisor: int) -> GivingBackResult:
    """Measure in this process."""
    snapshot = CASES[case](_full(divisor))
    start = time.process_time()
    decision = decide(snapshot)
    decided = time.process_time()
    kept = kept_of(snapshot, decision)
    asked = time.process_time()
    if len(kept) + len(decision.drains) != len(snapshot.slices):
        raise ValueError(f"{len(kept)} slices are kept and {len(decision.drains)} drain, of {len(snapshot.slices)}")
    return GivingBackResult(
        case=case,
        tasks=sum(run.entries for run in snapshot.workload.runs),
        slices=len(snapshot.slices),
        decide_seconds=decided - start,
        kept_seconds=asked - decided,
        drains=len(decision.drains),
        replacements=sum(bool(launch.replaces) for launch in decision.launches),
    )


if __name__ == "__main__":
    print(measure(sys.argv[1], int(sys.argv[2])).model_dump_json())
