"""Facts and questions of the tests of consolidation: busy slices with named loads, and what a finished plan would empty."""

from collections.abc import Collection, Mapping
from datetime import timedelta

from penstock.core.decision.consolidation import Consolidated, consolidations
from penstock.core.decision.decide import _planner_of
from penstock.core.decision.effort import Effort
from penstock.model.elasticity import Consolidation
from penstock.model.resources import Resources
from penstock.model.slices import HostState, HostUsage, SliceState
from penstock.model.snapshot import Snapshot
from tests.scenarios.builder import Scenario, scenario
from tests.scenarios.cases import NOW

READY = SliceState.READY
SETTLE = timedelta(minutes=30)
IDLE = HostUsage(state=HostState.IDLE)
ON = Consolidation()


def load(cpu: float = 1, *, tasks: int = 1, gangs: tuple[str, ...] = (), **more: float) -> HostUsage:
    """A busy host, with as many tasks as reserve so much together."""
    return HostUsage(tasks=tuple(f"t{n}" for n in range(tasks)), gangs=gangs, reserved=Resources(cpu=cpu, **more))


def two_slices() -> Scenario:
    """Two slices of one group, which costs 2 an hour: `new` could move to `old`."""
    given = scenario("two slices with little work").group("g", price=2)
    return given.slice("old", "g", READY, usage=load(2)).slice("new", "g", READY, usage=load(1))


def snapshot_of(given: Scenario, *, settings: Consolidation | None = ON) -> Snapshot:
    """The snapshot of a scenario, with consolidation."""
    case = given.expects()
    snapshot = case.snapshot(case.demand())
    return snapshot.model_copy(update={"config": snapshot.config.model_copy(update={"consolidation": settings})})


def consolidated(
    given: Scenario | Snapshot,
    *,
    leaving: Collection[str] = (),
    most: int = 100,
    most_of: Mapping[str, int] | None = None,
    effort: Effort | None = None,
) -> Consolidated:
    """What could be emptied after the plan for a snapshot."""
    snapshot = given if isinstance(given, Snapshot) else snapshot_of(given)
    plan, standing = _planner_of(snapshot, effort)[0].plan()
    return consolidations(plan, standing, leaving=leaving, most=most, most_of=most_of)


def emptied(found: Consolidated | Scenario | Snapshot) -> dict[str, tuple[str, ...]]:
    """The slices to empty with their receivers, in order."""
    result = found if isinstance(found, Consolidated) else consolidated(found)
    return {move.piece.id: move.receivers for move in result.moves}


def received(snapshot: Snapshot, slice_id: str, *, minutes: float) -> Snapshot:
    """The snapshot with a slice that received load so many minutes ago."""
    at = NOW - timedelta(minutes=minutes)
    return with_slices(snapshot, {slice_id: {"received_at": at}})


def with_slices(snapshot: Snapshot, changes: Mapping[str, Mapping[str, object]]) -> Snapshot:
    """The snapshot with some fields of some slices replaced."""
    slices = tuple(piece.model_copy(update=changes.get(piece.id, {})) for piece in snapshot.slices)
    return snapshot.model_copy(update={"slices": slices})
