"""Parse the signals of controllers, slices and inventories into events; an unusable signal becomes a rejection."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from penstock.contract import names
from penstock.contract.inventories import LocationReport
from penstock.contract.messages import (
    Confirmation,
    ConfirmDrainMessage,
    DemandMessage,
    PressureMessage,
    ReportMessage,
    UsageMessage,
)
from penstock.contract.problems import LONGEST_NAME, BadMessage, message_of, path_text, read, shortened
from penstock.contract.slices import SliceReports
from penstock.contract.tasks import demand_of
from penstock.core.state.confirmations import is_not_known_yet, lateness
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
from penstock.core.state.pressure_signals import read_pressure
from penstock.core.state.size_limits import exceeds_limits, names_fit, usage_fits, without_names
from penstock.core.state.state import AutoscalerState, SourceDemand, UsageSource
from penstock.model.cluster import ScaleGroup
from penstock.model.demand import Demand
from penstock.model.slices import HostUsage, SliceUsage
from penstock.wording import counted, did_you_mean, listed

Events = tuple[AnyEvent, ...]

CLOSING = "the cluster is being deleted; start it again under its name once it is gone"
NOT_KNOWN_YET = "are not known yet: the cluster is recovering its ledger; confirm again once the status lists their drains"
_UNNUMBERED = (-1, -1)
"""Messages without a stamp come before those with one, in the order of arrival."""
_NAMED = 3
"""Slices, or problems, of one message that its rejection names; the rest are only counted."""


def read_signal(state: AutoscalerState, name: str, raw: bytes, at: datetime) -> Events:
    """Read one signal. Never raises: an exception in a signal handler would block the workflow for ever."""
    reader = _SIGNALS.get(name)
    if reader is None:
        hint = did_you_mean(name, list(_SIGNALS), noun="signals", listing=len(_SIGNALS))
        return (MessageRejected(at=at, message=name, problem=f"there is no such signal; {hint}"),)
    try:
        return reader(state, raw, at)
    except BadMessage as bad:
        return (MessageRejected(at=at, message=name, problem=str(bad)),)
    except Exception as error:  # no message may stop the cluster, whatever it contains
        return (MessageRejected(at=at, message=name, problem=f"cannot be used: {type(error).__name__}: {error}"),)


def demand_event(state: AutoscalerState, message: DemandMessage, at: datetime) -> DemandSnapshot | DemandDelta:
    """The message as an event. A snapshot without a revision is newer than every earlier message of its source.

    Raises `BadMessage` if the message contradicts itself.
    """
    if message.config_revision is not None and message.config_revision > state.config_revision:
        known = f"the cluster is at revision {state.config_revision} of its configuration"
        raise BadMessage(f"config_revision: {message.config_revision} does not exist, {known}; read the status and send it again")
    demand = demand_of(message.tasks) if message.tasks is not None else message.demand or Demand()
    if demand.duplicate is not None:
        raise BadMessage(f"tasks: task id {demand.duplicate!r} occurs twice; give every task an id of its own")
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
            lease_seconds=message.lease_seconds,
            positions=message.positions,
        )
    epoch, revision = message.epoch, message.revision
    if epoch is None or revision is None:
        source = state.demand.get(message.source, SourceDemand())
        latest = max(source.stamp, source.latest)
        epoch, revision = max(latest[0], 0), latest[1] + 1
    return DemandSnapshot(
        at=at,
        source=message.source,
        epoch=epoch,
        revision=revision,
        part=message.part,
        parts=message.parts,
        demand=demand,
        lease_seconds=message.lease_seconds,
    )


def _report(state: AutoscalerState, raw: bytes, at: datetime) -> Events:
    message = read(ReportMessage, raw)
    events: Events = ()
    if message.demand is not None:
        events += demand_events(state, message.demand, at, names.REPORT)
    events += usage_events(state, [message.usage_message], at, names.REPORT)
    pressure = message.pressure_message
    if pressure is not None:
        events += pressure_events(state, [pressure], at, names.REPORT)
    if message.confirmed:
        events += confirmed_events(state, message.confirmed, at, names.REPORT)
    return events


def _demand(state: AutoscalerState, raw: bytes, at: datetime) -> Events:
    return demand_events(state, read(DemandMessage, raw), at, names.DEMAND)


def _usage(state: AutoscalerState, raw: bytes, at: datetime) -> Events:
    return usage_events(state, [read(UsageMessage, raw)], at, names.USAGE)


def _confirm_drain(state: AutoscalerState, raw: bytes, at: datetime) -> Events:
    return confirmed_events(state, read(ConfirmDrainMessage, raw).slices, at, names.CONFIRM_DRAIN)


def _pressure(state: AutoscalerState, raw: bytes, at: datetime) -> Events:
    return pressure_events(state, [read(PressureMessage, raw)], at, names.PRESSURE)


def _slices_reported(_state: AutoscalerState, raw: bytes, at: datetime) -> Events:
    return (SlicesReported(at=at, reports=read(SliceReports, raw).reports),)


def _location_reported(_state: AutoscalerState, raw: bytes, _at: datetime) -> Events:
    """The event has the report's time: slices start because of it, and a recorded time is the same on every replay."""
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


