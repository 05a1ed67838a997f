"""`penstock verify`: compare ledger, slice workflows and clouds of a cluster now."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities.providers.open_providers import Providers
from activities.providers.port import ProviderError
from activities.temporal_reads import (
    gather_limited,
    is_running,
    last_state_of,
    lifecycle_of,
    running_slices,
    watched_locations,
)
from penstock.contract import names
from penstock.contract.answers import Difference, Verdict
from penstock.contract.error_codes import ErrorCode
from penstock.contract.inventories import WatchedLocation
from penstock.contract.requests import VerifyRequest
from penstock.contract.slices import SliceLifecycle
from penstock.core.slices.audit import differences, settled
from penstock.core.state.specs import locations_of
from penstock.core.state.state import AutoscalerState
from penstock.model.sightings import Sighting

LEAST_SECONDS, MOST_SECONDS = 2.0, 10.0
"""Pause between the two readings of a difference, so that a report in flight can arrive."""


class ClusterComparison(NamedTuple):
    """One reading of ledger, workflows and clouds."""

    state: AutoscalerState
    workflows: dict[str, SliceLifecycle]
    listed: dict[str, tuple[Sighting, ...]]
    """Resources by location key."""
    unlisted: tuple[str, ...]

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The differences at this moment."""
        assert self.state.config is not None
        return differences(
            self.state.slices,
            workflows=self.workflows,
            listed=self.listed,
            locations={group.name: group.location.key for group in self.state.config.groups},
            unlisted=self.unlisted,
        )


class VerifyActivities:
    """The activity behind `penstock verify`."""

    def __init__(self, client: Client, providers: Providers) -> None:
        self._client = client
        self._providers = providers

    @activity.defn(name=names.VERIFY_CLUSTER)
    async def verify_cluster(self, request: VerifyRequest) -> Verdict:
        """Compare, and compare again if something differs: a transition in progress is no difference."""
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
            resources=sum(map(len, look.listed.values())),
            workflows=len(look.workflows),
            locations=len(look.listed),
            differences=found,
            unlisted=look.unlisted,
        )

    async def _look(self, cluster: str) -> ClusterComparison:
        """Read the ledger first and the cloud last: the order in which a launch moves through them."""
        state = await self._state(cluster)
        running = await running_slices(self._client, cluster)
        suspects = {piece.id: piece.group for piece in state.slices if piece.id not in running}
        checked = await gather_limited(sorted(suspects.items()), lambda item: self._runs(cluster, *item))
        known = running | {slice_id: suspects[slice_id] for slice_id, runs in checked if runs}
        lifecycles = await gather_limited(
            sorted(known.items()), lambda item: lifecycle_of(self._client, cluster, item[1], item[0])
        )
        going = [lifecycle for lifecycle in lifecycles if lifecycle is not None and not lifecycle.state.ended]
        locations = _locations(state, going, await watched_locations(self._client, cluster))
        listed = await gather_limited(locations, self._listed)
        return ClusterComparison(
            state=state,
            workflows={lifecycle.spec.slice_id: lifecycle for lifecycle in going},
            listed={location.key: items for location, (items, _) in zip(locations, listed, strict=True)},
            unlisted=tuple(location.key for location, (_, complete) in zip(locations, listed, strict=True) if not complete),
        )

    async def _state(self, cluster: str) -> AutoscalerState:
        """The state of the autoscaler. A closed one has no slices any more, but its configuration names the locations."""
        state = await last_state_of(self._client, cluster)
        if state is None or state.config is None:
            raise ApplicationError(f"there is no cluster {cluster}", type=ErrorCode.NO_SUCH_CLUSTER, non_retryable=True)
        if await is_running(self._client, names.autoscaler_id(cluster)):
            return state
        return state.model_copy(update={"slices": ()})

    async def _runs(self, cluster: str, slice_id: str, group: str) -> tuple[str, bool]:
        return slice_id, await is_running(self._client, names.slice_workflow_id(cluster, group, slice_id))

    async def _listed(self, location: WatchedLocation) -> tuple[tuple[Sighting, ...], bool]:
        try:
            provider = await self._providers.of(location.provider, location.settings)
            listing = await provider.list(location.name, cluster=location.cluster)
        except ProviderError as error:
            activity.logger.warning("%s could not be listed: %s", location.key, error)
            return (), False
        return listing.items, listing.complete


def _locations(
    state: AutoscalerState, lifecycles: Iterable[SliceLifecycle], watched: Iterable[WatchedLocation]
) -> tuple[WatchedLocation, ...]:
    """All locations that may hold slices: configured ones, those of running slices, and those that inventories watch."""
    assert state.config is not None
    locations = {location.key: location for location in watched}
    specs = [lifecycle.spec for lifecycle in lifecycles]
    locations |= {spec.location.key: WatchedLocation.of(spec.location, cluster=spec.cluster) for spec in specs}
    locations |= {location.key: location for location in locations_of(state.config)}
    return tuple(locations[key] for key in sorted(locations))
