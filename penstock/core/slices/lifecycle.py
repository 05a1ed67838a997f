"""The state machine of a slice: a table of transitions, and `advance`, the only function that changes the state."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from pydantic import TypeAdapter

from penstock.contract.slices import (
    CancelDrainCommand,
    ConfirmEmptyCommand,
    CreateResult,
    DeleteCommand,
    DrainCommand,
    DrainEnding,
    EndedDrain,
    IdleCommand,
    SliceCommand,
    SliceLifecycle,
    SliceReport,
    Transition,
)
from penstock.model.failures import Failure, FailureKind, Notice, Phase
from penstock.model.sightings import Sighting
from penstock.model.slices import DrainCause, DrainTerms, SliceState
from penstock.model.units import format_seconds

KEPT_TRANSITIONS = 40
"""Lines of a timeline that are kept: they fit on a screen."""
CANCELLED = "cancelled"
"""The cause of a slice whose workflow was cancelled."""
OVERDUE = "deletion overdue"
"""Precedes the cause of a slice that the cloud does not delete in time."""

TRANSITIONS: Mapping[SliceState, Mapping[SliceState, str]] = {
    SliceState.REQUESTING: {
        SliceState.BOOTING: "the cloud shows it",
        SliceState.DELETING: "refused, overdue, lost, or no longer wanted",
    },
    SliceState.BOOTING: {
        SliceState.INITIALIZING: "every host has an address",
        SliceState.DELETING: "overdue, lost, or no longer wanted",
    },
    SliceState.INITIALIZING: {
        SliceState.READY: "every host answers its health check with this slice's id",
        SliceState.DELETING: "overdue, lost, or no longer wanted",
    },
    SliceState.READY: {
        SliceState.DRAINING: "drain ordered",
        SliceState.DELETING: "lost, or deletion ordered",
    },
    SliceState.DRAINING: {
        SliceState.READY: "drain cancelled, or not empty at the deadline",
        SliceState.DELETING: "empty, forced at the deadline, lost, or deletion ordered",
    },
    SliceState.DELETING: {
        SliceState.TERMINATED: "the cloud confirms that it is gone",
        SliceState.FAILED: "the cloud confirms that it is gone, after a failure",
    },
    SliceState.TERMINATED: {},
    SliceState.FAILED: {},
}
"""From each state: the states that a slice may move to, and why. No other move exists."""

_COMMAND: TypeAdapter[SliceCommand] = TypeAdapter(SliceCommand)
"""Built once here, because the workflow sandbox imports workflow modules anew for every workflow."""
_STARTUP_STATES = tuple(state for state in SliceState if state.serves)
"""The states of a slice that starts, in order."""


class CreateAnswered(NamedTuple):
    """The cloud answered a create call."""

    at: datetime
    result: CreateResult


class Observed(NamedTuple):
    """The slice's cloud resource was observed."""

    at: datetime
    sighting: Sighting


class CommandReceived(NamedTuple):
    """A command of the autoscaler arrived."""

    at: datetime
    command: SliceCommand


class Overdue(NamedTuple):
    """The deadline of a state passed, and one more observation did not change the state."""

    at: datetime
    state: SliceState


class Cancelled(NamedTuple):
    """The workflow of the slice was cancelled."""

    at: datetime


class DeletionOverdue(NamedTuple):
    """The slice still exists long after its deletion was requested."""

    at: datetime


class DeletionConfirmed(NamedTuple):
    """A delete call found that the resource does not exist."""

    at: datetime


class Reported(NamedTuple):
    """The autoscaler received every change up to `sequence`."""

    at: datetime
    sequence: int


LifecycleEvent: TypeAlias = (
    CreateAnswered | Observed | CommandReceived | Overdue | Cancelled | DeletionOverdue | DeletionConfirmed | Reported
)
"""The events of a slice."""


def advance(lifecycle: SliceLifecycle, event: LifecycleEvent) -> SliceLifecycle:
    """The lifecycle after the event. Never fails: an event that is late or does not fit changes nothing."""
    return _ADVANCE[type(event)](lifecycle, event)


