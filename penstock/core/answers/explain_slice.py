"""`explain_slice`: why a slice is kept and when it goes if nothing changes, or why it is going, as a paragraph and as data."""

from datetime import datetime

from penstock.contract.names import group_named_in
from penstock.contract.slice_answers import DrainStatus, SliceExplanation, SliceOutlook
from penstock.core.answers.explain import WOULD_BE, sentence
from penstock.core.answers.held import held_because
from penstock.core.answers.snapshot import SnapshotWithIds, snapshot_of
from penstock.core.answers.status import drain_status
from penstock.core.decision.decide import decide
from penstock.core.decision.fleet import is_leaving
from penstock.core.decision.keeping import kept_of
from penstock.core.state.state import AutoscalerState
from penstock.model.decision import Decision, Drain, Kept, KeptCode, KeptReason
from penstock.model.slices import Slice, SliceState
from penstock.model.units import format_seconds
from penstock.wording import shortened, with_detail

_QUOTED = 200
"""Characters of an unknown id that are quoted."""
SOONER = "It is deleted as soon as its controller confirms that it is empty"
REPLACED = "A slice to take its place is ordered in the same decision."
"""Said of a slice that leaves before its replacement is READY."""
UNDECIDED = "It came into the ledger after the last evaluation, and is not decided on yet."
"""Said of a slice that the decision does not know."""


def needs_no_decision(state: AutoscalerState, slice_id: str) -> bool:
    """Whether the state alone says what becomes of a slice: it is leaving, or not in the ledger."""
    piece = state.by_id.get(slice_id)
    return piece is None or is_leaving(piece)


def explain_slice(
    state: AutoscalerState,
    slice_id: str,
    *,
    made: tuple[SnapshotWithIds, Decision] | None = None,
    now: datetime | None = None,
) -> SliceExplanation:
    """Why a slice is kept, and when it goes if nothing changes; or why it is going, and what happens at its deadline.

    `made` is the decision on the state, if the caller already has it. Ages count to `now`, the time of asking. While the cluster
    orders nothing, the text says so first.
    """
    now = max(now or state.now, state.now)
    piece = state.by_id.get(slice_id)
    if piece is None:
        return _gone(slice_id)
    found = _leaving(state, piece, now) if is_leaving(piece) else _by_decision(state, piece, made or _decided(state), now)
    held = held_because(state, now)
    if held is None:
        return found
    text = found.text if is_leaving(piece) else f"{WOULD_BE}{found.text}"
    return found.model_copy(update={"held": held, "goes_at": None, "text": f"{held} {text}"})


def _decided(state: AutoscalerState) -> tuple[SnapshotWithIds, Decision]:
    view = snapshot_of(state)
    return view, decide(view.snapshot)


def _gone(slice_id: str) -> SliceExplanation:
    """What is not in the ledger."""
    group = group_named_in(slice_id)
    name = shortened(slice_id, _QUOTED)
    text = f"No slice {name} is in the ledger."
    if group is not None:
        text = f"Slice {name} is not in the ledger: the cloud confirmed that it is gone, or it never was there."
        text += f" If it was, penstock slice {name} shows its history."
    return SliceExplanation(slice_id=slice_id, group=group or "", status=SliceOutlook.GONE, text=text)


def _leaving(state: AutoscalerState, piece: Slice, now: datetime) -> SliceExplanation:
    """A slice that drains, or whose deletion was requested."""
    drain = None if piece.drain is None else drain_status(state, piece, piece.drain)
    why = "" if drain is None else f" ({drain.why}; drain {drain.number})"
    age = _lasting(piece, now)
    if piece.state is SliceState.DRAINING and drain is not None:
        text = f"is going: it has been draining{age}{why}. {_end(piece, drain, now)}"
    elif piece.state is SliceState.READY and drain is not None:
        text = f"is going: its drain is ordered{why}, and it has not begun yet. {_end(piece, drain, now)}"
    elif piece.state.in_flight:
        text = f"is going: it is called off{why} while it is {piece.state}{age}, and is deleted."
    else:
        text = (
            f"is going: it is {piece.state}{age}{why}, and counts against every maximum until the cloud confirms that it is gone."
        )
    goes_at = drain.deadline if drain is not None and drain.force and piece.state.was_ready else None
    return _explanation(piece, SliceOutlook.GOING, text, goes_at=goes_at, drain=drain)


