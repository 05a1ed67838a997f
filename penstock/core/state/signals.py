"""Reception: raw JSON from controllers, slices and inventories becomes events. What cannot be used becomes an event too."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from pydantic import TypeAdapter, ValidationError

from penstock.contract import names
from penstock.contract.inventories import LocationReport
from penstock.contract.messages import ConfirmDrainMessage, DemandMessage, ReportMessage, UsageMessage
from penstock.contract.problems import LONGEST_NAME, BadMessage, message_of, path_text, read, shortened
from penstock.contract.slices import SliceReports
from penstock.contract.tasks import demand_of
from penstock.core.state.events import (
    AnyEvent,
    DemandDelta,
    DemandRefused,
    DemandSnapshot,
    DrainsConfirmed,
    LocationReported,
    MessageRejected,
    SlicesReported,
    UsageReported,
)
from penstock.core.state.size_limits import exceeds_limits, names_fit, usage_fits, without_names
from penstock.core.state.state import AutoscalerState, SourceDemand
from penstock.model.cluster import ScaleGroup
from penstock.model.demand import Demand
from penstock.model.slices import HostUsage, SliceUsage
from penstock.wording import counted

Events = tuple[AnyEvent, ...]

CLOSING = "the cluster is being deleted; start it again under its name once it is gone"
NOT_KNOWN_YET = "are not known yet, for the cluster is still finding its slices; confirm again once the status lists their drains"
NO_QUEUE_LENGTHS = "groups driven by queue lengths are not supported yet; send the waiting tasks as demand"
_TOLD = 3
"""Slices of one message whose usage is told to be wrong one by one."""


def read_signal(state: AutoscalerState, name: str, raw: bytes, at: datetime) -> Events:
    """What a signal means for the state. Never raises: a workflow whose handler does stands still for good."""
    read_signal = _SIGNALS.get(name)
    if read_signal is None:
        close = get_close_matches(name[:LONGEST_NAME], list(_SIGNALS), n=1)
        hint = f"did you mean {close[0]}?" if close else f"signals: {', '.join(_SIGNALS)}"
        return (MessageRejected(at=at, message=name, problem=f"there is no such signal; {hint}"),)
    try:
        return read_signal(state, raw, at)
    except BadMessage as bad:
        return (MessageRejected(at=at, message=name, problem=str(bad)),)
    except Exception as error:  # whatever a message can be made to do, it must not stop the cluster
        return (MessageRejected(at=at, message=name, problem=f"cannot be used: {type(error).__name__}: {error}"),)


def demand_event(state: AutoscalerState, message: DemandMessage, at: datetime) -> DemandSnapshot | DemandDelta:
    """The message as an event; a snapshot without a revision is newer than all that was heard of its source.

    Raises `BadMessage` for what no event can say.
    """
    if message.config_revision is not None and message.config_revision > state.config_revision:
        known = f"the cluster is at revision {state.config_revision} of its configuration"
        raise BadMessage(
            f"config_revision: {message.config_revision} is newer than any, {known}; read the status and send it again"
        )
    demand = demand_of(message.tasks) if message.tasks is not None else message.demand or Demand()
    if demand.duplicate is not None:
        raise BadMessage(f"tasks: task id {demand.duplicate!r} stands here twice; give every task an id of its own")
    if message.base is not None:
        assert message.epoch is not None
        assert message.revision is not None
        return DemandDelta(
            at=at,
            source=message.source,
            epoch=message.epoch,
            base=message.base,
            revision=message.revision,
            removed=message.removed,
            added=demand,
        )
    epoch, revision = message.epoch, message.revision
    if epoch is None or revision is None:
        source = state.demand.get(message.source, SourceDemand())
        latest = max(source.stamp, source.latest)
        epoch, revision = max(latest[0], 0), latest[1] + 1
    return DemandSnapshot(
        at=at, source=message.source, epoch=epoch, revision=revision, part=message.part, parts=message.parts, demand=demand
    )


def _report(state: AutoscalerState, raw: bytes, at: datetime) -> Events:
    message = read(ReportMessage, raw)
    events: Events = ()
    if message.demand is not None:
        events += _demand_events(state, message.demand, at, names.REPORT)
    if message.usage is not None:
        events += _usage_events(state, message.usage, at, names.REPORT)
    if message.confirmed:
        events += _confirmed_events(state, message.confirmed, at, names.REPORT)
    return events


def _demand(state: AutoscalerState, raw: bytes, at: datetime) -> Events:
    return _demand_events(state, read(DemandMessage, raw), at, names.DEMAND)


def _usage(state: AutoscalerState, raw: bytes, at: datetime) -> Events:
    return _usage_events(state, read(UsageMessage, raw).usage, at, names.USAGE)


def _confirm_drain(state: AutoscalerState, raw: bytes, at: datetime) -> Events:
    return _confirmed_events(state, read(ConfirmDrainMessage, raw).slices, at, names.CONFIRM_DRAIN)


def _pressure(_state: AutoscalerState, _raw: bytes, at: datetime) -> Events:
    return (MessageRejected(at=at, message=names.PRESSURE, problem=NO_QUEUE_LENGTHS),)


def _slices_reported(_state: AutoscalerState, raw: bytes, at: datetime) -> Events:
    return (SlicesReported(at=at, reports=read(SliceReports, raw).reports),)


def _location_reported(_state: AutoscalerState, raw: bytes, _at: datetime) -> Events:
    """At the time that the report says: slices are started because of it, and a recorded time is the same on every replay."""
    report = read(LocationReport, raw)
    return (LocationReported(at=report.at, report=report),)


_SIGNALS: dict[str, Callable[[AutoscalerState, bytes, datetime], Events]] = {
    names.REPORT: _report,
    names.DEMAND: _demand,
    names.USAGE: _usage,
    names.PRESSURE: _pressure,
    names.CONFIRM_DRAIN: _confirm_drain,
    names.SLICES_REPORTED: _slices_reported,
    names.LOCATION_REPORTED: _location_reported,
}

_USAGE: TypeAdapter[SliceUsage] = TypeAdapter(SliceUsage)


def _demand_events(state: AutoscalerState, message: DemandMessage, at: datetime, name: str) -> Events:
    """The demand, or that it is too much: a sender that cannot be answered is asked for a snapshot, and told why."""
    if state.closing:
        return (MessageRejected(at=at, message=name, problem=CLOSING),)
    event = demand_event(state, message, at)
    problem = exceeds_limits(state, event)
    if problem is None:
        return (event,)
    stamp = {"epoch": event.epoch, "revision": event.revision}
    return (DemandRefused(at=at, source=event.source, **stamp, message=name, problem=problem),)


def _confirmed_events(state: AutoscalerState, slice_ids: Sequence[str], at: datetime, name: str) -> Events:
    confirmed = DrainsConfirmed(at=at, slice_ids=tuple(slice_ids))
    if state.recovery is None:
        return (confirmed, *_strangers(state, slice_ids, at, name))
    known = {piece.id for piece in state.slices}
    unknown = [slice_id for slice_id in slice_ids if slice_id not in known]
    if not unknown:
        return (confirmed,)
    return confirmed, MessageRejected(at=at, message=name, problem=f"slices {_listed(unknown)} {NOT_KNOWN_YET}")


def _strangers(state: AutoscalerState, slice_ids: Iterable[str], at: datetime, name: str) -> Events:
    """A rejection for ids that are no slices of this cluster.

    A controller is always a moment behind and names slices that have just gone, thousands of them after a large drain. So an id
    made like those of a group is taken for one of its former slices; and while the ledger is incomplete, so is any.
    """
    if state.config is None or state.recovery is not None:
        return ()
    groups = {group.name for group in state.config.groups} | {piece.group for piece in state.slices}
    known = {piece.id for piece in state.slices}
    strange = [each for each in slice_ids if each not in known and names.group_named_in(each) not in groups]
    if not strange:
        return ()
    problem = f"no slice is called {_listed(strange)}; the ids are in the list of slices"
    return (MessageRejected(at=at, message=name, problem=problem),)


def _listed(slice_ids: Sequence[str]) -> str:
    """The first of some ids, and how many more there are."""
    more = f" and {len(slice_ids) - _TOLD} more" if len(slice_ids) > _TOLD else ""
    return ", ".join(repr(shortened(slice_id, LONGEST_NAME)) for slice_id in slice_ids[:_TOLD]) + more


def _usage_events(state: AutoscalerState, written: Mapping[str, Any], at: datetime, message: str) -> Events:
    """Usage of slices that could be read; the others keep what was said of them before, and the sender is told."""
    groups = _groups_of(state, written)
    usage: dict[str, SliceUsage] = {}
    problems: list[str] = []
    for slice_id, value in written.items():
        try:
            usage[slice_id] = _slice_usage(value, groups.get(slice_id))
        except BadMessage as bad:
            problems.append(f"usage.{slice_id}{bad}")
    if not names_fit(state, usage):
        usage = without_names(usage)
        problems.insert(0, "usage: names more running tasks than can be carried, so it counts without names; give shorter ones")
    if state.recovery is not None:
        usage, unkept = _kept_for_later(state, usage, groups)
        problems += unkept
    events: Events = (UsageReported(at=at, usage=usage),) if usage else ()
    events += _strangers(state, usage, at, message)
    if problems:
        more = f"; and {counted(len(problems) - _TOLD, 'more slice')}" if len(problems) > _TOLD else ""
        events += (MessageRejected(at=at, message=message, problem="; ".join(problems[:_TOLD]) + more),)
    return events


def _kept_for_later(
    state: AutoscalerState, usage: dict[str, SliceUsage], groups: Mapping[str, ScaleGroup]
) -> tuple[dict[str, SliceUsage], list[str]]:
    """What is kept while slices are still to be found: of those that are known, and of those that a group may have."""
    expected = {slice_id: hosts for slice_id, hosts in usage.items() if slice_id in groups}
    if not usage_fits(state, expected):
        known = {piece.id for piece in state.slices}
        expected = {slice_id: hosts for slice_id, hosts in expected.items() if slice_id in known}
    unkept = [slice_id for slice_id in usage if slice_id not in expected]
    told = [f"usage: slices {_listed(unkept)} are not known yet; report it again once the cluster has found its slices"]
    return expected, told if unkept else []


def _groups_of(state: AutoscalerState, slice_ids: Iterable[str]) -> dict[str, ScaleGroup]:
    """The configured group of each slice in the ledger; while that is incomplete, of those whose ids name one as well."""
    groups = {group.name: group for group in state.config.groups} if state.config else {}
    named = {slice_id: names.group_named_in(slice_id) for slice_id in slice_ids} if state.recovery is not None else {}
    named |= {piece.id: piece.group for piece in state.slices}
    return {slice_id: groups[name] for slice_id, name in named.items() if name in groups}


def _slice_usage(value: Any, group: ScaleGroup | None) -> SliceUsage:
    try:
        usage = _USAGE.validate_python([value] if isinstance(value, str | dict) else value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = path_text(first["loc"])
        first["loc"] = first["loc"][1:]  # What is wrong is told of the host; which one it is stands before it.
        raise BadMessage(f"{where if where.startswith('[') else ''}: {message_of(first, HostUsage)}") from None
    if not usage:
        raise BadMessage(": is empty; give one usage per host, or one word for the whole slice")
    hosts = group.hosts_per_slice if group else len(usage)
    if len(usage) != hosts and (len(usage) != 1 or usage[0].reserved is not None):
        raise BadMessage(f": {len(usage)} given, but a slice of its group has {hosts} hosts; give one for each")
    return usage
