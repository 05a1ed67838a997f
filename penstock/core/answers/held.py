"""Why a cluster orders nothing now: it is being deleted, paused, or recovering its ledger."""

from datetime import datetime

from penstock.core.state.state import AutoscalerState
from penstock.model.units import format_seconds
from penstock.wording import listed

SLICE_WORKFLOWS = "slice workflows"
"""Item of the awaited reports until a recovery has collected those of all slice workflows."""


def held_because(state: AutoscalerState, now: datetime) -> str | None:
    """One sentence for each reason, the strongest first; None if the cluster works normally.

    Every answer about a decision begins with it: what would be launched or drained is not carried out meanwhile.
    """
    reasons = []
    if state.closing:
        reasons.append("The cluster is being deleted: its demand is dropped, and nothing is launched any more.")
    if state.paused is not None:
        reason = f" ({state.paused})" if state.paused else ""
        reasons.append(f"The cluster is paused{reason}: nothing is launched or drained until it is resumed.")
    if state.recovery is not None and not state.recovery.goes_on and not state.closing:
        since = format_seconds(max(0.0, (now - state.recovery.since).total_seconds()))
        waiting = listed(awaited_reports(state))
        reasons.append(
            f"The cluster has been recovering its ledger for {since}: nothing is launched or drained until then, and slices may"
            f" exist that are not known yet{f'; it waits for {waiting}' if waiting else ''}."
        )
    return " ".join(reasons) or None


def awaited_reports(state: AutoscalerState) -> tuple[str, ...]:
    """The slice workflows and locations that a recovery waits for."""
    if state.recovery is None:
        return ()
    silent = () if state.recovery.reports_collected else tuple(state.recovery.silent) or (SLICE_WORKFLOWS,)
    return (*silent, *state.recovery.waiting)
