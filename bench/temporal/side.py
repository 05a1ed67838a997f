"""The figures of one tree, for `bench.compare`: it runs this file with the code of that tree, also of an older one.

So this file imports only what older trees have too, and the fleet benchmark beside it by its path.
"""

import asyncio
import importlib.util
import resource
import sys
from pathlib import Path
from types import ModuleType

from bench.temporal import scene
from bench.temporal.latency import measure_latency
from penstock.model.value import Value


class SideResult(Value):
    """The figures of one tree."""

    ready_per_second: float = 0.0
    deleted_per_second: float = 0.0
    events_of_a_life: float = 0.0
    bytes_of_a_life: float = 0.0
    autoscaler_events_per_slice: float = 0.0
    cpu_ms_of_a_life: float = 0.0
    """CPU time of server, worker and cloud per slice, start-up included: it depends little on what else the machine does."""
    create_call_ms: float = 0.0
    """From the demand signal to the create call, p50."""
    bare_ms: float = 0.0
    """From a bare signal to its child's activity, p50, in the same run."""
    of_bare: float = 0.0


def _fleet_module() -> ModuleType:
    """The fleet benchmark of the tree that this file belongs to."""
    spec = importlib.util.spec_from_file_location("fleet", Path(__file__).with_name("fleet.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fleet"] = module
    spec.loader.exec_module(module)
    return module


def _cpu_seconds() -> float:
    """CPU time of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def _measured(slices: int, samples: int) -> SideResult:
    fleet = _fleet_module()
    scene.DEADLINE_SECONDS = fleet.DEADLINE_SECONDS
    figures: dict[str, float] = {}
    if samples:
        async with scene.staged() as here:
            latency = await measure_latency(here, samples=samples)
            bare, ours = latency.bare.p50, latency.ours.p50
            figures |= {"create_call_ms": ours, "bare_ms": bare, "of_bare": ours / bare}
    before = _cpu_seconds()
    if slices:
        async with scene.staged() as here:
            found = await fleet.measure_fleet(here, slices=slices)
            figures |= {"ready_per_second": found.ready_per_second, "deleted_per_second": found.deleted_per_second}
            figures |= {"events_of_a_life": found.events_per_life, "bytes_of_a_life": found.bytes_per_life}
            figures |= {"autoscaler_events_per_slice": found.autoscaler_events_per_slice}
        figures |= {"cpu_ms_of_a_life": (_cpu_seconds() - before) * 1000 / slices}
    return SideResult.model_validate(figures)


if __name__ == "__main__":
    print(asyncio.run(_measured(int(sys.argv[1]), int(sys.argv[2]))).model_dump_json())
