"""State benchmark: encode and decode a state of 100,000 tasks in 1,200 shapes and 5,000 slices of four hosts each."""

import random
from datetime import UTC, datetime, timedelta
from functools import partial

from bench.measuring import output_of, peak_megabytes, progress, timed
from penstock.core.state.state import AutoscalerState, SourceDemand, UsageSource
from penstock.model.cluster import ClusterConfig
from penstock.model.demand import Demand
from penstock.model.demand_builder import DemandBuilder
from penstock.model.resources import Resources
from penstock.model.shape import Shape
from penstock.model.sightings import HostAddress
from penstock.model.slices import HostState, HostUsage, Slice, SliceState
from penstock.model.value import Value

TASKS = 100_000
SLICES = 5_000
SHAPES = 1_200
GROUPS = 50
HOSTS = 4
IDLE_EVERY = 5
"""One slice in so many is idle."""
REPEATS = 5

_NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


class StateResult(Value):
    """Size of the state as JSON, CPU seconds to encode and decode it, and peak memory."""

    json_bytes: int
    encode_seconds: float
    decode_seconds: float
    peak_mb: float


def run_state() -> StateResult:
    """Measure in a separate process."""
    progress(f"state: {TASKS:,} tasks, {SLICES:,} slices")
    return StateResult.model_validate_json(output_of("bench.state"))


def full_state() -> AutoscalerState:
    """A state of the largest supported size: every task is a separate run, and every host has an address and reports a task.

    But a fifth of the slices is idle, each since another moment. All were made with a fingerprint, in groups of their own.
    """
    chance = random.Random(7)
    groups = [
        {"name": f"g{i}", "device": {"type": "tpu", "variant": "v5litepod-16"}, "host": {"cpu": 112}, "max_slices": SLICES}
        for i in range(GROUPS)
    ]
    config = ClusterConfig.model_validate({"cluster": "full", "groups": groups})
    fingerprints = [group.fingerprint for group in config.groups]
    slices = tuple(
        Slice(
            id=f"g{i % GROUPS}-{chance.getrandbits(48):012x}",
            group=f"g{i % GROUPS}",
            state=SliceState.READY,
            since=_NOW - timedelta(seconds=chance.randrange(1_000_000)),
            cause="demand",
            source="default",
            joined=True,
            fingerprint=fingerprints[i % GROUPS],
            home=f"g{i % 7}" if i % 10 == 0 else "",
            idle_since=None if i % IDLE_EVERY else _NOW - timedelta(seconds=chance.randrange(10_000)),
            hosts=tuple(HostAddress(name=f"host-{i}-{k}", address=_address(chance)) for k in range(HOSTS)),
        )
        for i in range(SLICES)
    )
    reserved = Resources(cpu=100, memory="128GiB", tpu=4)
    usage = {
        piece.id: (HostUsage(state=HostState.IDLE),) * HOSTS
        if piece.idle_since is not None
        else tuple(HostUsage(state=HostState.BUSY, reserved=reserved, tasks=(f"/u/run{i}/{k}",)) for k in range(HOSTS))
        for i, piece in enumerate(slices)
    }
    return AutoscalerState(
        now=_NOW,
        config=config,
        slices=slices,
        usage=usage,
        usage_sources={"default": _restarted(tuple(usage))},
        demand={"default": SourceDemand(epoch=1, revision=1, demand=_demand(chance))},
    )


def _address(chance: random.Random) -> str:
    return f"10.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(256)}"


def _restarted(named: tuple[str, ...]) -> UsageSource:
    """The source at its largest: its controller has just restarted, so every slice is listed twice."""
    groups = tuple(f"g{i}" for i in range(GROUPS))
    return UsageSource(at=_NOW, began=_NOW, named=named, outdated=named, restarted=_NOW, reported=True, groups=groups)


def _demand(chance: random.Random) -> Demand:
    shapes = [
        Shape(resources=Resources(cpu=1 + i % 4, memory=f"{2 + i // 4 % 15}GiB", disk=f"{1 + i // 60}GiB")) for i in range(SHAPES)
    ]
    builder = DemandBuilder()
    for i in range(TASKS):
        builder.add(chance.choice(shapes), (f"/user{i % 37}/job{i // 50}/{i % 50}",))
    return builder.build()


def _measure() -> StateResult:
    state = full_state()
    text = state.model_dump_json()
    encode, text = timed(partial(AutoscalerState.model_validate_json, text), AutoscalerState.model_dump_json, repeats=REPEATS)
    decode, again = timed(lambda: text, AutoscalerState.model_validate_json, repeats=REPEATS)
    if again != state:
        raise ValueError("the decoded state differs from the encoded one")
    return StateResult(json_bytes=len(text), encode_seconds=min(encode), decode_seconds=min(decode), peak_mb=peak_megabytes())


if __name__ == "__main__":
    print(_measure().model_dump_json())
