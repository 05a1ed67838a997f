"""Demand-routing benchmark: `decide` by priority on the seeded workloads, each in a separate process."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise

from bench.measuring import output_of, peak_megabytes, progress, timed
from bench.routing_workloads import GANG_SIZE, GroupSpec, Want, WorkloadSpec, groups_of, wants_of
from penstock.core.decision.decide import decide
from penstock.model.cluster import ClusterConfig, ScaleGroup
from penstock.model.decision import Decision
from penstock.model.demand import Demand, Task, TaskGang
from penstock.model.demand_builder import DemandBuilder, build_demand
from penstock.model.shape import Shape
from penstock.model.slices import Slice, SliceState
from penstock.model.snapshot import Snapshot
from penstock.model.value import Value

WORKLOADS = ("cpu/ample", "cpu/tight", "tpu/ample", "tpu/tight", "tpu/mixed")
ENTRIES = (1_000, 10_000, 100_000)
QUICK_ENTRIES = 10_000
GROUPS = (10, 50, 200)
REPEATS = 3
"""The best of three, up to `QUICK_ENTRIES`; larger workloads are decided once."""

NOW = datetime(2026, 11, 1, tzinfo=UTC)
"""Arbitrary: nothing in these workloads has a deadline."""

# CPU seconds of one call of the fastest public router, Iris `route_demand` (newest version of 2026-11), recorded on a 2-core
# machine like CI's. They are targets to beat, not measurements of this run.
PUBLIC_ROUTER_SECONDS: dict[tuple[str, int, int], float] = {
    (workload, entries, groups): seconds
    for workload, entries, row in (
        ("cpu/ample", 1_000, (0.092, 0.365, 1.47)),
        ("cpu/ample", 10_000, (1.58, 5.00, 15.9)),
        ("cpu/tight", 1_000, (0.207, 0.973, 2.52)),
        ("cpu/tight", 10_000, (2.54, 10.4, 50.4)),
        ("tpu/ample", 1_000, (0.118, 0.527, 1.76)),
        ("tpu/ample", 10_000, (1.08, 3.89, 16.0)),
        ("tpu/tight", 1_000, (0.251, 1.17, 5.03)),
        ("tpu/tight", 10_000, (2.63, 12.2, 49.6)),
        ("tpu/mixed", 1_000, (0.045, 0.083, 0.293)),
        ("tpu/mixed", 10_000, (0.44, 0.85, 3.33)),
    )
    for groups, seconds in zip(GROUPS, row, strict=True)
}


class RoutingResult(Value):
    """CPU time, memory and outcome of one workload."""

    workload: str
    entries: int
    groups: int
    cpu_seconds: float
    placed: int
    unmet: int
    launched: int
    peak_mb: float
    demand_seconds: float

    @property
    def router_seconds(self) -> float | None:
        """The recorded time of the public router; None if there is none."""
        return PUBLIC_ROUTER_SECONDS.get((self.workload, self.entries, self.groups))


def run_routing(*, quick: bool) -> list[RoutingResult]:
    """Measure every workload, one after the other."""
    found = []
    for spec in _specs(quick=quick):
        arguments = (spec.kind, spec.regime, str(spec.entries), str(spec.groups))
        result = RoutingResult.model_validate_json(output_of("bench.routing", *arguments))
        progress(f"routing {spec.name} {spec.entries:,} × {spec.groups}: {result.cpu_seconds:.4f} s, {result.peak_mb:.0f} MB")
        found.append(result)
    return found


def measure(spec: WorkloadSpec) -> RoutingResult:
    """Measure one workload in this process. Memory is read before the tasks for `build_demand` are created."""
    repeats = REPEATS if spec.entries <= QUICK_ENTRIES else 1
    seconds, decision = timed(lambda: _snapshot(spec), decide, repeats=repeats)
    peak = peak_megabytes()
    placed, unmet = _checked_counts(decision, spec.entries)
    demand_seconds, _ = timed(lambda: list(_tasks(spec)), build_demand, repeats=repeats)
    return RoutingResult(
        workload=spec.name,
        entries=spec.entries,
        groups=spec.groups,
        cpu_seconds=min(seconds),
        placed=placed,
        unmet=unmet,
        launched=sum(decision.launched().values()),
        peak_mb=peak,
        demand_seconds=min(demand_seconds),
    )


def _specs(*, quick: bool) -> Iterator[WorkloadSpec]:
    for workload in WORKLOADS:
        kind, regime = workload.split("/")
        for entries in ENTRIES:
            if not quick or entries <= QUICK_ENTRIES:
                yield from (WorkloadSpec(kind, regime, entries, groups) for groups in GROUPS)


def _snapshot(spec: WorkloadSpec) -> Snapshot:
    groups = groups_of(spec)
    ordered = [(group.name, i) for group in groups for i in range(group.requesting)]
    return Snapshot(
        config=ClusterConfig(cluster="bench", groups=tuple(_group(group) for group in groups)),
        now=NOW,
        workload=_demand(spec).workload,
        slices=tuple(Slice(id=f"{name}-{i}", group=name, state=SliceState.REQUESTING) for name, i in ordered),
    )


def _group(group: GroupSpec) -> ScaleGroup:
    return ScaleGroup(
        name=group.name,
        device={"type": group.device, "variant": group.variant},
        host={"cpu": group.cpu_milli / 1000, "memory": group.memory, "disk": group.disk, "tpu": group.chips},
        hosts_per_slice=group.hosts_per_slice,
        max_slices=group.max_slices,
        priority=group.priority,
        zone=group.zone,
        preemptible=group.preemptible,
    )


def _demand(spec: WorkloadSpec) -> Demand:
    builder = DemandBuilder()
    shapes: dict[tuple[object, ...], Shape] = {}
    for want in wants_of(spec):
        shape = _known_shape(want, shapes)
        builder.add(shape, want.task_ids, gang_ids=(want.gang,) if want.gang else ())
    return builder.build()


def _tasks(spec: WorkloadSpec) -> Iterator[Task]:
    """The same demand as a controller sends it: every task with its requirements."""
    shapes: dict[tuple[object, ...], Shape] = {}
    for want in wants_of(spec):
        shape = _known_shape(want, shapes)
        for task_id in want.task_ids:
            yield Task.model_construct(
                id=task_id,
                device=shape.device,
                resources=shape.resources,
                constraints=shape.constraints,
                preemptible=shape.preemptible,
                gang=TaskGang(id=want.gang, size=GANG_SIZE) if want.gang else None,
            )


def _known_shape(want: Want, shapes: dict[tuple[object, ...], Shape]) -> Shape:
    key = want[2:]
    if key not in shapes:
        shapes[key] = _shape(want)
    return shapes[key]


def _shape(want: Want) -> Shape:
    pinned = [{"attribute": "region", "op": "in", "values": want.regions}] if want.regions else []
    return Shape(
        device={"type": want.device, "variants": want.variants},
        resources={"cpu": want.cpu_milli / 1000, "memory": want.memory, "disk": want.disk, "tpu": want.chips},
        constraints=pinned,
        preemptible=want.preemptible,
        gang={"size": GANG_SIZE} if want.gang else None,
    )


def _checked_counts(decision: Decision, entries: int) -> tuple[int, int]:
    """Numbers of placed and unmet entries, after checking that every entry is one of the two and every unmet one has a reason."""
    assert all(unmet.code and unmet.message for unmet in decision.unmet), "an unmet entry has no reason"
    spans = [placed.span for placed in decision.placed] + [span for unmet in decision.unmet for span in unmet.spans]
    spans.sort()
    for before, after in pairwise(spans):
        expected = before.first + before.entries if before.run == after.run else 0
        assert after.first == expected, f"{before} and {after} leave a gap or overlap"
    placed = sum(item.span.entries for item in decision.placed)
    unmet = sum(item.entries for item in decision.unmet)
    assert placed + unmet == entries, f"{placed} placed and {unmet} unmet of {entries}"
    return placed, unmet


def main() -> None:
    """Measure the workload named on the command line, for `run_routing`."""
    kind, regime, entries, groups = sys.argv[1:]
    print(measure(WorkloadSpec(kind, regime, int(entries), int(groups))).model_dump_json())


if __name__ == "__main__":
    main()
