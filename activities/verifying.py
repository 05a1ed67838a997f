"""Verifying a cluster: ledger, slice workflows and clouds, compared now."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities.auditing import resources_of
from activities.books import each, is_running, last_state_of, life_of, place_of, running_slices, watched_places
from activities.heartbeats import beating
from activities.providers.port import ProviderError
from activities.providers.registry import Providers
from penstock.contract import names
from penstock.contract.answers import Difference, Verdict
from penstock.contract.lives import Place, SliceLife
from penstock.contract.requests import VerifyRequest
from penstock.core.comparison import Claim, Resource, differences, settled
from penstock.core.lifecycle import spec_place
from penstock.core.specs import group_place, places_of
from penstock.core.state import AutoscalerState
from penstock.model.slices import ENDED

LEAST_SECONDS, MOST_SECONDS = 2.0, 10.0
"""Between the two looks at what seems to differ: time for a report that is on its way."""


class Look(NamedTuple):
    """One reading of everything."""

    state: AutoscalerState
    workflows: dict[str, Claim]
    resources: tuple[Resource, ...]
    places: tuple[Place, ...]
    unlisted: tuple[str, ...]

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What the books do not agree on at this moment."""
        assert self.state.config is not None
        return differences(
            self.state.slices,
            starting=self.state.starting,
            workflows=self.workflows,
            resources=self.resources,
            places={group.name: group_place(group) for group in self.state.config.groups},
            unlisted=self.unlisted,
        )


class Verifying:
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
            locations=len(look.places),
            differences=found,
            unlisted=look.unlisted,
        )

    async def _look(self, cluster: str) -> Look:
        """The ledger is read first and the cloud last, so that what is on its way is seen in the order in which it moves."""
        state = await self._state(cluster)
        running = await running_slices(self._client, cluster)
        suspects = {piece.id: piece.group for piece in state.slices if piece.id not in running}
        checked = await each(sorted(suspects.items()), lambda item: self._runs(cluster, *item))
        known = running | {slice_id: suspects[slice_id] for slice_id, runs in checked if runs}
        lives = await each(sorted(known.items()), lambda item: life_of(self._client, cluster, item[1], item[0]))
        going = [life for life in lives if life is not None and life.state not in ENDED]
        places = _places(state, going, await watched_places(self._client, cluster))
        listed = await each(places, self._listed)
        return Look(
            state=state,
            workflows={life.spec.slice_id: _claim(life) for life in going},
            resources=tuple(resource for resources, _ in listed for resource in resources),
            places=places,
            unlisted=tuple(place.key for place, (_, complete) in zip(places, listed, strict=True) if not complete),
        )

    async def _state(self, cluster: str) -> AutoscalerState:
        """What the autoscaler holds; one that is closed holds nothing any more, but knows where to look."""
        state = await last_state_of(self._client, cluster)
        if state is None or state.config is None:
            raise ApplicationError(f"there is no cluster {cluster}", type="NoSuchCluster", non_retryable=True)
        if await is_running(self._client, names.autoscaler_id(cluster)):
            return state
        return state.model_copy(update={"slices": (), "starting": ()})

    async def _runs(self, cluster: str, slice_id: str, group: str) -> tuple[str, bool]:
        return slice_id, await is_running(self._client, names.slice_workflow_id(cluster, group, slice_id))

    async def _listed(self, place: Place) -> tuple[tuple[Resource, ...], bool]:
        try:
            provider = await self._providers.of(place.provider, place.settings)
            listing = await provider.list(place.location, cluster=place.cluster)
        except ProviderError as error:
            activity.logger.warning("%s could not be listed: %s", place.key, error)
            return (), False
        return resources_of(place, listing), listing.complete


def _places(state: AutoscalerState, lives: Iterable[SliceLife], watched: Iterable[Place]) -> tuple[Place, ...]:
    """Where the configuration may have slices, where slices of groups are that it does not have any more, or may be left."""
    assert state.config is not None
    places = {place.key: place for place in watched}
    places |= {spec_place(life.spec): place_of(life.spec) for life in lives}
    places |= {place.key: place for place in places_of(state.config)}
    return tuple(places[key] for key in sorted(places))


def _claim(life: SliceLife) -> Claim:
    return Claim(group=life.spec.group, state=life.state, place=spec_place(life.spec))