def demand_events(state: AutoscalerState, message: DemandMessage, at: datetime, name: str) -> Events:
    """The demand; or, if it is too large, a refusal that requests a snapshot and gives the reason in the status.

    Demand that contradicts itself is rejected alone: the usage and the confirmations of its report count.
    """
    if state.closing:
        return (MessageRejected(at=at, message=name, problem=CLOSING),)
    try:
        event = demand_event(state, message, at)
    except BadMessage as bad:
        return (MessageRejected(at=at, message=name, problem=str(bad)),)
    problem = exceeds_limits(state, event)
    if problem is None:
        return (event,)
    stamp = {"epoch": event.epoch, "revision": event.revision}
    return (DemandRefused(at=at, source=event.source, **stamp, message=name, problem=problem),)


def pressure_events(state: AutoscalerState, messages: Sequence[PressureMessage], at: datetime, name: str) -> Events:
    """The newest reports of pressure of one source, and a rejection for what could not be used."""
    if state.closing:
        return (MessageRejected(at=at, message=name, problem=CLOSING),)
    return read_pressure(state, messages, at, name)


def confirmed_events(state: AutoscalerState, confirmed: Sequence[Confirmation], at: datetime, name: str) -> Events:
    """The confirmation of drains, and a rejection for ids that no slice can have, and for drains that are over."""
    events: Events = (DrainsConfirmed(at=at, confirmed=tuple(confirmed)),)
    problems = [problem for one in confirmed if (problem := lateness(state, one)) is not None]
    if problems:
        more = f"; and {counted(len(problems) - _NAMED, 'more confirmation')}" if len(problems) > _NAMED else ""
        events += (MessageRejected(at=at, message=name, problem="; ".join(problems[:_NAMED]) + more),)
    if state.recovery is None:
        return events + _unknown_slices(state, [one.slice_id for one in confirmed], at, name)
    unknown = [one.slice_id for one in confirmed if is_not_known_yet(state, one)]
    if not unknown:
        return events
    return (*events, MessageRejected(at=at, message=name, problem=f"slices {_quoted(unknown)} {NOT_KNOWN_YET}"))


def _unknown_slices(state: AutoscalerState, slice_ids: Iterable[str], at: datetime, name: str) -> Events:
    """A rejection for ids that are no slices of this cluster.

    A controller is always a moment behind and names slices that have just gone, thousands of them after a large drain. So an id
    in the form of a group's ids counts as a former slice; during a recovery, while the ledger is incomplete, any id does.
    """
    if state.config is None or state.recovery is not None:
        return ()
    groups = {group.name for group in state.config.groups} | {piece.group for piece in state.slices}
    known = {piece.id for piece in state.slices}
    strange = [each for each in slice_ids if each not in known and names.group_named_in(each) not in groups]
    if not strange:
        return ()
    problem = f"there is no slice {_quoted(strange)}; `penstock slices` lists the ids"
    return (MessageRejected(at=at, message=name, problem=problem),)


def _quoted(slice_ids: Sequence[str]) -> str:
    """The first few ids in quotes, and how many more there are."""
    return listed((repr(shortened(slice_id, LONGEST_NAME)) for slice_id in slice_ids), _NAMED)


def usage_events(state: AutoscalerState, messages: Sequence[UsageMessage], at: datetime, message: str) -> Events:
    """The newest usage of each slice that could be read, and a rejection for what could not.

    All messages are of one source, in order of arrival. A slice whose newest usage is unreadable keeps the one before.
    """
    said = _SaidOfSlices(state.usage_sources.get(messages[0].source, UsageSource()))
    for one in sorted(messages, key=lambda each: each.stamp or _UNNUMBERED):
        said.add(one.model_copy(update={"complete": False}) if one.complete and _is_unusable(state, one) else one)
    groups = _groups_of(state, said.written) if said.written else {}
    usage, problems = _readable(said.written, groups)
    epoch, revision = said.stamp or (None, None)
    reported = UsageReported(
        at=at, source=messages[0].source, epoch=epoch, revision=revision, complete=said.complete, usage=usage
    )
    if not names_fit(state, reported):
        usage = without_names(usage)
        problems.insert(
            0, "usage: the names of running tasks exceed the size limit, so usage counts without them; use shorter names"
        )
    if state.recovery is not None:
        usage, unkept = _kept_for_later(state, usage, groups)
        problems += unkept
    heard = said.renews and (usage or said.stamp or not said.written)
    events: Events = (reported.model_copy(update={"usage": usage}),) if heard else ()
    events += _unknown_slices(state, usage, at, message)
    if problems:
        more = f"; and {counted(len(problems) - _NAMED, 'more slice')}" if len(problems) > _NAMED else ""
        events += (MessageRejected(at=at, message=message, problem="; ".join(problems[:_NAMED]) + more),)
    return events


