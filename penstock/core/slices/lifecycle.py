"""The lifecycle of a slice: the one table of moves, and `advance`, through which alone a slice moves."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from pydantic import TypeAdapter

from penstock.contract.inventories import Sighting
from penstock.contract.slices import (
    CancelDrainCommand,
    ConfirmEmptyCommand,
    CreateResult,
    DeleteCommand,
    DrainCommand,
    Move,
    SliceCommand,
    SliceLifecycle,
    SliceReport,
    SliceSpec,
)
from penstock.model.cluster import Provider
from penstock.model.failures import Failure, FailureKind, Phase
from penstock.model.location import location_key
from penstock.model.slices import ENDED, IN_FLIGHT, DrainTerms, SliceState
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

_COMMAND: TypeAdapter[SliceCommand] = TypeAdapter(SliceCommand)
"""Made once here, for workflow modules are imported anew for every workflow."""
_WAY_UP = (SliceState.REQUESTING, SliceState.BOOTING, SliceState.INITIALIZING, SliceState.READY)
_WITH_HOSTS = (SliceState.INITIALIZING, SliceState.READY, SliceState.DRAINING)


class CreateAnswered(NamedTuple):
    """The cloud answered a create call."""

    at: datetime
    asked: CreateResult


class Observed(NamedTuple):
    """Somebody looked at the slice in the cloud."""

    at: datetime
    sighting: Sighting


class CommandReceived(NamedTuple):
    """The autoscaler wrote."""

    at: datetime
    command: SliceCommand


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


class DeletionConfirmed(NamedTuple):
    """The cloud answered a delete call: it does not exist."""

    at: datetime


class Reported(NamedTuple):
    """The autoscaler was told of everything up to a move."""

    at: datetime
    sequence: int


LifecycleEvent: TypeAlias = (
    CreateAnswered | Observed | CommandReceived | Overdue | Cancelled | DeletionOverdue | DeletionConfirmed | Reported
)
"""Everything that can happen to a slice."""


def advance(lifecycle: SliceLifecycle, event: LifecycleEvent) -> SliceLifecycle:
    """The lifecycle after the event. Never fails: what comes late or does not fit is no news."""
    return _ADVANCE[type(event)](lifecycle, event)


def deadline_seconds(lifecycle: SliceLifecycle) -> float | None:
    """How long a slice may stay in the state it has just come into; None for as long as it takes."""
    timeouts = lifecycle.spec.timeouts
    if lifecycle.state is SliceState.REQUESTING and lifecycle.queued:
        return None
    return {
        SliceState.REQUESTING: timeouts.requesting_seconds,
        SliceState.BOOTING: timeouts.boot_seconds,
        SliceState.INITIALIZING: timeouts.init_seconds,
        SliceState.DRAINING: timeouts.drain_seconds,
    }.get(lifecycle.state)


def report_of(lifecycle: SliceLifecycle) -> SliceReport:
    """Where the slice is, for its autoscaler."""
    return SliceReport(
        slice_id=lifecycle.spec.slice_id,
        group=lifecycle.spec.group,
        state=lifecycle.state,
        since=lifecycle.since,
        ordered_at=lifecycle.ordered_at,
        born_at=lifecycle.born_at,
        sequence=lifecycle.sequence,
        queued=lifecycle.queued,
        cause=lifecycle.cause,
        drain=lifecycle.drain if lifecycle.state is SliceState.DRAINING else None,
        location=spec_location_key(lifecycle.spec),
        failure=lifecycle.failure,
    )


def spec_location_key(spec: SliceSpec) -> str:
    """Where a slice was ordered, as its inventory knows it."""
    return location_key(Provider.model_validate({**spec.settings, "kind": spec.provider}).account, spec.location)


def parse_command(raw: Any) -> SliceCommand:
    """A command as it came over the wire; raises `ValidationError` if it is none."""
    return _COMMAND.validate_python(raw)


def _answered(lifecycle: SliceLifecycle, event: CreateAnswered) -> SliceLifecycle:
    """A rate limit is waited out: its failure stands until the next answer. Any other refusal ends the slice."""
    outcome, failure = event.asked.outcome, event.asked.failure
    if outcome == "refused":
        if lifecycle.state is not SliceState.REQUESTING or failure is None:
            return lifecycle
        if failure.kind is FailureKind.RATE_LIMIT:
            return _noted(lifecycle, event.at, f"{failure.kind}: {failure.message}", failure=failure)
        return _failed(lifecycle, event.at, failure)
    if lifecycle.state in ENDED or lifecycle.created:
        return lifecycle
    if lifecycle.state is not SliceState.REQUESTING:
        return lifecycle.model_copy(update={"created": True})
    taken = lifecycle.model_copy(update={"created": True, "failure": None})
    return _in_queue(taken, event.at, queued=True) if outcome == "queued" else taken


def _seen(lifecycle: SliceLifecycle, event: Observed) -> SliceLifecycle:
    sighting = event.sighting
    if lifecycle.state is SliceState.DELETING or lifecycle.state in ENDED:
        return lifecycle
    loss = _loss(lifecycle, sighting)
    if loss is not None:
        return _failed(lifecycle, event.at, loss)
    if sighting.phase in (Phase.QUEUED, Phase.CREATING):
        return _in_queue(lifecycle, event.at, queued=sighting.phase is Phase.QUEUED)
    return _up_to(lifecycle, event.at, _reached(sighting, hosts=lifecycle.spec.hosts))


def _loss(lifecycle: SliceLifecycle, sighting: Sighting) -> Failure | None:
    """How a sighting says that the slice is lost. What the cloud has not confirmed to exist cannot be missing."""
    match sighting.phase:
        case Phase.PREEMPTED:
            return sighting.failure or Failure(kind=FailureKind.PREEMPTED, message="the cloud took it back")
        case Phase.FAILED:
            return sighting.failure or Failure(kind=FailureKind.GONE, message="the cloud gave it up and did not say why")
        case Phase.GONE if lifecycle.created:
            return sighting.failure or Failure(kind=FailureKind.GONE, message="it is not in the cloud any more")
    if sighting.silent_hosts and lifecycle.state in _WITH_HOSTS:
        hosts = ", ".join(map(str, sighting.silent_hosts))
        return sighting.failure or Failure(
            kind=FailureKind.HOST_LOST, message=f"no answer from host {hosts} of {lifecycle.spec.hosts}"
        )
    return None


def _in_queue(lifecycle: SliceLifecycle, at: datetime, *, queued: bool) -> SliceLifecycle:
    """Whether it waits in the cloud's queue. Time in the queue does not count: afterwards the state begins anew."""
    if lifecycle.state is not SliceState.REQUESTING or lifecycle.queued is queued:
        return lifecycle
    if queued:
        return _noted(lifecycle, at, "waits in the cloud's queue", queued=True)
    return _noted(lifecycle, at, "left the cloud's queue", queued=False, since=at)