def _end(piece: Slice, drain: DrainStatus, now: datetime) -> str:
    """How a drain ends."""
    if piece.confirmed_empty:
        return "Its controller has confirmed that it is empty, so it is deleted."
    if drain.deadline is None:
        return f"{SOONER}."
    at = f"at its deadline, {_moment(drain.deadline, now)}"
    if drain.force:
        return f"{SOONER}, and {at}, even with work on it."
    cancel = " Whatever needs a slice of its group takes it back." if piece.reclaimable else ""
    if drain.needs_confirmation:
        return f"{SOONER}. Otherwise it returns to READY {at}.{cancel}"
    usage = "has" if drain.idle else "has not"
    back = f"{SOONER}. Otherwise it is deleted {at}, if usage shows it idle since the drain began ({usage} so far); else it"
    return f"{back} returns to READY.{cancel}"


def _by_decision(state: AutoscalerState, piece: Slice, made: tuple[SnapshotWithIds, Decision], now: datetime) -> SliceExplanation:
    view, decision = made
    drain = next((drain for drain in decision.drains if drain.slice_id == piece.id), None)
    kept = next(iter(kept_of(view.snapshot, decision, (piece.id,))), None)
    if kept is not None:
        return _stays(piece, kept, now)
    if drain is None:
        status = SliceOutlook.STARTING if piece.state.in_flight else SliceOutlook.KEPT
        return _explanation(piece, status, f"is {piece.state}{_lasting(piece, now)}. {UNDECIDED}")
    why = with_detail(drain.cause, drain.detail)
    if state.paused is None and state.recovery is None:
        text = f"is going: the decision drains it ({why}).{_by_notice(drain, decision, now)}"
        return _explanation(piece, SliceOutlook.GOING, text, goes_at=drain.deadline)
    reason = _held_back(state, why)
    return _stays(piece, Kept(slice_id=piece.id, group=piece.group, reasons=(reason,)), now)


def _by_notice(drain: Drain, decision: Decision, now: datetime) -> str:
    """What a notice of the cloud means for the work on a slice."""
    if drain.deadline is None:
        return ""
    ordered = any(launch.replaces == drain.slice_id for launch in decision.launches)
    text = f" {SOONER}, and at {_moment(drain.deadline, now)}, even with work on it."
    return f"{text} {REPLACED}" if ordered else text


def _held_back(state: AutoscalerState, why: str) -> KeptReason:
    """Why a drain that is decided is not carried out."""
    if state.paused is not None:
        return KeptReason(code=KeptCode.PAUSED, text=f"it drains ({why}) once the cluster is resumed")
    return KeptReason(code=KeptCode.RECOVERING, text=f"it drains ({why}) once the ledger is recovered")


def _stays(piece: Slice, kept: Kept, now: datetime) -> SliceExplanation:
    """Why a slice is kept, and when it goes if nothing changes."""
    starting = piece.state.in_flight
    why = sentence("; ".join(reason.text for reason in kept.reasons))
    begins = f"is on its way ({piece.state}{_lasting(piece, now)}) and stays" if starting else f"is kept{_ready(piece, now)}"
    goes = "is called off" if starting else "drains"
    if kept.until is not None:
        end = f"If nothing changes, it {goes} at {_moment(kept.until, now)}."
    else:
        end = f"As long as {'this holds' if len(kept.reasons) == 1 else 'any of this holds'}, it stays."
    status = SliceOutlook.STARTING if starting else SliceOutlook.KEPT
    return _explanation(piece, status, f"{begins}: {why} {end}", reasons=kept.reasons, goes_at=kept.until)


def _ready(piece: Slice, now: datetime) -> str:
    return f" ({piece.state}{_lasting(piece, now)})"


def _lasting(piece: Slice, now: datetime) -> str:
    return f" for {format_seconds(max(0.0, (now - piece.since).total_seconds()))}" if piece.since else ""


def _moment(at: datetime, now: datetime) -> str:
    seconds = (at - now).total_seconds()
    return f"{at:%Y-%m-%d %H:%M:%S}Z" + (f" (in {format_seconds(seconds)})" if seconds > 0 else " (now)")


def _explanation(
    piece: Slice,
    status: SliceOutlook,
    text: str,
    *,
    reasons: tuple[KeptReason, ...] = (),
    goes_at: datetime | None = None,
    drain: DrainStatus | None = None,
) -> SliceExplanation:
    named = piece.id if piece.id.startswith(f"{piece.group}-") else f"{piece.id} of {piece.group}"
    return SliceExplanation(
        slice_id=piece.id,
        group=piece.group,
        status=status,
        text=f"Slice {named} {text}",
        reasons=reasons,
        goes_at=goes_at,
        drain=drain,
    )
