"""Small states and the events that happen to them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.contract.inventories import LocationReport, Orphan
from penstock.contract.orders import Launch, Orders
from penstock.contract.slices import SliceReport
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import ConfigApplied, Decided, LocationReported, SlicesReported, SlicesStarted
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.failures import Failure, FailureKind, Phase
from penstock.model.slices import SliceState

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def config(*groups: dict[str, Any], **more: Any) -> ClusterConfig:
    found = groups or ({"name": "g"},)
    full = [{"host": {"cpu": 4}, "max_slices": 9, "zone": "us-west4-a"} | group for group in found]
    return ClusterConfig.model_validate({"cluster": "test", "groups": full} | more)


def cluster(*groups: dict[str, Any], **more: Any) -> AutoscalerState:
    """A configured cluster with nothing in it."""
    return replay([ConfigApplied(at=NOW, config=config(*groups, **more))])


def ordered(state: AutoscalerState, *slice_ids: str, group: str = "g", at: datetime = NOW) -> AutoscalerState:
    """Slices ordered by a decision, their workflows running."""
    launches = tuple(Launch(slice_id=slice_id, group=group, cause="demand") for slice_id in slice_ids)
    orders = Orders(at=at, input_version=state.input_version, config_revision=state.config_revision, launches=launches)
    return replay([Decided(at=at, orders=orders), SlicesStarted(at=at, slice_ids=slice_ids)], state)


def report(slice_id: str, state: SliceState, sequence: int, *, group: str = "g", at: datetime = NOW, **more: Any) -> SliceReport:
    given = {"slice_id": slice_id, "group": group, "state": state, "since": at, "ordered_at": NOW, "sequence": sequence} | more
    return SliceReport.model_validate(given)


def told(state: AutoscalerState, *reports: SliceReport, at: datetime = NOW) -> AutoscalerState:
    return apply(state, SlicesReported(at=at, reports=reports))


def failed(
    state: AutoscalerState,
    slice_id: str,
    kind: FailureKind,
    *,
    group: str = "g",
    at: datetime = NOW,
    ordered_at: datetime = NOW,
    **more: Any,
) -> AutoscalerState:
    """A slice failed, was deleted, and is gone."""
    told_of: dict[str, Any] = {"group": group, "at": at, "ordered_at": ordered_at}
    told_of["failure"] = Failure(kind=kind, message=f"{kind} of {slice_id}", **more)
    return told(
        state, report(slice_id, SliceState.DELETING, 5, **told_of), report(slice_id, SliceState.FAILED, 6, **told_of), at=at
    )


def orphans(slice_id: str, *, group: str = "g", phase: Phase = Phase.RUNNING, created_at: datetime = NOW, **more: Any) -> Orphan:
    given = {"location": "us-west4-a", "provider": "sim", "hosts": 2} | more
    return Orphan(group=group, slice_id=slice_id, phase=phase, created_at=created_at, **given)


def audited(state: AutoscalerState, *, at: datetime = NOW, **found: Any) -> AutoscalerState:
    audit = LocationReport(at=at, **{"account": "sim", "location": "us-west4-a", "complete": True} | found)
    return apply(state, LocationReported(at=at, report=audit))


def states(state: AutoscalerState) -> dict[str, SliceState]:
    return {piece.id: piece.state for piece in state.slices}


def ready(state: AutoscalerState, slice_id: str = "a") -> AutoscalerState:
    """A slice that came and serves."""
    return told(ordered(state, slice_id), report(slice_id, SliceState.READY, 3))
