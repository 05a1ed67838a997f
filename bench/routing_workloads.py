"""Seeded workloads for the demand-routing benchmark, independent of the types of any planner.

| workload | demand | fleet |
|---|---|---|
| cpu/ample | single CPU tasks | holds everything, in any one group |
| cpu/tight | the same | holds about half |
| cpu/wide | the same | holds everything, but only in all groups together |
| tpu/ample | gangs of 4 tasks for 4-host slices | holds everything, in any one group |
| tpu/tight | the same | holds about half |
| tpu/mixed | gangs over 8 variants, every third pinned to a region | holds more than everything |

The random draws and their order are part of the format: a workload must stay identical to the one that peers were measured on.
"""

import math
import random
from collections.abc import Iterator
from typing import NamedTuple

GIB = 1024**3
GANG_SIZE = 4
DEFAULT_SEED = 7

_TASKS_PER_VM = 5.0
"""Approximate number of CPU tasks that fill one 16-core host, for sizing the fleets."""
_TASKS_PER_JOB = 50
_VARIANTS = ("v5litepod-16", "v5p-32", "v6e-16", "v4-32", "v5p-16", "v6e-32", "v5litepod-32", "v4-16")


class WorkloadSpec(NamedTuple):
    """The parameters of a workload: device, regime, number of entries, number of groups."""

    kind: str
    regime: str
    entries: int
    groups: int
    seed: int = DEFAULT_SEED

    @property
    def name(self) -> str:
        """The name in the tables, such as `cpu/ample`."""
        return f"{self.kind}/{self.regime}"


class GroupSpec(NamedTuple):
    """A group of equal slices; sizes are those of one host."""

    name: str
    device: str
    variant: str | None
    hosts_per_slice: int
    priority: int
    max_slices: int
    cpu_milli: int
    memory: int
    disk: int
    chips: int
    zone: str
    preemptible: bool
    requesting: int


class Want(NamedTuple):
    """One entry: a task, or a gang; sizes are those of one task."""

    task_ids: tuple[str, ...]
    gang: str | None
    device: str
    variants: tuple[str, ...]
    cpu_milli: int
    memory: int
    disk: int
    chips: int
    preemptible: bool | None
    regions: tuple[str, ...]


def groups_of(spec: WorkloadSpec) -> list[GroupSpec]:
    """The groups of a workload, best priority first."""
    total = _slices_in_all(spec)
    most = total if spec.regime == "ample" else max(1, total // spec.groups)
    return [_cpu_group(i, most) if spec.kind == "cpu" else _tpu_group(i, most, spec.regime) for i in range(spec.groups)]


def wants_of(spec: WorkloadSpec) -> Iterator[Want]:
    """The entries of a workload, in order of arrival."""
    return _cpu_wants(spec) if spec.kind == "cpu" else _tpu_wants(spec)


def _slices_in_all(spec: WorkloadSpec) -> int:
    n = spec.entries
    if spec.kind == "tpu":
        return {"ample": n * 2, "tight": n // 2, "mixed": int(n * 1.5)}[spec.regime]
    hosts = math.ceil(n / _TASKS_PER_VM)
    return {"ample": hosts * 2, "tight": hosts // 2, "wide": int(hosts * 1.3)}[spec.regime]


def _variants(regime: str) -> tuple[str, ...]:
    return _VARIANTS if regime == "mixed" else _VARIANTS[:1]


def _region(index: int) -> str:
    return f"us-east{1 + index % 5}"


def _zone(index: int) -> str:
    return f"{_region(index)}-{'abc'[index % 3]}"


def _cpu_group(index: int, most: int) -> GroupSpec:
    return GroupSpec(
        name=f"cpu-{index:03d}",
        device="cpu",
        variant=None,
        hosts_per_slice=1,
        priority=10 * (index + 1),
        max_slices=most,
        cpu_milli=16_000,
        memory=64 * GIB,
        disk=200 * GIB,
        chips=0,
        zone=_zone(index),
        preemptible=False,
        requesting=0,
    )


def _tpu_group(index: int, most: int, regime: str) -> GroupSpec:
    variants = _variants(regime)
    return GroupSpec(
        name=f"tpu-{index:03d}",
        device="tpu",
        variant=variants[index % len(variants)],
        hosts_per_slice=GANG_SIZE,
        priority=10 * (index + 1),
        max_slices=most,
        cpu_milli=208_000,
        memory=448 * GIB,
        disk=100 * GIB,
        chips=4,
        zone=_zone(index),
        preemptible=True,
        requesting=1 if regime == "mixed" and index % 10 == 0 else 0,
    )


def _cpu_wants(spec: WorkloadSpec) -> Iterator[Want]:
    draw = random.Random("/".join(map(str, spec)))
    for i in range(spec.entries):
        yield Want(
            task_ids=(f"/u/job{i // _TASKS_PER_JOB}/{i % _TASKS_PER_JOB}",),
            gang=None,
            device="cpu",
            variants=(),
            cpu_milli=1000 * draw.randint(1, 4),
            memory=draw.randint(2, 16) * GIB,
            disk=draw.randint(1, 20) * GIB,
            chips=0,
            preemptible=None,
            regions=(),
        )


def _tpu_wants(spec: WorkloadSpec) -> Iterator[Want]:
    variants = _variants(spec.regime)
    for i in range(spec.entries):
        yield Want(
            task_ids=tuple(f"/u/train{i}/{k}" for k in range(GANG_SIZE)),
            gang=f"/u/train{i}",
            device="tpu",
            variants=(variants[i % len(variants)],),
            cpu_milli=32_000,
            memory=128 * GIB,
            disk=50 * GIB,
            chips=4,
            preemptible=True,
            regions=(_region(i),) if spec.regime == "mixed" and i % 3 == 0 else (),
        )