def _reached(sighting: Sighting, *, hosts: int) -> SliceState | None:
    """How far the slice has come by what was seen. One with too few hosts, or too many, is not whole, however well they are."""
    if sighting.phase is Phase.BOOTING:
        return SliceState.BOOTING
    if sighting.phase is not Phase.RUNNING:
        return None
    if not sighting.addressed or sighting.hosts not in (None, hosts):
        return SliceState.BOOTING
    return SliceState.READY if sighting.healthy else SliceState.INITIALIZING


def _up_to(lifecycle: SliceLifecycle, at: datetime, goal: SliceState | None) -> SliceLifecycle:
    """The lifecycle moved forward to the goal, one state at a time; a goal that lies behind it is no news."""
    if goal is None or lifecycle.state not in IN_FLIGHT:
        return lifecycle
    for state in _WAY_UP[_WAY_UP.index(lifecycle.state) + 1 : _WAY_UP.index(goal) + 1]:
        born: datetime = lifecycle.born_at or at
        lifecycle = _moved(
            lifecycle, state, at, MOVES[lifecycle.state][state], created=True, queued=False, failure=None, born_at=born
        )
    return lifecycle


def _told(lifecycle: SliceLifecycle, event: CommandReceived) -> SliceLifecycle:
    match event.command:
        case DrainCommand(terms=terms):
            return _drained(lifecycle, event.at, terms)
        case CancelDrainCommand() if lifecycle.state is SliceState.DRAINING:
            return _back_to_work(lifecycle, event.at, "told to serve again")
        case ConfirmEmptyCommand() if lifecycle.state is SliceState.DRAINING:
            return _leaving(
                lifecycle.model_copy(update={"confirmed": True}), event.at, lifecycle.cause, f"empty; {lifecycle.cause}"
            )
        case DeleteCommand(cause=cause):
            return _leaving(lifecycle, event.at, cause, cause)
    return lifecycle


def _drained(lifecycle: SliceLifecycle, at: datetime, terms: DrainTerms) -> SliceLifecycle:
    """Before READY nothing runs there, so that a drain is a delete. A drain under way can only become a forced one."""
    if lifecycle.state in IN_FLIGHT:
        return _leaving(lifecycle, at, terms.cause, terms.cause)
    if lifecycle.state is SliceState.READY:
        return _moved(lifecycle, SliceState.DRAINING, at, terms.cause, drain=terms, cause=terms.cause, confirmed=False)
    if lifecycle.state is SliceState.DRAINING and terms.force and (lifecycle.drain is None or not lifecycle.drain.force):
        return lifecycle.model_copy(update={"drain": terms, "cause": terms.cause})
    return lifecycle