def _is_unusable(state: AutoscalerState, message: UsageMessage) -> bool:
    """Whether a message without a stamp names slices, and nothing of it can be read: then it withdraws nothing either."""
    if message.stamp is not None or not message.usage:
        return False
    groups = _groups_of(state, message.usage)
    return not any(_is_readable(value, groups.get(slice_id)) for slice_id, value in message.usage.items())


def _is_readable(value: Any, group: ScaleGroup | None) -> bool:
    try:
        _slice_usage(value, group)
    except BadMessage:
        return False
    return True


class _SaidOfSlices:
    """What messages of one source say, added up in the order of their stamps: per slice every value, the newest last."""

    def __init__(self, before: UsageSource) -> None:
        self._before = before
        self._named = frozenset(before.named)
        self.written: dict[str, list[Any]] = {}
        self.complete = False
        self.stamp: tuple[int, int] | None = None
        self.renews = False
        """Whether any of the messages is of the source's current epoch, or a newer one."""

    def add(self, message: UsageMessage) -> None:
        """A message of an older epoch says nothing; one that was overtaken only adds slices that the source had not named."""
        stamp = message.stamp
        if stamp is not None and stamp[0] < self._before.epoch:
            return
        self.renews = True
        overtaken = stamp is not None and stamp < self._before.stamp
        if message.complete and not overtaken:
            self.written, self.complete = {}, True
        for slice_id, value in message.usage.items():
            if not (overtaken and slice_id in self._named):
                self.written.setdefault(slice_id, []).append(value)
        if stamp is not None and not overtaken:
            self.stamp = stamp if self.stamp is None else max(self.stamp, stamp)


def _readable(written: Mapping[str, Sequence[Any]], groups: Mapping[str, ScaleGroup]) -> tuple[dict[str, SliceUsage], list[str]]:
    """The newest readable usage of each slice, and the problems of what is newer than that."""
    usage: dict[str, SliceUsage] = {}
    problems: list[str] = []
    for slice_id, values in written.items():
        for value in reversed(values):
            try:
                usage[slice_id] = _slice_usage(value, groups.get(slice_id))
                break
            except BadMessage as bad:
                problems.append(f"usage.{slice_id}{bad}")
    return usage, problems


def _kept_for_later(
    state: AutoscalerState, usage: dict[str, SliceUsage], groups: Mapping[str, ScaleGroup]
) -> tuple[dict[str, SliceUsage], list[str]]:
    """The usage to keep during a recovery, for known slices and for ids that name a group; and problems with the rest."""
    expected = {slice_id: hosts for slice_id, hosts in usage.items() if slice_id in groups}
    if not usage_fits(state, expected):
        known = {piece.id for piece in state.slices}
        expected = {slice_id: hosts for slice_id, hosts in expected.items() if slice_id in known}
    unkept = [slice_id for slice_id in usage if slice_id not in expected]
    problem = f"usage: slices {_quoted(unkept)} are not known yet; report it again once the cluster has recovered its ledger"
    return expected, [problem] if unkept else []


def _groups_of(state: AutoscalerState, slice_ids: Iterable[str]) -> dict[str, ScaleGroup]:
    """The configured group of each of the slices that the ledger has; during a recovery also of ids that name a group."""
    groups = {group.name: group for group in state.config.groups} if state.config else {}
    asked, known = tuple(slice_ids), state.by_id
    named = {slice_id: names.group_named_in(slice_id) for slice_id in asked} if state.recovery is not None else {}
    named |= {slice_id: known[slice_id].group for slice_id in asked if slice_id in known}
    return {slice_id: groups[name] for slice_id, name in named.items() if name in groups}


def _slice_usage(value: Any, group: ScaleGroup | None) -> SliceUsage:
    try:
        usage = _USAGE.validate_python([value] if isinstance(value, str | dict) else value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = path_text(first["loc"])
        first["loc"] = first["loc"][1:]  # The message describes the host; `where` before it names which one.
        raise BadMessage(f"{where if where.startswith('[') else ''}: {message_of(first, HostUsage)}") from None
    if not usage:
        raise BadMessage(": is empty; give one usage per host, or one word for the whole slice")
    hosts = group.hosts_per_slice if group else len(usage)
    if len(usage) != hosts and (len(usage) != 1 or usage[0].reserved is not None):
        raise BadMessage(f": {len(usage)} given, but a slice of its group has {hosts} hosts; give one for each")
    return usage
