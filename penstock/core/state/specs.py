"""What a slice workflow needs to begin, and where the cluster's slices can be."""

from collections.abc import Mapping
from datetime import datetime

from pydantic import JsonValue

from penstock.contract.inventories import Orphan, WatchedLocation
from penstock.contract.slices import DrainCommand, SliceLifecycle, SliceSpec
from penstock.core.slices.lifecycle import CommandReceived, advance, spec_location_key
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig, Provider, ScaleGroup
from penstock.model.location import location_key
from penstock.model.slices import SliceState

ADOPTED = "adopted"
"""Why a slice is in the ledger that was found and not ordered."""


def spec_of(config: ClusterConfig, group_name: str, slice_id: str, cause: str) -> SliceSpec:
    """A slice of a configured group, as ordered now."""
    group = config.group(group_name)
    assert group is not None, f"slices are ordered of configured groups only, and {group_name} is not"
    return SliceSpec(
        cluster=config.cluster,
        group=group.name,
        slice_id=slice_id,
        provider=group.provider.kind,
        settings=group.provider.settings,
        location=group.location,
        hosts=group.hosts_per_slice,
        variant=group.device.variant,
        preemptible=group.preemptible,
        queued=group.queued,
        timeouts=group.timeouts,
        cause=cause,
    )


def initial_lifecycle(state: AutoscalerState, slice_id: str, at: datetime) -> SliceLifecycle | None:
    """The first state of a slice workflow; None if the slice is not in the ledger or cannot be described."""
    piece = next((piece for piece in state.slices if piece.id == slice_id), None)
    spec = None if piece is None else _spec(state, piece.group, slice_id)
    if piece is None or spec is None:
        return None
    found = state.adopted.get(slice_id)
    lifecycle = SliceLifecycle(
        spec=spec,
        state=piece.state if piece.state is not SliceState.FAILED else SliceState.DELETING,
        since=piece.since or at,
        ordered_at=(found.created_at if found else None) or piece.since or at,
        born_at=found.created_at if found else None,
        created=found is not None,
        queued=piece.queued,
        drain=state.drains.get(slice_id) if piece.state is SliceState.DRAINING else None,
        cause=NOBODYS if found is not None and piece.state is SliceState.DELETING else "",
        sequence=piece.sequence,
        reported=piece.sequence,
    )
    terms = state.drains.get(slice_id)
    return lifecycle if terms is None else advance(lifecycle, CommandReceived(at, DrainCommand(slice_id=slice_id, terms=terms)))


NOBODYS = "found without an owner, of a group that is not configured"
"""Why a resource is deleted that carries our labels and that nobody wants."""


def _spec(state: AutoscalerState, group: str, slice_id: str) -> SliceSpec | None:
    """From the configuration; for a group that is not there any more, from what was found in the cloud."""
    config, found = state.config, state.adopted.get(slice_id)
    assert config is not None
    cause = ADOPTED if found else state.launch_causes.get(slice_id, "")
    if config.group(group) is not None:
        spec = spec_of(config, group, slice_id, cause)
        return spec if found is None else _where_found(config, spec, found)
    if found is None:
        return None
    return SliceSpec(
        cluster=config.cluster,
        group=group,
        slice_id=slice_id,
        provider=found.provider,
        settings=_settings_there(config, found),
        location=found.location,
        hosts=found.hosts,
        cause=cause,
    )


def _where_found(config: ClusterConfig, spec: SliceSpec, found: Orphan) -> SliceSpec:
    """The spec of a slice that lies where its group no longer is."""
    here = spec_location_key(spec) if found.account else location_key(spec.provider, spec.location)
    if here == location_key(found.account or found.provider, found.location):
        return spec
    return spec.model_copy(
        update={"provider": found.provider, "location": found.location, "settings": _settings_there(config, found)}
    )


def _settings_there(config: ClusterConfig, found: Orphan) -> dict[str, JsonValue]:
    here = [
        location for location in locations_of(config) if (location.provider, location.name) == (found.provider, found.location)
    ]
    theirs = [location for location in here if location.account == found.account] or here
    return found.settings or (theirs[0].settings if theirs else {})


def settings_left_out(found: Mapping[str, Orphan], config: ClusterConfig) -> dict[str, Orphan]:
    """What was found, as it is carried: settings that the configuration has are not said once more for each slice."""
    settings = {location.key: location.settings for location in locations_of(config)}
    return {
        slice_id: one.model_copy(update={"settings": {}}) if settings.get(_key(one)) == one.settings else one
        for slice_id, one in found.items()
    }


def settings_put_back(found: Mapping[str, Orphan], before: ClusterConfig | None, after: ClusterConfig) -> dict[str, Orphan]:
    """The same once the configuration that had them is replaced by one that has not."""
    lost = {location.key: location.settings for location in locations_of(before)} if before else {}
    for location in locations_of(after):
        lost.pop(location.key, None)
    return {
        slice_id: one if one.settings else one.model_copy(update={"settings": lost.get(_key(one), {})})
        for slice_id, one in found.items()
    }


def _key(found: Orphan) -> str:
    return location_key(found.account, found.location)


def group_location_key(group: ScaleGroup) -> str:
    """Where slices of the group are ordered: the key of its `WatchedLocation`."""
    return location_key(group.provider.account, group.location)


def is_configured(location: WatchedLocation, config: ClusterConfig | None) -> bool:
    """Whether the configuration may have slices there."""
    return config is not None and any(group_location_key(group) == location.key for group in config.groups)


def locations_of(config: ClusterConfig) -> tuple[WatchedLocation, ...]:
    """Every location in which the cluster may have slices, once."""
    found: dict[str, WatchedLocation] = {}
    for group in config.groups:
        provider: Provider = group.provider
        location = WatchedLocation(
            cluster=config.cluster,
            provider=provider.kind,
            account=provider.account,
            settings=provider.settings,
            name=group.location,
            rules=config.inventory,
        )
        found.setdefault(location.key, location)
    return tuple(found[key] for key in sorted(found))
