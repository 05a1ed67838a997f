"""A hand-written snapshot and the state of a running cluster with the same facts give the same decision."""

from datetime import datetime

import pytest

from penstock.core.answers.snapshot import snapshot_of
from penstock.core.decision.decide import decide
from penstock.core.state.apply import apply
from penstock.core.state.events import DemandSnapshot, DrainOrdered, TimePassed
from penstock.core.state.state import AutoscalerState
from penstock.model.demand import Demand, Task
from penstock.model.demand_builder import build_demand, sourced
from penstock.model.slices import Availability, DrainTerms, Slice, SliceState
from penstock.model.snapshot import Snapshot, SourceTerms
from tests.core.state.ledgers import NOW, after_reports, cluster, config, later, ordered, report

GROUPS = ({"name": "g", "priority": 1}, {"name": "h", "priority": 2})
PATIENCE = {"patience": "10m"}
DRAIN = DrainTerms(cause="maintenance")


def demand(tasks: int) -> Demand:
    return build_demand([Task.model_validate({"id": f"t{i}", "resources": {"cpu": 4}}) for i in range(tasks)])


def running(state: AutoscalerState, at: datetime, tasks: int) -> AutoscalerState:
    return apply(apply(state, DemandSnapshot(at=NOW, epoch=1, revision=1, demand=demand(tasks))), TimePassed(at=at))


@pytest.mark.parametrize(
    ("at", "launches", "availability"),
    [
        (later(60), {"h": 0, "g": 0}, Availability.AVAILABLE),
        (later(599), {"h": 0, "g": 0}, Availability.AVAILABLE),
        (later(600), {"h": 1, "g": 0}, Availability.BACKOFF),
        (later(86400), {"h": 1, "g": 0}, Availability.BACKOFF),
    ],
)
def test_on_a_queued_slice(at: datetime, launches: dict[str, int], availability: Availability) -> None:
    state = after_reports(ordered(cluster(*GROUPS, **PATIENCE), "a"), report("a", SliceState.REQUESTING, 1, queued=True))
    snapshot = Snapshot(
        config=config(*GROUPS, **PATIENCE),
        now=at,
        workload=sourced(demand(1), "default").workload,
        sources={"default": SourceTerms()},
        slices=(Slice(id="a", group="g", state=SliceState.REQUESTING, since=NOW, queued=True),),
    )
    decision = decide(snapshot)
    found = snapshot_of(running(state, at, 1)).snapshot
    assert decide(found.model_copy(update={"launched": ()})) == decision
    assert {group.name: group.launch for group in decision.groups} == launches
    assert decision.groups[0].availability is availability


@pytest.mark.parametrize("state", [SliceState.REQUESTING, SliceState.BOOTING, SliceState.READY])
def test_on_a_slice_ordered_to_drain(state: SliceState) -> None:
    cloud = after_reports(ordered(cluster(), "a"), report("a", state, 3))
    drained = apply(cloud, DrainOrdered(at=NOW, slice_id="a", terms=DRAIN))
    snapshot = Snapshot(
        config=config(),
        now=NOW,
        workload=sourced(demand(1), "default").workload,
        sources={"default": SourceTerms()},
        slices=(Slice(id="a", group="g", state=state, since=NOW, drain=DRAIN),),
    )
    decision = decide(snapshot)
    found = snapshot_of(running(drained, NOW, 1)).snapshot
    assert decide(found.model_copy(update={"launched": ()})) == decision
    assert decision.launched() == {"g": 1}
    assert (decision.groups[0].have, decision.groups[0].in_flight, decision.groups[0].leaving) == (0, 0, 1)
