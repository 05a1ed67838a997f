"""The life of a slice: the one table of moves, and `advance`, through which alone a slice moves."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from pydantic import TypeAdapter

from penstock.contract.lives import (
    Asked,
    CancelDrainLetter,
    DeleteLetter,
    DrainLetter,
    DrainTerms,
    EmptyLetter,
    Letter,
    Move,
    Sighting,
    SliceLife,
    SliceReport,
    SliceSpec,
    place_key,
)
from penstock.model.cluster import Provider
from penstock.model.failures import Failure, FailureKind, Phase
from penstock.model.slices import ENDED, IN_FLIGHT, SliceState
from penstock.model.units import format_seconds

KEPT_MOVES = 40
"""Lines of a timeline that are kept: a slice that is drained and called back every day still fits on a screen."""
CANCELLED = "cancelled"
"""Why a slice leaves whose workflow was cancelled."""
OVERDUE = "deletion overdue"
"""How the cause of a slice begins that the cloud does not let go."""

MOVES: Mapping[SliceState, Mapping[SliceState, str]] = {
    SliceState.REQUESTING: {
        SliceState.BOOTING: "the cloud shows it",
        SliceState.DELETING: "refused, overdue, lost, or not wanted any more",
    },
    SliceState.BOOTING: {
        SliceState.INITIALIZING: "every host has an address",
        SliceState.DELETING: "overdue, lost, or not wanted any more",
    },
    SliceState.INITIALIZING: {
        SliceState.READY: "every host answers its health check with this slice's id",
        SliceState.DELETING: "overdue, lost, or not wanted any more",
    },
    SliceState.READY: {
        SliceState.DRAINING: "told to empty",
        SliceState.DELETING: "lost, or told to delete",
    },
    SliceState.DRAINING: {
        SliceState.READY: "told to serve again, or not empty at the deadline",
        SliceState.DELETING: "empty, forced at the deadline, lost, or told to delete",
    },
    SliceState.DELETING: {
        SliceState.TERMINATED: "the cloud says that it is gone",
        SliceState.FAILED: "the cloud says that it is gone, after a failure",
    },
    SliceState.TERMINATED: {},
    SliceState.FAILED: {},
}
"""From each state: where a slice may move, and what causes it. Nothing else moves a slice."""

_LETTER: TypeAdapter[Letter] = TypeAdapter(Letter)
"""Made once here, for workflow modules are imported anew for every workflow."""
_WAY_UP = (SliceState.REQUESTING, SliceState.BOOTING, SliceState.INITIALIZING, SliceState.READY)
_WITH_HOSTS = (SliceState.INITIALIZING, SliceState.READY, SliceState.DRAINING)


class Answered(NamedTuple):
    """The cloud answered a create call."""

    at: datetime
    asked: Asked


class Seen(NamedTuple):
    """Somebody looked at the slice in the cloud."""

    at: datetime
    sighting: Sighting


class Told(NamedTuple):
    """The autoscaler wrote."""

    at: datetime
    letter: Letter


class Overdue(NamedTuple):
    """The deadline of a state passed, and a last look changed nothing."""

    at: datetime
    state: SliceState


class Cancelled(NamedTuple):
    """Somebody cancelled the slice's workflow."""

    at: datetime


class DeletionOverdue(NamedTuple):
    """The cloud was asked long enough, and the slice is still there."""

    at: datetime


class ConfirmedGone(NamedTuple):
    """The cloud answered a delete call: it does not exist."""

    at: datetime


class Reported(NamedTuple):
    """The autoscaler was told of everything up to a move."""

    at: datetime
    sequence: int


LifeEvent: TypeAlias = Answered | Seen | Told | Overdue | Cancelled | DeletionOverdue | ConfirmedGone | Reported
"""Everything that can happen to a slice."""


def advance(life: SliceLife, event: LifeEvent) -> SliceLife:
    """The life after the event. Never fails: what comes late or does not fit is no news."""
    return _ADVANCE[type(event)](life, event)


def deadline_seconds(life: SliceLife) -> float | None:
    """How long a slice may stay in the state it has just come into; None for as long as it takes."""
    timeouts = life.spec.timeouts
    if life.state is SliceState.REQUESTING and life.queued:
        return None
    return {
        SliceState.REQUESTING: timeouts.requesting_seconds,
        SliceState.BOOTING: timeouts.boot_seconds,
        SliceState.INITIALIZING: timeouts.init_seconds,
        SliceState.DRAINING: timeouts.drain_seconds,
    }.get(life.state)


