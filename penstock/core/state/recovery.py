"""Event handlers of audits and recoveries: adopt orphans, remove missing slices, end a recovery."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from penstock.core.state import drains
from penstock.core.state.blocks import after_failed_listing, after_listing
from penstock.core.state.events import LocationReported, LocationsUnwatched, RecoveryBegan, RecoveryWaited, ReportsCollected
from penstock.core.state.pressure import lost
from penstock.core.state.sources import to_be_resynced
from penstock.core.state.specs import ADOPTED, locations_of
from penstock.core.state.state import AutoscalerState, Changes, Recovery, forget, kept_addresses
from penstock.core.state.unlisted import after_report, after_start
from penstock.model.cluster import ClusterConfig
from penstock.model.failures import Phase
from penstock.model.location import Location
from penstock.model.sightings import HostAddress, Sighting
from penstock.model.slices import Slice, SliceChanges, SliceState


def location_reported(state: AutoscalerState, event: LocationReported) -> Changes:
    """Reconcile the ledger with one location."""
    changes = _progress(state, event) | _blocks_after(state, event)
    reconciled = _reconciled(state, event)
    problems = after_report(state, event)
    unblocked = [block.health for block in changes.get("blocks", state.blocks)] != [block.health for block in state.blocks]
    progressed = "recovery" in changes and (changes["recovery"] is None or changes["recovery"].goes_on)
    matters = bool(reconciled) or unblocked or progressed or problems.keys() != state.location_problems.keys()
    return {**changes, **reconciled, "location_problems": problems, "matters": matters}


def locations_unwatched(state: AutoscalerState, event: LocationsUnwatched) -> Changes:
    """Remember which locations have no inventory."""
    problems = after_start(state, event)
    return {"location_problems": problems, "matters": problems.keys() != state.location_problems.keys()}


def _progress(state: AutoscalerState, event: LocationReported) -> Changes:
    """The recovery, once the location that it awaits has given a complete listing."""
    recovery, report = state.recovery, event.report
    if recovery is None or not report.complete or report.asked != recovery.id:
        return {}
    left = tuple(key for key in recovery.waiting if key != report.location.key)
    return _recovering(state, recovery.model_copy(update={"waiting": left}))


def _blocks_after(state: AutoscalerState, event: LocationReported) -> Changes:
    """The blocks, now that the location was listed or could not be."""
    config, report = state.config, event.report
    groups = config.groups_at(report.location.key) if config else ()
    if report.problem is not None:
        return {}
    if report.failure is None or config is None:
        return {"blocks": after_listing(state.blocks, groups)} if state.blocks else {}
    return {"blocks": after_failed_listing(state.blocks, report.failure, groups, at=event.at, backoff=config.backoff)}


def _reconciled(state: AutoscalerState, event: LocationReported) -> Changes:
    """The ledger without missing slices and with adopted ones. A slice that is about to be started is neither."""
    report = event.report
    starting = {piece.id for piece in state.unstarted}
    missing = {slice_id for slice_id in report.missing if slice_id in state.by_id and slice_id not in starting}
    found = [one for one in report.orphans if one.slice_id not in starting and _is_wanted(state, one, event.at)]
    if not missing and not found:
        return {}
    changes = forget(state, missing)
    ledger = {piece.id: piece for piece in changes["slices"]}
    held = sum(len(piece.hosts) for piece in changes["slices"])
    for sighting in found:
        hosts = kept_addresses(sighting.addresses, held)
        held += len(hosts)
        ledger[sighting.slice_id] = _adopted(state, sighting, report.location, event.at, hosts=hosts)
    return changes | {"slices": tuple(ledger.values()), "verified": False}


def _is_wanted(state: AutoscalerState, sighting: Sighting, at: datetime) -> bool:
    """Whether to adopt an orphan now, to use or delete it. One of a group that is not configured gets `orphan_grace` first."""
    config = state.config
    if config is None or _state_at(sighting.phase) is None:
        return False
    if config.group(sighting.group) is not None and not state.closing:
        return True
    if (state.recovery is not None and state.recovery.closing) or sighting.slice_id in state.by_id:
        return True
    grace = timedelta(seconds=config.inventory.orphan_grace_seconds)
    return sighting.created_at is None or sighting.created_at + grace <= at


def _adopted(
    state: AutoscalerState, sighting: Sighting, location: Location, at: datetime, *, hosts: tuple[HostAddress, ...]
) -> Slice:
    """The ledger's entry of an orphan, whose workflow is to be started."""
    assert state.config is not None
    group = state.config.group(sighting.group)
    found: SliceChanges = {
        "cause": ADOPTED,
        "started": False,
        "adopted": True,
        "created_at": sighting.created_at,
        "location": None if group is not None and group.location.key == location.key else location,
        "hosts": hosts,
        "notice": sighting.notice,
    }
    known = state.by_id.get(sighting.slice_id)
    if known is not None:
        return known.changed(**found)
    unwanted = group is None or state.closing
    orphan = Slice(
        id=sighting.slice_id,
        group=sighting.group,
        state=SliceState.DELETING if unwanted else _state_at(sighting.phase) or SliceState.DELETING,
        since=at,
        queued=sighting.phase is Phase.QUEUED,
    )
    return orphan.changed(**found)


