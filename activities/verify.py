"""VerifyActivities a cluster: ledger, slice workflows and clouds, compared now."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities.audit import resources_of
from activities.heartbeats import beating
from activities.providers.port import ProviderError
from activities.providers.registry import Providers
from activities.temporal_reads import (
    gather_limited,
    is_running,
    last_state_of,
    lifecycle_of,
    location_of,
    running_slices,
    watched_locations,
)
from penstock.contract import names
from penstock.contract.answers import Difference, Verdict
from penstock.contract.error_codes import ErrorCode
from penstock.contract.inventories import WatchedLocation
from penstock.contract.requests import VerifyRequest
from penstock.contract.slices import SliceLifecycle
from penstock.core.slices.audit import Claim, Resource, differences, settled
from penstock.core.slices.lifecycle import spec_location_key
from penstock.core.state.specs import group_location_key, locations_of
from penstock.core.state.state import AutoscalerState
from penstock.model.slices import ENDED

LEAST_SECONDS, MOST_SECONDS = 2.0, 10.0
"""Between the two looks at what seems to differ: time for a report that is on its way."""


class Look(NamedTuple):
    """One reading of everything."""

    state: AutoscalerState
    workflows: dict[str, Claim]
    resources: tuple[Resource, ...]
    locations: tuple[WatchedLocation, ...]
    unlisted: tuple[str, ...]

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What the reading do not agree on at this moment."""
        assert self.state.config is not None
        return differences(
            self.state.slices,
            starting=self.state.starting,
            workflows=self.workflows,
            resources=self.resources,
            locations={group.name: group_location_key(group) for group in self.state.config.groups},
            unlisted=self.unlisted,
        )


class VerifyActivities:
    """The activity behind `penstock verify`."""

    def __init__(self, client: Client, providers: Providers) -> None:
        self._client = client
        self._providers = providers

    @activity.defn(name=names.VERIFY_CLUSTER)
    async def verify_cluster(self, request: VerifyRequest) -> Verdict:
        """Compare, and compare again what differs: what was only in motion is no difference."""
        async with beating():
            look = await self._look(request.cluster)
            found = look.differences
            if found or look.unlisted:
                assert look.state.config is not None
                await asyncio.sleep(min(MOST_SECONDS, max(LEAST_SECONDS, look.state.config.inventory.look_seconds)))
                look = await self._look(request.cluster)
                found = settled(found, look.differences)
        return Verdict(
            cluster=request.cluster,
            at=datetime.now(UTC),
            slices=len(look.state.slices),
            resources=len(look.resources),
            workflows=len(look.workflows),
            locations=len(look.locations),
            differences=found,
            unlisted=look.unlisted,
        )

    async def _look(self, cluster: str) -> Look:
        """The ledger is read first and the cloud last, so that what is on its way is seen in the order in which it moves."""
        state = await self._state(cluster)
        running = await running_slices(self._client, cluster)
        suspects = {piece.id: piece.group for piece in state.slices if piece.id not in running}
        checked = await gather_limited(sorted(suspects.items()), lambda item: self._runs(cluster, *item))
        known = running | {slice_id: suspects[slice_id] for slice_id, runs in checked if runs}
        lifecycles = await gather_limited(
            sorted(known.items()), lambda item: lifecycle_of(self._client, cluster, item[1], item[0])
        )
        going = [lifecycle for lifecycle in lifecycles if lifecycle is not None and lifecycle.state not in ENDED]
        locations = _locations(state, going, await watched_locations(self._client, cluster))
        listed = await gather_limited(locations, self._listed)
        return Look(
            state=state,
            workflows={lifecycle.spec.slice_id: _claim(lifecycle) for lifecycle in going},
            resources=tuple(resource for resources, _ in listed for resource in resources),
            locations=locations,
            unlisted=tuple(location.key for location, (_, complete) in zip(locations, listed, strict=True) if not complete),
        )

    async def _state(self, cluster: str) -> AutoscalerState:
        """What the autoscaler holds; one that is closed holds nothing any more, but knows where to look."""
        state = await last_state_of(self._client, cluster)
        if state is None or state.config is None:
            raise ApplicationError(f"there is no cluster {cluster}", type=ErrorCode.NO_SUCH_CLUSTER, non_retryable=True)
        if await is_running(self._client, names.autoscaler_id(cluster)):
            return state
        return state.model_copy(update={"slices": (), "starting": ()})

    async def _runs(self, cluster: str, slice_id: str, group: str) -> tuple[str, bool]:
        return slice_id, await is_running(self._client, names.slice_workflow_id(cluster, group, slice_id))

    async def _listed(self, location: WatchedLocation) -> tuple[tuple[Resource, ...], bool]:
        try:
            provider = await self._providers.of(location.provider, location.settings)
            listing = await provider.list(location.name, cluster=location.cluster)
        except ProviderError as error:
            activity.logger.warning("%s could not be listed: %s", location.key, error)
            return (), False
        return resources_of(location, listing), listing.complete


def _locations(
    state: AutoscalerState, lifecycles: Iterable[SliceLifecycle], watched: Iterable[WatchedLocation]
) -> tuple[WatchedLocation, ...]:
    """Where the configuration may have slices, where slices of groups are that it does not have any more, or may be left."""
    assert state.config is not None
    locations = {location.key: location for location in watched}
    locations |= {spec_location_key(lifecycle.spec): location_of(lifecycle.spec) for lifecycle in lifecycles}
    locations |= {location.key: location for location in locations_of(state.config)}
    return tuple(locations[key] for key in sorted(locations))


def _claim(lifecycle: SliceLifecycle) -> Claim:
    return Claim(group=lifecycle.spec.group, state=lifecycle.state, location=spec_location_key(lifecycle.spec))
