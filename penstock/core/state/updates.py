"""Parse the updates of operators and controllers into events and a result; refusals say how to fix the request."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from penstock.contract import names
from penstock.contract.answers import Accepted, Done
from penstock.contract.messages import (
    LARGEST_MESSAGE,
    CancelDrainMessage,
    CapacityMessage,
    ClearBlockMessage,
    CloseMessage,
    CordonMessage,
    DemandMessage,
    DrainMessage,
    ForgetSourceMessage,
    KeepMessage,
    PauseMessage,
    ResumeMessage,
)
from penstock.contract.problems import LONGEST_NAME, BadMessage, read
from penstock.contract.tasks import invalid_in, invalid_tasks
from penstock.core.decision.match import only_driven_by_pressure
from penstock.core.state import handshake
from penstock.core.state.events import (
    AnyEvent,
    BlockCleared,
    CapacityReleased,
    CapacityRequested,
    Closed,
    ConfigApplied,
    DemandDelta,
    DemandSnapshot,
    DrainCancelled,
    DrainOrdered,
    Paused,
    Resumed,
    SliceCordoned,
    SliceKept,
    SourceForgotten,
)
from penstock.core.state.protections import MOST_PROTECTED, has_room_for
from penstock.core.state.signals import CLOSING, demand_event
from penstock.core.state.state import AutoscalerState, SourceDemand
from penstock.model.cluster import ClusterConfig
from penstock.model.config_diff import config_changes
from penstock.model.demand import Demand
from penstock.model.slices import DrainCause, DrainTerms, Slice, SliceState, StandingRequest
from penstock.wording import counted, did_you_mean, shortened

_PER_UPDATE, _PER_SLICE_MEASURED, _BYTES_READ = 500, 25, 3
"""Microseconds of an update, and for each slice if it measures the state; bytes that are read in a microsecond."""
_SUGGESTED = 3
"""Similar names that a refusal suggests."""


class ParsedUpdate(NamedTuple):
    """The events of an update, if it changes anything, and the answer, computed from the state after them."""

    events: tuple[AnyEvent, ...]
    answer: Callable[[AutoscalerState], Accepted | Done]


def read_update(state: AutoscalerState, name: str, raw: bytes, at: datetime) -> ParsedUpdate:
    """Read one update; raises `BadMessage` if it cannot be carried out."""
    reader = _UPDATES.get(name)
    if reader is None:
        raise BadMessage(f"there is no update {name!r}; {_hint(name, list(_UPDATES), 'updates')}")
    if len(raw) > LARGEST_MESSAGE:
        raise BadMessage(f"{name} takes at most {LARGEST_MESSAGE} bytes, not {len(raw)}; send it in parts")
    if state.closing and name not in (names.CLOSE, names.APPLY_CONFIG):
        raise BadMessage(CLOSING)
    return reader(state, raw or b"{}", at)


def work_of(state: AutoscalerState, name: str, raw: bytes) -> int:
    """An estimate of the work of an update, in the unit of `inbox.WORK`. Two kinds measure the size of the whole state."""
    measured = name in (names.APPLY_CONFIG, names.REQUEST_CAPACITY)
    return _PER_UPDATE + len(raw) // _BYTES_READ + len(state.slices) * (_PER_SLICE_MEASURED if measured else 1)


def _submit_demand(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    event = demand_event(state, read(DemandMessage, raw), at)
    written = event.demand if isinstance(event, DemandSnapshot) else event.added

    def answer(after: AutoscalerState) -> Accepted:
        source = after.demand.get(event.source, SourceDemand(epoch=0, revision=0, demand=Demand()))
        problem = _not_applied(source, event) or invalid_tasks(written)
        return Accepted(
            source=event.source,
            applied=problem is None,
            problem=problem,
            epoch=source.epoch,
            revision=source.revision,
            config_revision=after.config_revision,
            resync_needed=source.resync_needed,
            invalid=invalid_in(written),
        )

    return ParsedUpdate((event,), answer)


def _not_applied(source: SourceDemand, event: DemandSnapshot | DemandDelta) -> str | None:
    """Why the message is not the demand of its source, read from the source after it; None if it is."""
    stamp = (event.epoch, event.revision)
    if source.resync_needed is not None and source.stamp <= stamp:
        return f"{source.resync_needed}; send a snapshot with a newer revision"
    if source.stamp == stamp:
        return None
    if source.stamp > stamp:
        known = f"epoch {source.epoch} revision {source.revision} is in force"
        what = f"epoch: {event.epoch} is older" if event.epoch < source.epoch else f"revision: {event.revision} is not newer"
        return f"{what}, {known}; send a snapshot with a newer one"
    parts = event.parts if isinstance(event, DemandSnapshot) else 1
    return f"part {getattr(event, 'part', 1)} of {parts} is kept; the demand changes once every part has arrived"


def _forget_source(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    name = read(ForgetSourceMessage, raw).source
    known = sorted({*state.demand, *state.usage_sources})
    if name not in known:
        given = shortened(name, LONGEST_NAME)
        raise BadMessage(f"source: there is no source {given!r}; {_hint(given, known, 'sources')}")
    tasks = state.demand[name].tasks if name in state.demand else 0
    slices = len(state.usage_sources[name].named) if name in state.usage_sources else 0
    what = f"{counted(tasks, 'task')}, and its word on {counted(slices, 'slice')}"
    return _done(f"Forgot source {name}: {what}", SourceForgotten(at=at, source=name))


def _apply_config(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    config = read(ClusterConfig, raw)
    if state.config is not None and config.cluster != state.config.cluster:
        raise BadMessage(f"cluster: this is {state.config.cluster}, not {config.cluster}; a cluster cannot be renamed")
    if config == state.config:
        closing = ", and the cluster is being deleted" if state.closing else ""
        return _done(f"Configuration unchanged: it is revision {state.config_revision} already{closing}")
    for owner, request in sorted(state.standing.items()):
        driven = driven_by_pressure(request, config)
        if driven is not None and driven_by_pressure(request, state.config) is None:
            raise BadMessage(
                f"groups.{driven[1]}.drive: only {driven[1]} could meet the standing request of {owner}, and standing requests"
                " are not met by groups that pressure drives; release the request first, or keep drive: entries"
            )
    changes = counted(len(config_changes(state.config, config)), "change") if state.config is not None else "the first"
    message = f"Applied configuration revision {state.config_revision + 1}: {changes}"
    return _done(message, ConfigApplied(at=at, config=config))


def driven_by_pressure(request: StandingRequest, config: ClusterConfig | None) -> tuple[int, str] | None:
    """The first item that only groups driven by pressure could meet, with the first such group."""
    for number, item in enumerate(request.wants):
        found = only_driven_by_pressure(item, config.groups) if config else []
        if found:
            return number, found[0].name
    return None


def _request_capacity(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    message = read(CapacityMessage, raw)
    owner = message.owner
    if not message.wants:
        if owner not in state.standing:
            return _done(f"There is no standing request {owner}")
        return _done(f"Withdrew standing request {owner}", CapacityReleased(at=at, owner=owner))
    if message.expires is not None and message.expires <= at:
        raise BadMessage(f"expires: {message.expires:%Y-%m-%d %H:%M:%S} UTC has passed; give a later time or leave it out")
    old = handshake.is_from_old_config(state, handshake.requesting(owner), message.config_revision)
    request = StandingRequest(owner=owner, wants=message.wants, expires=message.expires)
    driven = driven_by_pressure(request, state.config)
    if driven is not None:
        raise BadMessage(
            f"wants[{driven[0]}]: only {driven[1]} could meet it, which pressure reports drive; raise its min_slices"
        )
    since = f"; the newest configuration is revision {state.config_revision}, not {message.config_revision}" if old else ""
    event = CapacityRequested(at=at, request=request, from_old_config=old)
    return _done(f"Standing request {owner} is active{since}", event)


def _drain_slice(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    message = read(DrainMessage, raw)
    piece = _slice(state, message.slice_id)
    if piece.state is SliceState.DELETING:
        return _done(f"Slice {piece.id} is being deleted already")
    if message.cause in set(DrainCause):
        raise BadMessage(f"cause: {message.cause!r} is kept for drains that decisions order; use other words")
    before, terms = piece.drain, DrainTerms(cause=message.cause, force=message.force)
    stays_forced = before is not None and before.force and not terms.force
    forced = ", still by force; cancel the drain first to let its work finish" if stays_forced else ""
    return _done(f"Draining slice {piece.id}{forced}", DrainOrdered(at=at, slice_id=piece.id, terms=terms))


def _cancel_drain(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    piece = _slice(state, read(CancelDrainMessage, raw).slice_id)
    if not piece.drains:
        raise BadMessage(f"slice_id: {piece.id} is not draining, it is {piece.state}")
    if piece.state.in_flight:
        raise BadMessage(
            f"slice_id: {piece.id} is {piece.state}, so draining deletes it at once; demand that needs a slice launches another"
        )
    if piece.state is SliceState.DELETING or piece.confirmed_empty:
        raise BadMessage(f"slice_id: {piece.id} is being deleted; demand that needs a slice launches another")
    return _done(f"Cancelling the drain of slice {piece.id}: it returns to READY", DrainCancelled(at=at, slice_id=piece.id))


def _keep_slice(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    message = read(KeepMessage, raw)
    piece = _protectable(state, message.slice_id, at)
    if message.seconds is None:
        if piece.id not in state.protections or state.protections[piece.id].kept_until is None:
            return _done(f"Slice {piece.id} is not kept")
        return _done(f"Slice {piece.id} is no longer kept", SliceKept(at=at, slice_id=piece.id))
    until = at + timedelta(seconds=message.seconds)
    drains = f"; it drains already ({piece.drain.cause}): cancel that drain to keep it" if piece.drain is not None else ""
    text = f"Keeping slice {piece.id} until {until:%Y-%m-%d %H:%M:%S} UTC{drains}"
    return _done(text, SliceKept(at=at, slice_id=piece.id, until=until))


def _cordon_slice(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    message = read(CordonMessage, raw)
    piece = _protectable(state, message.slice_id, at)
    cordoned = piece.id in state.protections and state.protections[piece.id].cordoned
    if cordoned == message.cordoned:
        return _done(f"Slice {piece.id} is {'' if cordoned else 'not '}cordoned{' already' if cordoned else ''}")
    event = SliceCordoned(at=at, slice_id=piece.id, cordoned=message.cordoned)
    if message.cordoned:
        return _done(f"Cordoned slice {piece.id}: nothing more is placed on it, and what runs there goes on", event)
    return _done(f"Slice {piece.id} takes work again", event)


def _protectable(state: AutoscalerState, slice_id: str, at: datetime) -> Slice:
    piece = _slice(state, slice_id)
    if piece.state is SliceState.DELETING:
        raise BadMessage(f"slice_id: {piece.id} is being deleted; demand that needs a slice launches another")
    if not has_room_for(state, piece.id, at):
        raise BadMessage(f"slice_id: {MOST_PROTECTED} slices are kept or cordoned already; end that for others first")
    return piece


def _clear_block(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    name = read(ClearBlockMessage, raw).group
    known = [group.name for group in state.config.groups] if state.config else []
    if name is not None and name not in known:
        given = shortened(name, LONGEST_NAME)
        raise BadMessage(f"group: there is no group {given!r}; {_hint(given, known, 'groups')}")
    return _done(f"Cleared the block of {f'group {name}' if name else 'every group'}", BlockCleared(at=at, group=name))


def _pause(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    message = read(PauseMessage, raw)
    if state.paused is not None and message.reason in ("", state.paused):
        return _done("Already paused")
    return _done("Paused: nothing is launched or drained until the cluster is resumed", Paused(at=at, reason=message.reason))


def _resume(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    read(ResumeMessage, raw)
    return _done("Not paused") if state.paused is None else _done("Resumed", Resumed(at=at))


def _close(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    event = Closed(at=at, force=read(CloseMessage, raw).force)
    how = "Deleting" if event.force else "Draining and deleting"
    return _done(f"{how} {counted(len(state.slices), 'slice')}, then the cluster", event)


_UPDATES: dict[str, Callable[[AutoscalerState, bytes, datetime], ParsedUpdate]] = {
    names.SUBMIT_DEMAND: _submit_demand,
    names.FORGET_SOURCE: _forget_source,
    names.APPLY_CONFIG: _apply_config,
    names.REQUEST_CAPACITY: _request_capacity,
    names.DRAIN_SLICE: _drain_slice,
    names.CANCEL_DRAIN: _cancel_drain,
    names.KEEP_SLICE: _keep_slice,
    names.CORDON_SLICE: _cordon_slice,
    names.CLEAR_BLOCK: _clear_block,
    names.PAUSE: _pause,
    names.RESUME: _resume,
    names.CLOSE: _close,
}


def _done(message: str, *events: AnyEvent) -> ParsedUpdate:
    return ParsedUpdate(events, lambda after: Done(message=message, config_revision=after.config_revision))


def _slice(state: AutoscalerState, slice_id: str) -> Slice:
    found = state.by_id.get(slice_id)
    if found is None:
        name = shortened(slice_id, LONGEST_NAME)
        raise BadMessage(f"slice_id: there is no slice {name!r}; {_hint(name, list(state.by_id), 'slices')}")
    return found


def _hint(name: str, known: Sequence[str], noun: str) -> str:
    return did_you_mean(name, known, noun=noun, most=_SUGGESTED, listing=_SUGGESTED)