def _state_at(phase: Phase) -> SliceState | None:
    """The state in which the lifecycle of an adopted slice goes on; None if the resource is going away by itself."""
    match phase:
        case Phase.QUEUED | Phase.CREATING:
            return SliceState.REQUESTING
        case Phase.BOOTING:
            return SliceState.BOOTING
        case Phase.RUNNING:
            return SliceState.INITIALIZING
        case Phase.PREEMPTED | Phase.FAILED:
            return SliceState.DELETING
        case Phase.DELETING | Phase.GONE:
            return None


def without_ledger(state: AutoscalerState) -> AutoscalerState:
    """The state for a new autoscaler after the last one ended: all but the ledger, which a recovery fills again.

    Launches that were decided and not started are decided anew. Usage is kept until the recovery knows the slices.
    """
    return state.model_copy(update={"slices": (), "outbox": (), "recovery": None, "verified": False})


def recovery_began(state: AutoscalerState, event: RecoveryBegan) -> Changes:
    """Nothing is ordered until every slice and every location has reported."""
    waiting = tuple(location.key for location in locations_of(state.config)) if state.config else ()
    recovery = Recovery(id=event.id, reason=event.reason, since=event.at, waiting=waiting, closing=event.closing)
    return {
        "recovery": recovery,
        "recovered_in": event.run_id or state.recovered_in,
        "usage_sources": state.usage_sources if event.closing else to_be_resynced(state, event.reason, event.at),
        "pressure": lost(state.pressure, event.at),
    } | (drains.after_reset(state, event.at) if event.run_id else Changes())


def recovery_after_config(state: AutoscalerState, config: ClusterConfig) -> Changes:
    """A recovery awaits the locations of the new configuration: those it still awaited, and new ones."""
    if state.recovery is None:
        return {}
    before = {location.key for location in locations_of(state.config)} if state.config else set()
    now = [location.key for location in locations_of(config)]
    waiting = tuple(key for key in now if key in state.recovery.waiting or key not in before)
    return _recovering(state, state.recovery.model_copy(update={"waiting": waiting}))


def reports_collected(state: AutoscalerState, event: ReportsCollected) -> Changes:
    """The reports of all running slices that answer are in the ledger."""
    if state.recovery is None or state.recovery.id != event.id:
        return {"matters": False}
    known = {"reports_collected": not event.silent, "silent": event.silent, "asked": True}
    return _recovering(state, state.recovery.model_copy(update=known))


def recovery_waited(state: AutoscalerState, event: RecoveryWaited) -> Changes:
    """The cluster goes on without the locations and slices that have not reported. The check before its end waits for all."""
    recovery = state.recovery
    if recovery is None or recovery.id != event.id or recovery.closing or not recovery.asked:
        return {"matters": False}
    return {"recovery": recovery.model_copy(update={"goes_on": True})}


def _recovering(state: AutoscalerState, recovery: Recovery) -> Changes:
    """Continue the recovery, or end it. At the end of a closing one, the cluster is verified if the ledger is still empty."""
    if not recovery.reports_collected or recovery.waiting:
        return {"recovery": recovery}
    return {"recovery": None, "verified": recovery.closing and not state.slices}


HANDLERS: dict[type, Callable[[AutoscalerState, Any], Changes]] = {
    LocationReported: location_reported,
    LocationsUnwatched: locations_unwatched,
    RecoveryBegan: recovery_began,
    RecoveryWaited: recovery_waited,
    ReportsCollected: reports_collected,
}