def deadline_seconds(lifecycle: SliceLifecycle) -> float | None:
    """How long a slice may stay in its current state; None without a limit."""
    timeouts = lifecycle.spec.timeouts
    if lifecycle.state is SliceState.REQUESTING and lifecycle.queued:
        return None
    match lifecycle.state:
        case SliceState.REQUESTING:
            return timeouts.requesting_seconds
        case SliceState.BOOTING:
            return timeouts.boot_seconds
        case SliceState.INITIALIZING:
            return timeouts.init_seconds
        case SliceState.DRAINING:
            return _seconds_left(lifecycle)
        case SliceState.READY | SliceState.DELETING | SliceState.TERMINATED | SliceState.FAILED:
            return None


def _seconds_left(lifecycle: SliceLifecycle) -> float:
    """How long a slice may drain: until the deadline of its drain."""
    if lifecycle.drain is None or lifecycle.drain.deadline is None:
        return lifecycle.spec.timeouts.drain_seconds
    return max(0.0, (lifecycle.drain.deadline - lifecycle.since).total_seconds())


def report_of(lifecycle: SliceLifecycle) -> SliceReport:
    """The report of the slice to its autoscaler."""
    return SliceReport(
        slice_id=lifecycle.spec.slice_id,
        group=lifecycle.spec.group,
        state=lifecycle.state,
        since=lifecycle.since,
        ordered_at=lifecycle.ordered_at,
        created_at=lifecycle.created_at,
        sequence=lifecycle.sequence,
        queued=lifecycle.queued,
        cause=lifecycle.cause,
        drain=lifecycle.drain if lifecycle.state is SliceState.DRAINING else None,
        ended_drain=lifecycle.ended_drain,
        launched_for=lifecycle.spec.cause,
        source=lifecycle.spec.source,
        fingerprint=lifecycle.spec.fingerprint,
        replaces=lifecycle.spec.replaces,
        home=lifecycle.spec.home,
        location=lifecycle.spec.location.identity,
        hosts=lifecycle.hosts,
        failure=lifecycle.failure,
        notice=lifecycle.notice,
    )


def parse_command(raw: Any) -> SliceCommand:
    """Parse the payload of the signal `command`; raises `ValidationError`."""
    return _COMMAND.validate_python(raw)


def _answered(lifecycle: SliceLifecycle, event: CreateAnswered) -> SliceLifecycle:
    """A rate limit is recorded as the failure until the repeated create call is answered; any other refusal ends the slice."""
    outcome, failure = event.result.outcome, event.result.failure
    if outcome == "refused":
        if lifecycle.state is not SliceState.REQUESTING or failure is None:
            return lifecycle
        if failure.kind is FailureKind.RATE_LIMIT:
            return _with_line(lifecycle, event.at, f"{failure.kind}: {failure.message}", failure=failure)
        return _failed(lifecycle, event.at, failure)
    if lifecycle.state.ended or lifecycle.create_accepted:
        return lifecycle
    if lifecycle.state is not SliceState.REQUESTING:
        return lifecycle.model_copy(update={"create_accepted": True})
    taken = lifecycle.model_copy(update={"create_accepted": True, "failure": None})
    return _in_queue(taken, event.at, queued=True) if outcome == "queued" else taken


def _observed(lifecycle: SliceLifecycle, event: Observed) -> SliceLifecycle:
    sighting = event.sighting
    if not lifecycle.state.live:
        return lifecycle
    loss = _loss(lifecycle, sighting)
    if loss is not None:
        return _failed(lifecycle, event.at, loss)
    lifecycle = _with_notice(lifecycle, event.at, sighting.notice)
    if sighting.phase in (Phase.QUEUED, Phase.CREATING):
        return _in_queue(lifecycle, event.at, queued=sighting.phase is Phase.QUEUED)
    lifecycle = _with_addresses(lifecycle, event.at, sighting)
    return _up_to(lifecycle, event.at, _reached(sighting, hosts=lifecycle.spec.hosts))


