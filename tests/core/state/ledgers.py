"""Small states and the events that happen to them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.contract.inventories import LocationReport
from penstock.contract.messages import Confirmation
from penstock.contract.orders import Launch, Orders
from penstock.contract.slices import DrainCommand, SliceCommand, SliceReport
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import (
    ConfigApplied,
    Decided,
    DrainsConfirmed,
    LocationReported,
    SlicesReported,
    SlicesStarted,
)
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.failures import Failure, FailureKind, Phase
from penstock.model.location import Location
from penstock.model.sightings import Host, Labels, Ref, Sighting
from penstock.model.slices import DrainTerms, SliceState

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


def launched(*slice_ids: str, group: str = "g", at: datetime = NOW, revision: int = 1) -> Decided:
    """A decision, made on a revision of the configuration, that launches slices."""
    launches = tuple(Launch(slice_id=slice_id, group=group, cause="demand") for slice_id in slice_ids)
    return Decided(at=at, orders=Orders(at=at, config_revision=revision, launches=launches))


def ordered(state: AutoscalerState, *slice_ids: str, group: str = "g", at: datetime = NOW) -> AutoscalerState:
    """Slices launched by a decision, their workflows running."""
    decided = launched(*slice_ids, group=group, at=at, revision=state.config_revision)
    return replay([decided, SlicesStarted(at=at, slice_ids=slice_ids)], state)


def report(slice_id: str, state: SliceState, sequence: int, *, group: str = "g", at: datetime = NOW, **more: Any) -> SliceReport:
    given = {"slice_id": slice_id, "group": group, "state": state, "since": at, "ordered_at": NOW, "sequence": sequence} | more
    return SliceReport.model_validate(given)


def reported(slice_id: str, state: SliceState, sequence: int, *, at: datetime = NOW, **more: Any) -> SlicesReported:
    """The event of one report."""
    return SlicesReported(at=at, reports=(report(slice_id, state, sequence, at=at, **more),))


def after_reports(state: AutoscalerState, *reports: SliceReport, at: datetime = NOW) -> AutoscalerState:
    return apply(state, SlicesReported(at=at, reports=reports))


def confirmed(*slice_ids: str, at: datetime = NOW, number: int | None = None) -> DrainsConfirmed:
    """The controller confirms that slices are empty, in the drain with this number or in whichever is under way."""
    return DrainsConfirmed(at=at, confirmed=tuple(Confirmation(slice_id=each, number=number) for each in slice_ids))


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
    facts: dict[str, Any] = {"group": group, "at": at, "ordered_at": ordered_at}
    facts["failure"] = Failure(kind=kind, message=f"{kind} of {slice_id}", **more)
    return after_reports(
        state, report(slice_id, SliceState.DELETING, 5, **facts), report(slice_id, SliceState.FAILED, 6, **facts), at=at
    )


def orphan(
    slice_id: str, *, group: str = "g", phase: Phase = Phase.RUNNING, created_at: datetime = NOW, hosts: int = 2
) -> Sighting:
    """A resource as a listing shows it, with an address per host."""
    labels = Labels(cluster="test", group=group, slice=slice_id)
    ref = Ref(location="us-west4-a", name=labels.resource_name, labels=labels)
    addressed = tuple(Host(name=f"{slice_id}-{i}", address=f"10.0.0.{i}") for i in range(hosts))
    return Sighting(ref=ref, phase=phase, hosts=addressed, created_at=created_at)


def location(name: str = "us-west4-a", account: str = "sim", **settings: Any) -> Location:
    return Location(provider=account.partition(":")[0], account=account, name=name, settings=settings)


def audited(
    state: AutoscalerState, *, at: datetime = NOW, where: Location | None = None, complete: bool = True, **found: Any
) -> AutoscalerState:
    audit = LocationReport(at=at, location=where or location(), complete=complete, **found)
    return apply(state, LocationReported(at=at, report=audit))


def drains(state: AutoscalerState) -> dict[str, DrainTerms]:
    """The drains by slice, without their numbers and deadlines."""
    return {piece.id: unnumbered(piece.drain) for piece in state.slices if piece.drain is not None}


def unnumbered(terms: DrainTerms) -> DrainTerms:
    return DrainTerms(cause=terms.cause, force=terms.force)


def commands(state: AutoscalerState) -> tuple[SliceCommand, ...]:
    """The commands to slices that are not delivered yet, without the numbers and deadlines of drains."""
    return tuple(map(_unnumbered, state.outbox))


def _unnumbered(command: SliceCommand) -> SliceCommand:
    if isinstance(command, DrainCommand):
        return command.model_copy(update={"terms": unnumbered(command.terms)})
    return command.model_copy(update={"number": None}) if hasattr(command, "number") else command


def unstarted(state: AutoscalerState) -> list[str]:
    return [piece.id for piece in state.unstarted]


def states(state: AutoscalerState) -> dict[str, SliceState]:
    return {piece.id: piece.state for piece in state.slices}


def ready(state: AutoscalerState, slice_id: str = "a") -> AutoscalerState:
    """A slice that came and serves."""
    return after_reports(ordered(state, slice_id), report(slice_id, SliceState.READY, 3))