def _back_to_work(lifecycle: SliceLifecycle, at: datetime, why: str) -> SliceLifecycle:
    return _moved(lifecycle, SliceState.READY, at, why, drain=None, cause="", confirmed=False)


def _overdue(lifecycle: SliceLifecycle, event: Overdue) -> SliceLifecycle:
    seconds = deadline_seconds(lifecycle)
    if lifecycle.state is not event.state or seconds is None:
        return lifecycle
    allowed = format_seconds(seconds) if seconds >= 1 else f"{seconds:g}s"
    match lifecycle.state:
        case SliceState.REQUESTING:
            return _failed(lifecycle, event.at, _timeout(FailureKind.REQUESTING_TIMEOUT, "the cloud did not show it", allowed))
        case SliceState.BOOTING:
            return _failed(
                lifecycle, event.at, _timeout(FailureKind.BOOT_TIMEOUT, "its hosts did not all get addresses", allowed)
            )
        case SliceState.INITIALIZING:
            return _failed(
                lifecycle, event.at, _timeout(FailureKind.INIT_TIMEOUT, "its hosts did not all become healthy", allowed)
            )
    if lifecycle.drain is not None and lifecycle.drain.force:
        return _leaving(lifecycle, event.at, lifecycle.cause, f"not empty within {allowed}, forced; {lifecycle.cause}")
    return _back_to_work(lifecycle, event.at, f"not empty within {allowed}")


def _timeout(kind: FailureKind, what: str, allowed: str) -> Failure:
    return Failure(kind=kind, message=f"{what} within {allowed}")


def _deletion_overdue(lifecycle: SliceLifecycle, event: DeletionOverdue) -> SliceLifecycle:
    """Said once: the cloud is asked on."""
    if lifecycle.state is not SliceState.DELETING or lifecycle.cause.startswith(OVERDUE):
        return lifecycle
    return _noted(lifecycle, event.at, f"{OVERDUE}: the cloud is asked on", cause=f"{OVERDUE}: {lifecycle.cause}")


def _confirmed_gone(lifecycle: SliceLifecycle, event: DeletionConfirmed) -> SliceLifecycle:
    ending = SliceState.TERMINATED if lifecycle.failure is None else SliceState.FAILED
    if ending not in MOVES[lifecycle.state]:
        return lifecycle
    return _moved(lifecycle, ending, event.at, MOVES[lifecycle.state][ending])


def _reported(lifecycle: SliceLifecycle, event: Reported) -> SliceLifecycle:
    return lifecycle.model_copy(update={"reported": min(lifecycle.sequence, max(lifecycle.reported, event.sequence))})


def _leaving(lifecycle: SliceLifecycle, at: datetime, cause: str, why: str) -> SliceLifecycle:
    """Not wanted any more: that no failure stands makes it end TERMINATED."""
    return _moved(lifecycle, SliceState.DELETING, at, why, cause=cause, failure=None, queued=False)


def _failed(lifecycle: SliceLifecycle, at: datetime, failure: Failure) -> SliceLifecycle:
    why = f"{failure.kind}: {failure.message}" if failure.message else str(failure.kind)
    return _moved(lifecycle, SliceState.DELETING, at, why, cause=str(failure.kind), failure=failure, queued=False)


def _moved(lifecycle: SliceLifecycle, state: SliceState, at: datetime, why: str, **changes: Any) -> SliceLifecycle:
    """The lifecycle in another state, if the table allows it."""
    if state not in MOVES[lifecycle.state]:
        return lifecycle
    return _noted(lifecycle.model_copy(update={"state": state}), at, why, since=at, **changes)


def _noted(lifecycle: SliceLifecycle, at: datetime, why: str, **changes: Any) -> SliceLifecycle:
    """The lifecycle with a line more in its timeline, of which the autoscaler is to be told."""
    moves = (*lifecycle.moves, Move(state=lifecycle.state, at=at, why=why))[-KEPT_MOVES:]
    return lifecycle.model_copy(update={"sequence": lifecycle.sequence + 1, "moves": moves, **changes})


_ADVANCE: dict[type, Callable[[SliceLifecycle, Any], SliceLifecycle]] = {
    CreateAnswered: _answered,
    Observed: _seen,
    CommandReceived: _told,
    Overdue: _overdue,
    Cancelled: lambda lifecycle, event: _leaving(lifecycle, event.at, CANCELLED, "its workflow was cancelled"),
    DeletionOverdue: _deletion_overdue,
    DeletionConfirmed: _confirmed_gone,
    Reported: _reported,
}