def _with_addresses(lifecycle: SliceLifecycle, at: datetime, sighting: Sighting) -> SliceLifecycle:
    """The lifecycle with its hosts' addresses. Only a later change of addresses adds a line to the timeline."""
    if not sighting.addressed or sighting.addresses == lifecycle.hosts:
        return lifecycle
    if not lifecycle.state.has_hosts:
        return lifecycle.model_copy(update={"hosts": sighting.addresses})
    why = "addresses of hosts changed" if lifecycle.hosts else "addresses of hosts known"
    return _with_line(lifecycle, at, why, hosts=sighting.addresses)


def _with_notice(lifecycle: SliceLifecycle, at: datetime, notice: Notice | None) -> SliceLifecycle:
    """The lifecycle with what the cloud announces now, and a line if that is new, has moved, or was taken back."""
    if notice == lifecycle.notice:
        return lifecycle
    if notice is not None:
        return _with_line(lifecycle, at, f"the cloud announces {notice.kind.noun} at {_utc(notice.until)}", notice=notice)
    assert lifecycle.notice is not None
    return _with_line(lifecycle, at, f"the cloud no longer announces {lifecycle.notice.kind.noun}", notice=None)


def _utc(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"


def _loss(lifecycle: SliceLifecycle, sighting: Sighting) -> Failure | None:
    """The failure, if the sighting shows that the slice is lost. A slice that the cloud never confirmed cannot be missing."""
    match sighting.phase:
        case Phase.PREEMPTED:
            return sighting.failure or Failure(kind=FailureKind.PREEMPTED, message="the cloud took it back")
        case Phase.FAILED:
            return sighting.failure or Failure(kind=FailureKind.GONE, message="the cloud failed it without giving a reason")
        case Phase.GONE if lifecycle.create_accepted:
            return sighting.failure or Failure(kind=FailureKind.GONE, message="the cloud no longer has it")
    if sighting.lost_hosts and lifecycle.state.has_hosts:
        hosts = ", ".join(map(str, sighting.lost_hosts))
        return sighting.failure or Failure(
            kind=FailureKind.HOST_LOST, message=f"no answer from host {hosts} of {lifecycle.spec.hosts}"
        )
    return None


def _in_queue(lifecycle: SliceLifecycle, at: datetime, *, queued: bool) -> SliceLifecycle:
    """Enter or leave the cloud's queue. Time in the queue does not count towards the deadline of the state."""
    if lifecycle.state is not SliceState.REQUESTING or lifecycle.queued is queued:
        return lifecycle
    if queued:
        return _with_line(lifecycle, at, "waits in the cloud's queue", queued=True)
    return _with_line(lifecycle, at, "left the cloud's queue", queued=False, since=at)


def _reached(sighting: Sighting, *, hosts: int) -> SliceState | None:
    """The state that the sighting implies. A slice with too few or too many hosts is not complete, however healthy they are."""
    if sighting.phase is Phase.BOOTING:
        return SliceState.BOOTING
    if sighting.phase is not Phase.RUNNING:
        return None
    if not sighting.addressed or len(sighting.hosts) != hosts:
        return SliceState.BOOTING
    return SliceState.READY if sighting.healthy else SliceState.INITIALIZING


def _up_to(lifecycle: SliceLifecycle, at: datetime, goal: SliceState | None) -> SliceLifecycle:
    """The lifecycle moved forward to the goal, one state at a time; unchanged if it is already there or further."""
    if goal is None or not lifecycle.state.in_flight:
        return lifecycle
    for state in _STARTUP_STATES[_STARTUP_STATES.index(lifecycle.state) + 1 : _STARTUP_STATES.index(goal) + 1]:
        created_at: datetime = lifecycle.created_at or at
        lifecycle = _moved(
            lifecycle,
            state,
            at,
            TRANSITIONS[lifecycle.state][state],
            create_accepted=True,
            queued=False,
            failure=None,
            created_at=created_at,
        )
    return lifecycle


def _commanded(lifecycle: SliceLifecycle, event: CommandReceived) -> SliceLifecycle:
    match event.command:
        case DrainCommand(terms=terms):
            return _drained(lifecycle, event.at, terms)
        case CancelDrainCommand(number=number):
            return _drain_cancelled(lifecycle, event.at, number)
        case ConfirmEmptyCommand(number=number) if _is_about_its_drain(lifecycle, number):
            return _leaving(lifecycle, event.at, lifecycle.cause, f"empty; {lifecycle.cause}")
        case IdleCommand(idle=idle, number=number) if _is_about_its_drain(lifecycle, number):
            return lifecycle.model_copy(update={"idle": idle})
        case DeleteCommand(cause=cause):
            return _leaving(lifecycle, event.at, cause, cause)
    return lifecycle


def _drained(lifecycle: SliceLifecycle, at: datetime, terms: DrainTerms) -> SliceLifecycle:
    """Start a drain. A slice that was never READY is empty, so it is deleted. A newer drain replaces one in progress.

    A slice that was called off on its way, and is READY before it hears so, serves: the ledger drops that drain, too.
    """
    if lifecycle.state.in_flight:
        return _leaving(lifecycle.model_copy(update={"drain": terms}), at, terms.cause, terms.cause)
    if 0 < terms.number <= _last_ended(lifecycle) and lifecycle.state.was_ready:
        return _with_line(lifecycle, at, f"drain {terms.number} is over already")
    changes = {"drain": terms, "cause": terms.cause, "idle": False}
    if lifecycle.state is SliceState.READY and terms.cause != DrainCause.NOT_NEEDED:
        return _moved(lifecycle, SliceState.DRAINING, at, terms.cause, **changes)
    if lifecycle.state is SliceState.DRAINING and _replaces(terms, lifecycle.drain):
        return _with_line(lifecycle, at, terms.cause, since=at, **changes)
    return lifecycle


def _replaces(terms: DrainTerms, current: DrainTerms | None) -> bool:
    """Whether a drain replaces the current one: it is newer, or forced; and a forced one stays forced."""
    return current is None or (terms.force, terms.number) > (current.force, current.number)


def _last_ended(lifecycle: SliceLifecycle) -> int:
    return 0 if lifecycle.ended_drain is None else lifecycle.ended_drain.number


def _is_about_its_drain(lifecycle: SliceLifecycle, number: int | None) -> bool:
    """Whether a command is about the drain under way, or a newer one whose order has not arrived yet."""
    if lifecycle.state is not SliceState.DRAINING:
        return False
    return number is None or lifecycle.drain is None or lifecycle.drain.number <= number


def _drain_cancelled(lifecycle: SliceLifecycle, at: datetime, number: int | None) -> SliceLifecycle:
    """End the drain. One whose order has not arrived yet is over before it begins."""
    if _is_about_its_drain(lifecycle, number):
        return _return_to_ready(lifecycle, at, "drain cancelled", DrainEnding.CANCELLED, number)
    if lifecycle.state is SliceState.READY and number is not None and number > _last_ended(lifecycle):
        ended = EndedDrain(number=number, how=DrainEnding.CANCELLED)
        return _with_line(lifecycle, at, f"drain {number} cancelled before it began", since=at, ended_drain=ended)
    return lifecycle


def _return_to_ready(
    lifecycle: SliceLifecycle, at: datetime, why: str, how: DrainEnding, number: int | None = None
) -> SliceLifecycle:
    last = max(number or 0, 0 if lifecycle.drain is None else lifecycle.drain.number)
    ended = EndedDrain(number=last, how=how)
    return _moved(lifecycle, SliceState.READY, at, why, drain=None, cause="", ended_drain=ended)


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
        why = _forced(lifecycle.drain, allowed)
        return _leaving(lifecycle, event.at, lifecycle.cause, f"{why}; {lifecycle.cause}")
    if lifecycle.idle and not (lifecycle.drain is not None and lifecycle.drain.needs_confirmation):
        return _leaving(
            lifecycle, event.at, lifecycle.cause, f"idle, and not confirmed empty within {allowed}; {lifecycle.cause}"
        )
    return _return_to_ready(lifecycle, event.at, f"not empty within {allowed}", DrainEnding.EXPIRED)


def _forced(drain: DrainTerms, allowed: str) -> str:
    """Why a slice is deleted with work on it."""
    if drain.known_cause is DrainCause.NOTICE and drain.deadline is not None:
        return f"not empty by {_utc(drain.deadline)}"
    return f"not empty within {allowed}, forced"


def _timeout(kind: FailureKind, what: str, allowed: str) -> Failure:
    return Failure(kind=kind, message=f"{what} within {allowed}")


def _deletion_overdue(lifecycle: SliceLifecycle, event: DeletionOverdue) -> SliceLifecycle:
    """Noted once; the delete call is still repeated."""
    if lifecycle.state is not SliceState.DELETING or lifecycle.deletion_overdue:
        return lifecycle
    cause = f"{OVERDUE}: {lifecycle.cause}"
    return _with_line(lifecycle, event.at, f"{OVERDUE}; the delete call is repeated", cause=cause, deletion_overdue=True)


def _confirmed_gone(lifecycle: SliceLifecycle, event: DeletionConfirmed) -> SliceLifecycle:
    ending = SliceState.TERMINATED if lifecycle.failure is None else SliceState.FAILED
    if ending not in TRANSITIONS[lifecycle.state]:
        return lifecycle
    return _moved(lifecycle, ending, event.at, TRANSITIONS[lifecycle.state][ending], notice=None)


def _reported(lifecycle: SliceLifecycle, event: Reported) -> SliceLifecycle:
    return lifecycle.model_copy(update={"reported": min(lifecycle.sequence, max(lifecycle.reported, event.sequence))})


def _leaving(lifecycle: SliceLifecycle, at: datetime, cause: str, why: str) -> SliceLifecycle:
    """Delete a slice that is no longer wanted. Without a failure it ends TERMINATED."""
    return _moved(lifecycle, SliceState.DELETING, at, why, cause=cause, failure=None, queued=False)


def _failed(lifecycle: SliceLifecycle, at: datetime, failure: Failure) -> SliceLifecycle:
    why = f"{failure.kind}: {failure.message}" if failure.message else str(failure.kind)
    return _moved(lifecycle, SliceState.DELETING, at, why, cause=str(failure.kind), failure=failure, queued=False)


def _moved(lifecycle: SliceLifecycle, state: SliceState, at: datetime, why: str, **changes: Any) -> SliceLifecycle:
    """The lifecycle in another state, if the table of transitions allows it."""
    if state not in TRANSITIONS[lifecycle.state]:
        return lifecycle
    return _with_line(lifecycle.model_copy(update={"state": state}), at, why, since=at, **changes)


def _with_line(lifecycle: SliceLifecycle, at: datetime, why: str, **changes: Any) -> SliceLifecycle:
    """The lifecycle with one more line in its timeline, which the autoscaler is to receive."""
    transitions = (*lifecycle.transitions, Transition(state=lifecycle.state, at=at, why=why))[-KEPT_TRANSITIONS:]
    return lifecycle.model_copy(update={"sequence": lifecycle.sequence + 1, "transitions": transitions, **changes})


_ADVANCE: dict[type, Callable[[SliceLifecycle, Any], SliceLifecycle]] = {
    CreateAnswered: _answered,
    Observed: _observed,
    CommandReceived: _commanded,
    Overdue: _overdue,
    Cancelled: lambda lifecycle, event: _leaving(lifecycle, event.at, CANCELLED, "its workflow was cancelled"),
    DeletionOverdue: _deletion_overdue,
    DeletionConfirmed: _confirmed_gone,
    Reported: _reported,
}
