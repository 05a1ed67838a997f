"""Derived from the configuration: the spec and initial state of a slice workflow, and the locations in use."""

from datetime import datetime

from penstock.contract.inventories import WatchedLocation
from penstock.contract.slices import DrainCommand, SliceLifecycle, SliceSpec
from penstock.core.slices.lifecycle import CommandReceived, advance
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig, ScaleGroup
from penstock.model.location import Location
from penstock.model.slices import Slice, SliceState

ADOPTED = "adopted"
"""The cause of a slice that an audit found in the cloud."""
UNWANTED = "found in the cloud without a workflow, and not wanted or not usable"
"""Why an adopted resource is deleted at once."""


def initial_lifecycle(state: AutoscalerState, piece: Slice, at: datetime) -> SliceLifecycle | None:
    """The first state of a slice workflow; None for a launch of a group that is no longer configured."""
    assert state.config is not None
    spec = _spec(state.config, piece)
    if spec is None:
        return None
    lifecycle = SliceLifecycle(
        spec=spec,
        state=SliceState.DELETING if piece.state.ended else piece.state,
        since=piece.since or at,
        ordered_at=piece.created_at or piece.since or at,
        created_at=piece.created_at,
        create_accepted=piece.adopted,
        queued=piece.queued,
        hosts=piece.hosts,
        drain=piece.drain if piece.state is SliceState.DRAINING else None,
        notice=piece.notice,
        cause=UNWANTED if piece.adopted and piece.state is SliceState.DELETING else "",
        sequence=piece.sequence,
        reported=piece.sequence,
    )
    if piece.drain is None:
        return lifecycle
    return advance(lifecycle, CommandReceived(at, DrainCommand(slice_id=piece.id, terms=piece.drain)))


def _spec(config: ClusterConfig, piece: Slice) -> SliceSpec | None:
    """From the configuration; for an adopted slice of a group that is not configured, from what the audit found."""
    group = config.group(piece.group)
    if group is not None:
        made = {"source": piece.source, "fingerprint": piece.fingerprint, "replaces": piece.replaces, "home": piece.home}
        return spec_of(config, group, piece.id, piece.cause, location=piece.location).model_copy(update=made)
    if not piece.adopted or piece.location is None:
        return None
    return SliceSpec(
        cluster=config.cluster,
        group=piece.group,
        slice_id=piece.id,
        location=piece.location,
        hosts=max(1, len(piece.hosts)),
        cause=piece.cause,
    )


def spec_of(
    config: ClusterConfig, group: ScaleGroup, slice_id: str, cause: str, *, location: Location | None = None
) -> SliceSpec:
    """A slice of a configured group, as ordered now; `location` is where it is if the group is configured elsewhere."""
    return SliceSpec(
        cluster=config.cluster,
        group=group.name,
        slice_id=slice_id,
        location=location or group.location,
        hosts=group.hosts_per_slice,
        variant=group.device.variant,
        preemptible=group.preemptible,
        queued=group.queued,
        timeouts=group.timeouts,
        cause=cause,
    )


def is_configured(location: Location, config: ClusterConfig | None) -> bool:
    """Whether a group is configured at the location."""
    return config is not None and any(group.location.key == location.key for group in config.groups)


def locations_of(config: ClusterConfig) -> tuple[WatchedLocation, ...]:
    """Every location at which a group is configured, once, by key."""
    found: dict[str, WatchedLocation] = {}
    for group in config.groups:
        watched = WatchedLocation.of(group.location, cluster=config.cluster, rules=config.inventory)
        found.setdefault(watched.key, watched)
    return tuple(found[key] for key in sorted(found))
