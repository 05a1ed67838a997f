"""ParsedUpdate: what operators and controllers ask for by update, and the answer. What cannot be done is refused with its fix."""

from collections.abc import Callable, Iterable
from datetime import datetime
from difflib import get_close_matches
from typing import NamedTuple

from penstock.contract import names
from penstock.contract.answers import Accepted, Done
from penstock.contract.messages import (
    LARGEST_MESSAGE,
    CancelDrainMessage,
    CapacityMessage,
    ClearBlockMessage,
    CloseMessage,
    DemandMessage,
    DrainMessage,
    PauseMessage,
)
from penstock.contract.problems import LONGEST_NAME, BadMessage, read, shortened
from penstock.contract.tasks import invalid_in
from penstock.core.state.drains import confirmed_empty
from penstock.core.state.events import (
    AnyEvent,
    BlockCleared,
    CapacityReleased,
    CapacityRequested,
    Closed,
    ConfigApplied,
    DemandSnapshot,
    DrainCancelled,
    DrainOrdered,
    Paused,
    Resumed,
)
from penstock.core.state.signals import CLOSING, demand_event
from penstock.core.state.state import AutoscalerState, SourceDemand
from penstock.model.cluster import ClusterConfig
from penstock.model.demand import Demand
from penstock.model.slices import DrainTerms, Slice, SliceState, StandingRequest
from penstock.wording import counted

_SUGGESTED = 3
"""Names that are suggested for one that is not known."""


class ParsedUpdate(NamedTuple):
    """What an update changes, if anything, and what is answered once it has."""

    events: tuple[AnyEvent, ...]
    answer: Callable[[AutoscalerState], Accepted | Done]


def read_update(state: AutoscalerState, name: str, raw: bytes, at: datetime) -> ParsedUpdate:
    """What an update means for the state; raises `BadMessage` if it cannot be done."""
    read_update = _UPDATES.get(name)
    if read_update is None:
        raise BadMessage(f"there is no update {name!r}; {_hint(name, _UPDATES)}")
    if len(raw) > LARGEST_MESSAGE:
        raise BadMessage(f"{name} takes at most {LARGEST_MESSAGE} bytes, not {len(raw)}; send it in parts")
    if state.closing and name not in (names.CLOSE, names.APPLY_CONFIG):
        raise BadMessage(CLOSING)
    return read_update(state, raw or b"{}", at)


def _submit_demand(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    event = demand_event(state, read(DemandMessage, raw), at)
    invalid = invalid_in(event.demand if isinstance(event, DemandSnapshot) else event.added)

    def answer(after: AutoscalerState) -> Accepted:
        source = after.demand.get(event.source, SourceDemand(epoch=0, revision=0, demand=Demand()))
        return Accepted(
            source=event.source,
            epoch=source.epoch,
            revision=source.revision,
            config_revision=after.config_revision,
            resync_needed=source.resync_needed,
            invalid=invalid,
        )

    return ParsedUpdate((event,), answer)


def _apply_config(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    config = read(ClusterConfig, raw)
    if state.config is not None and config.cluster != state.config.cluster:
        raise BadMessage(f"cluster: this is {state.config.cluster}, not {config.cluster}; a cluster keeps its name")
    if config == state.config:
        doomed = ", and the cluster is being deleted" if state.closing else ""
        return _done(f"the configuration is the same; revision {state.config_revision} stands{doomed}")
    revision = state.config_revision + 1
    return _done(f"configuration revision {revision} applies", ConfigApplied(at=at, config=config))


def _request_capacity(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    message = read(CapacityMessage, raw)
    owner = message.owner
    if not message.wants:
        if owner not in state.standing:
            return _done(f"{owner} has no standing request")
        return _done(f"the standing request of {owner} is withdrawn", CapacityReleased(at=at, owner=owner))
    if message.expires is not None and message.expires <= at:
        raise BadMessage(f"expires: {message.expires:%Y-%m-%d %H:%M:%S} UTC has passed; give a later time or leave it out")
    request = StandingRequest(owner=owner, wants=message.wants, expires=message.expires)
    return _done(f"the standing request of {owner} holds", CapacityRequested(at=at, request=request))


def _drain_slice(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    message = read(DrainMessage, raw)
    piece = _slice(state, message.slice_id)
    if piece.state is SliceState.DELETING:
        return _done(f"{piece.id} is being deleted already")
    before, terms = piece.drain, DrainTerms(cause=message.cause, force=message.force)
    forced = ", by force as before; cancel that to let its work end" if before and before.force and not terms.force else ""
    return _done(f"{piece.id} drains{forced}", DrainOrdered(at=at, slice_id=piece.id, terms=terms))


def _cancel_drain(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    piece = _slice(state, read(CancelDrainMessage, raw).slice_id)
    if not piece.drains:
        raise BadMessage(f"slice_id: {piece.id} is not draining, it is {piece.state}")
    if piece.state.in_flight:
        raise BadMessage(f"slice_id: {piece.id} is {piece.state}, so its drain deletes it at once; another comes if it is wanted")
    if piece.state is SliceState.DELETING or piece.id in confirmed_empty(state):
        raise BadMessage(f"slice_id: {piece.id} is being deleted; another comes if it is wanted")
    return _done(f"{piece.id} is told to serve again", DrainCancelled(at=at, slice_id=piece.id))


def _clear_block(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    name = read(ClearBlockMessage, raw).group
    known = [group.name for group in state.config.groups] if state.config else []
    if name is not None and name not in known:
        given = shortened(name, LONGEST_NAME)
        raise BadMessage(f"group: no group is called {given!r}; {_hint(given, known)}")
    return _done(f"{name or 'every group'} may be asked again", BlockCleared(at=at, group=name))


def _pause(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    message = read(PauseMessage, raw)
    if state.paused is not None and message.reason in ("", state.paused):
        return _done("the cluster is paused already")
    return _done("nothing is launched or drained until the cluster is resumed", Paused(at=at, reason=message.reason))


def _resume(state: AutoscalerState, _raw: bytes, at: datetime) -> ParsedUpdate:
    return _done("the cluster is not paused") if state.paused is None else _done("decisions go on", Resumed(at=at))


def _close(state: AutoscalerState, raw: bytes, at: datetime) -> ParsedUpdate:
    event = Closed(at=at, force=read(CloseMessage, raw).force)
    how = "deleted" if event.force else "emptied and deleted"
    are = "is" if len(state.slices) == 1 else "are"
    return _done(f"{counted(len(state.slices), 'slice')} {are} being {how}; then the cluster is gone", event)


_UPDATES: dict[str, Callable[[AutoscalerState, bytes, datetime], ParsedUpdate]] = {
    names.SUBMIT_DEMAND: _submit_demand,
    names.APPLY_CONFIG: _apply_config,
    names.REQUEST_CAPACITY: _request_capacity,
    names.DRAIN_SLICE: _drain_slice,
    names.CANCEL_DRAIN: _cancel_drain,
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
        raise BadMessage(f"slice_id: no slice is called {name!r}; {_hint(name, [piece.id for piece in state.slices])}")
    return found


def _hint(name: str, known: Iterable[str]) -> str:
    """What may have been meant."""
    some = list(known)
    close = get_close_matches(name, some, n=_SUGGESTED)
    if close:
        return f"did you mean {' or '.join(close)}?"
    listed = ", ".join(some[:_SUGGESTED]) or "none"
    return f"there are {len(some)}: {listed}{', …' if len(some) > _SUGGESTED else ''}"
