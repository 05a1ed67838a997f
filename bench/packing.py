"""Bin-packing benchmark: the recorded cases through `decide` with `packing` and `cost`, compared with Ray in the same run."""

import statistics
import sys
from datetime import UTC, datetime

from bench.cases import Amounts, Case, load_case, load_cases, whole_task_cost_bound
from bench.measuring import output_of, peak_megabytes, progress, timed
from bench.ray_peer import RayAnswer, ask_ray, ray_python
from penstock.core.decision.decide import decide
from penstock.model.cluster import ClusterConfig, Placement, ScaleGroup
from penstock.model.demand import Demand
from penstock.model.demand_builder import DemandBuilder
from penstock.model.shape import Gang, GangPlacement, Shape
from penstock.model.slices import HostUsage, Slice, SliceState
from penstock.model.snapshot import Snapshot
from penstock.model.value import Value

REPEATS = 3
"""Median of three, as for Ray. Ray's long calls run only once, so the best of three would favour Penstock."""

NOW = datetime(2026, 11, 1, tzinfo=UTC)
"""Arbitrary: nothing in these cases has a deadline."""


class Answer(Value):
    """The result of one placement on a case."""

    cpu_seconds: float
    slices: int
    cost: float
    unmet: int
    launched: dict[str, int]


class OurAnswers(Value):
    """The results of both placements, and the peak memory of their process."""

    packing: Answer
    cost: Answer
    peak_mb: float


class PackingResult(Value):
    """One case: the results of Penstock and Ray, and the bounds."""

    case: str
    tasks: int
    large: bool
    existing: int
    ours: OurAnswers
    ray: RayAnswer
    slices_bound: int
    cost_bound: float
    whole_task_cost_bound: float | None

    @property
    def best_cost_bound(self) -> float:
        """The tighter of the two bounds."""
        return max(self.cost_bound, self.whole_task_cost_bound or 0.0)

    @property
    def over_bound(self) -> float:
        """Cost divided by the bound; 1 if both are 0."""
        cost, bound = self.ours.cost.cost, self.best_cost_bound
        return cost / bound if bound else (1.0 if not cost else float("inf"))


class PackingRun(Value):
    """All cases, and why Ray was not run, if it was not."""

    results: tuple[PackingResult, ...]
    ray_missing: str | None


def run_packing(*, quick: bool) -> PackingRun:
    """Run every case, first with Ray, then with Penstock."""
    python, missing = ray_python()
    results = []
    for case in load_cases(quick=quick):
        ray = ask_ray(case, python)
        ours = OurAnswers.model_validate_json(output_of("bench.packing", case.name))
        progress(
            f"packing {case.name}: Ray {ray.cpu_seconds:.3f} s, packing {ours.packing.cpu_seconds:.4f} s, "
            f"cost {ours.cost.cpu_seconds:.4f} s"
        )
        results.append(_result(case, ours, ray))
    return PackingRun(results=tuple(results), ray_missing=missing)


def measure(case: Case) -> OurAnswers:
    """Measure one case in this process, with both placements."""
    packing, cost = _answer(case, Placement.PACKING), _answer(case, Placement.COST)
    return OurAnswers(packing=packing, cost=cost, peak_mb=peak_megabytes())


def _result(case: Case, ours: OurAnswers, ray: RayAnswer) -> PackingResult:
    return PackingResult(
        case=case.name,
        tasks=case.tasks,
        large=case.large,
        existing=len(case.existing),
        ours=ours,
        ray=ray,
        slices_bound=case.bounds.nodes_ceil,
        cost_bound=case.bounds.cost,
        whole_task_cost_bound=whole_task_cost_bound(case),
    )


def _answer(case: Case, placement: Placement) -> Answer:
    seconds, decision = timed(lambda: _snapshot(case, placement), decide, repeats=REPEATS)
    launched = decision.launched()
    return Answer(
        cpu_seconds=statistics.median(seconds),
        slices=sum(launched.values()),
        cost=round(sum(case.node_types[name].price_per_hour * count for name, count in launched.items()), 6),
        unmet=sum(unmet.entries for unmet in decision.unmet),
        launched=launched,
    )


def _snapshot(case: Case, placement: Placement) -> Snapshot:
    return Snapshot(
        config=ClusterConfig(cluster="bench", placement=placement, groups=_groups(case)),
        now=NOW,
        workload=_demand(case).workload,
        slices=tuple(Slice(id=node.id, group=node.node_type, state=SliceState.READY) for node in case.existing),
        usage={node.id: (HostUsage(reserved=_resources(_taken(node.total, node.available))),) for node in case.existing},
    )


def _groups(case: Case) -> tuple[ScaleGroup, ...]:
    """Node types as groups of one-host slices, with `shared_tpu` because Ray lets tasks share the chips of a host."""
    return tuple(
        ScaleGroup(
            name=name,
            device={"type": _device(kind.resources)},
            host=_resources(kind.resources),
            shared_tpu=True,
            max_slices=kind.most,
            price_per_hour=kind.price_per_hour,
        )
        for name, kind in case.node_types.items()
    )


def _demand(case: Case) -> Demand:
    builder = DemandBuilder()
    for number, wanted in enumerate(case.demands):
        ids = [f"{number}/{i}" for i in range(wanted.count)]
        builder.add(Shape(resources=_resources(wanted.resources)), ids, entries=wanted.count)
    for spread in case.gangs:
        (bundle,) = spread.bundles
        gang = Gang(size=bundle.count, placement=GangPlacement.SPREAD)
        ids = [f"{spread.id}/{i}" for i in range(bundle.count)]
        builder.add(Shape(resources=_resources(bundle.resources), gang=gang), ids, gang_ids=(spread.id,))
    return builder.build()


def _device(amounts: Amounts) -> str:
    return next((name.lower() for name in ("TPU", "GPU") if amounts.get(name)), "cpu")


def _resources(amounts: Amounts) -> dict[str, float]:
    return {name.lower(): int(amount) if name == "memory" else amount for name, amount in amounts.items()}


def _taken(total: Amounts, available: Amounts) -> Amounts:
    return {name: amount - available.get(name, 0) for name, amount in total.items()}


def main() -> None:
    """Measure the case named on the command line, for `run_packing`."""
    print(measure(load_case(sys.argv[1])).model_dump_json())


if __name__ == "__main__":
    main()