def report_of(life: SliceLife) -> SliceReport:
    """Where the slice is, for its autoscaler."""
    return SliceReport(
        slice_id=life.spec.slice_id,
        group=life.spec.group,
        state=life.state,
        since=life.since,
        ordered_at=life.ordered_at,
        born_at=life.born_at,
        sequence=life.sequence,
        queued=life.queued,
        cause=life.cause,
        drain=life.drain if life.state is SliceState.DRAINING else None,
        place=spec_place(life.spec),
        failure=life.failure,
    )


def spec_place(spec: SliceSpec) -> str:
    """Where a slice was ordered, as its inventory knows it."""
    return place_key(Provider.model_validate({**spec.settings, "kind": spec.provider}).account, spec.location)


def letter_of(raw: Any) -> Letter:
    """A letter as it came over the wire; raises `ValidationError` if it is none."""
    return _LETTER.validate_python(raw)


def _answered(life: SliceLife, event: Answered) -> SliceLife:
    """A rate limit is waited out: its failure stands until the next answer. Any other refusal ends the slice."""
    outcome, failure = event.asked.outcome, event.asked.failure
    if outcome == "refused":
        if life.state is not SliceState.REQUESTING or failure is None:
            return life
        if failure.kind is FailureKind.RATE_LIMIT:
            return _noted(life, event.at, f"{failure.kind}: {failure.message}", failure=failure)
        return _failed(life, event.at, failure)
    if life.state in ENDED or life.created:
        return life
    if life.state is not SliceState.REQUESTING:
        return life.model_copy(update={"created": True})
    taken = life.model_copy(update={"created": True, "failure": None})
    return _in_queue(taken, event.at, queued=True) if outcome == "queued" else taken


def _seen(life: SliceLife, event: Seen) -> SliceLife:
    sighting = event.sighting
    if life.state is SliceState.DELETING or life.state in ENDED:
        return life
    loss = _loss(life, sighting)
    if loss is not None:
        return _failed(life, event.at, loss)
    if sighting.phase in (Phase.QUEUED, Phase.CREATING):
        return _in_queue(life, event.at, queued=sighting.phase is Phase.QUEUED)
    return _up_to(life, event.at, _reached(sighting, hosts=life.spec.hosts))


def _loss(life: SliceLife, sighting: Sighting) -> Failure | None:
    """How a sighting says that the slice is lost. What the cloud has not confirmed to exist cannot be missing."""
    match sighting.phase:
        case Phase.PREEMPTED:
            return sighting.failure or Failure(kind=FailureKind.PREEMPTED, message="the cloud took it back")
        case Phase.FAILED:
            return sighting.failure or Failure(kind=FailureKind.GONE, message="the cloud gave it up and did not say why")
        case Phase.GONE if life.created:
            return sighting.failure or Failure(kind=FailureKind.GONE, message="it is not in the cloud any more")
    if sighting.silent_hosts and life.state in _WITH_HOSTS:
        hosts = ", ".join(map(str, sighting.silent_hosts))
        return sighting.failure or Failure(
            kind=FailureKind.HOST_LOST, message=f"no answer from host {hosts} of {life.spec.hosts}"
        )
    return None


def _in_queue(life: SliceLife, at: datetime, *, queued: bool) -> SliceLife:
    """Whether it waits in the cloud's queue. Time in the queue does not count: afterwards the state begins anew."""
    if life.state is not SliceState.REQUESTING or life.queued is queued:
        return life
    if queued:
        return _noted(life, at, "waits in the cloud's queue", queued=True)
    return _noted(life, at, "left the cloud's queue", queued=False, since=at)


def _reached(sighting: Sighting, *, hosts: int) -> SliceState | None:
    """How far the slice has come by what was seen. One with too few hosts, or too many, is not whole, however well they are."""
    if sighting.phase is Phase.BOOTING:
        return SliceState.BOOTING
    if sighting.phase is not Phase.RUNNING:
        return None
    if not sighting.addressed or sighting.hosts not in (None, hosts):
        return SliceState.BOOTING
    return SliceState.READY if sighting.healthy else SliceState.INITIALIZING


def _up_to(life: SliceLife, at: datetime, goal: SliceState | None) -> SliceLife:
    """The life moved forward to the goal, one state at a time; a goal that lies behind it is no news."""
    if goal is None or life.state not in IN_FLIGHT:
        return life
    for state in _WAY_UP[_WAY_UP.index(life.state) + 1 : _WAY_UP.index(goal) + 1]:
        born: datetime = life.born_at or at
        life = _moved(life, state, at, MOVES[life.state][state], created=True, queued=False, failure=None, born_at=born)
    return life


def _told(life: SliceLife, event: Told) -> SliceLife:
    match event.letter:
        case DrainLetter(terms=terms):
            return _drained(life, event.at, terms)
        case CancelDrainLetter() if life.state is SliceState.DRAINING:
            return _back_to_work(life, event.at, "told to serve again")
        case EmptyLetter() if life.state is SliceState.DRAINING:
            return _leaving(life.model_copy(update={"confirmed": True}), event.at, life.cause, f"empty; {life.cause}")
        case DeleteLetter(cause=cause):
            return _leaving(life, event.at, cause, cause)
    return life


def _drained(life: SliceLife, at: datetime, terms: DrainTerms) -> SliceLife:
    """Before READY nothing runs there, so that a drain is a delete. A drain under way can only become a forced one."""
    if life.state in IN_FLIGHT:
        return _leaving(life, at, terms.cause, terms.cause)
    if life.state is SliceState.READY:
        return _moved(life, SliceState.DRAINING, at, terms.cause, drain=terms, cause=terms.cause, confirmed=False)
    if life.state is SliceState.DRAINING and terms.force and (life.drain is None or not life.drain.force):
        return life.model_copy(update={"drain": terms, "cause": terms.cause})
    return life


def _back_to_work(life: SliceLife, at: datetime, why: str) -> SliceLife:
    return _moved(life, SliceState.READY, at, why, drain=None, cause="", confirmed=False)


def _overdue(life: SliceLife, event: Overdue) -> SliceLife:
    seconds = deadline_seconds(life)
    if life.state is not event.state or seconds is None:
        return life
    allowed = format_seconds(seconds) if seconds >= 1 else f"{seconds:g}s"
    match life.state:
        case SliceState.REQUESTING:
            return _failed(life, event.at, _timeout(FailureKind.REQUESTING_TIMEOUT, "the cloud did not show it", allowed))
        case SliceState.BOOTING:
            return _failed(life, event.at, _timeout(FailureKind.BOOT_TIMEOUT, "its hosts did not all get addresses", allowed))
        case SliceState.INITIALIZING:
            return _failed(life, event.at, _timeout(FailureKind.INIT_TIMEOUT, "its hosts did not all become healthy", allowed))
    if life.drain is not None and life.drain.force:
        return _leaving(life, event.at, life.cause, f"not empty within {allowed}, forced; {life.cause}")
    return _back_to_work(life, event.at, f"not empty within {allowed}")


def _timeout(kind: FailureKind, what: str, allowed: str) -> Failure:
    return Failure(kind=kind, message=f"{what} within {allowed}")


def _deletion_overdue(life: SliceLife, event: DeletionOverdue) -> SliceLife:
    """Said once: the cloud is asked on."""
    if life.state is not SliceState.DELETING or life.cause.startswith(OVERDUE):
        return life
    return _noted(life, event.at, f"{OVERDUE}: the cloud is asked on", cause=f"{OVERDUE}: {life.cause}")


def _confirmed_gone(life: SliceLife, event: ConfirmedGone) -> SliceLife:
    ending = SliceState.TERMINATED if life.failure is None else SliceState.FAILED
    if ending not in MOVES[life.state]:
        return life
    return _moved(life, ending, event.at, MOVES[life.state][ending])


def _reported(life: SliceLife, event: Reported) -> SliceLife:
    return life.model_copy(update={"reported": min(life.sequence, max(life.reported, event.sequence))})


def _leaving(life: SliceLife, at: datetime, cause: str, why: str) -> SliceLife:
    """Not wanted any more: that no failure stands makes it end TERMINATED."""
    return _moved(life, SliceState.DELETING, at, why, cause=cause, failure=None, queued=False)


def _failed(life: SliceLife, at: datetime, failure: Failure) -> SliceLife:
    why = f"{failure.kind}: {failure.message}" if failure.message else str(failure.kind)
    return _moved(life, SliceState.DELETING, at, why, cause=str(failure.kind), failure=failure, queued=False)


def _moved(life: SliceLife, state: SliceState, at: datetime, why: str, **changes: Any) -> SliceLife:
    """The life in another state, if the table allows it."""
    if state not in MOVES[life.state]:
        return life
    return _noted(life.model_copy(update={"state": state}), at, why, since=at, **changes)


def _noted(life: SliceLife, at: datetime, why: str, **changes: Any) -> SliceLife:
    """The life with a line more in its timeline, of which the autoscaler is to be told."""
    moves = (*life.moves, Move(state=life.state, at=at, why=why))[-KEPT_MOVES:]
    return life.model_copy(update={"sequence": life.sequence + 1, "moves": moves, **changes})


_ADVANCE: dict[type, Callable[[SliceLife, Any], SliceLife]] = {
    Answered: _answered,
    Seen: _seen,
    Told: _told,
    Overdue: _overdue,
    Cancelled: lambda life, event: _leaving(life, event.at, CANCELLED, "its workflow was cancelled"),
    DeletionOverdue: _deletion_overdue,
    ConfirmedGone: _confirmed_gone,
    Reported: _reported,
}
