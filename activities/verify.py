"""`penstock verify`: compare ledger, slice workflows and clouds of a cluster now."""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities.listings import ask_each
from activities.providers.open_providers import Providers
from activities.providers.port import Listing, ProviderError
from activities.temporal_reads import (
    gather_limited,
    inventory_ids,
    is_running,
    last_state_of,
    lifecycle_of,
    running_slices,
    told_states,
    watched_locations,
)
from penstock.contract import names
from penstock.contract.answers import Difference, Verdict
from penstock.contract.error_codes import ErrorCode
from penstock.contract.inventories import WatchedLocation
from penstock.contract.requests import VerifyRequest
from penstock.contract.slices import SliceLifecycle
from penstock.core.slices.audit import RunningSlice, differences, settled
from penstock.core.state.specs import locations_of
from penstock.core.state.state import AutoscalerState
from penstock.model.sightings import Sighting

LEAST_SECONDS, MOST_SECONDS = 2.0, 10.0
"""Pause between the two readings of a difference, so that a report in flight can arrive."""


class ClusterComparison(NamedTuple):
    """One reading of ledger, workflows and clouds."""

    state: AutoscalerState
    workflows: dict[str, RunningSlice]
    listed: dict[str, tuple[Sighting, ...]]
    """Resources by location key."""
    unlisted: tuple[str, ...]

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The differences at this moment."""
        groups = self.state.config.groups if self.state.config is not None else ()
        return differences(
            self.state.slices,
            workflows=self.workflows,
            listed=self.listed,
            locations={group.name: group.location.key for group in groups},
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
            pause = look.state.config.inventory.look_seconds if look.state.config is not None else LEAST_SECONDS
            await asyncio.sleep(min(MOST_SECONDS, max(LEAST_SECONDS, pause)))
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
        """Read the ledger first and the cloud last: the order in which a launch moves through them.

        One list shows the state of every workflow as it last changed. Only those that the ledger has otherwise are asked: asking
        thousands takes minutes, because the worker must replay those that it does not hold in memory.
        """
        state = await self._state(cluster)
        told = await told_states(self._client, cluster)
        agreed = agreed_slices(state, told)
        suspects = {piece.id: piece.group for piece in state.slices if piece.id not in told}
        checked = await gather_limited(sorted(suspects.items()), lambda item: self._runs(cluster, *item))
        asked = {slice_id: group for slice_id, (group, _) in told.items() if slice_id not in agreed}
        asked |= {slice_id: suspects[slice_id] for slice_id, runs in checked if runs}
        lifecycles = await gather_limited(
            sorted(asked.items()), lambda item: lifecycle_of(self._client, cluster, item[1], item[0])
        )
        going = [lifecycle for lifecycle in lifecycles if lifecycle is not None and not lifecycle.state.ended]
        expected = _locations(state, going, ())
        locations = _locations(state, going, await watched_locations(self._client, cluster, known=expected))
        answers = dict(zip((one.key for one in locations), await ask_each(locations, self._listing), strict=True))
        for key, error in answers.items():
            if isinstance(error, ProviderError):
                activity.logger.warning("%s could not be listed: %s", key, error)
        return ClusterComparison(
            state=state,
            workflows=agreed | {lifecycle.spec.slice_id: RunningSlice.of(lifecycle) for lifecycle in going},
            listed={key: answer.items if isinstance(answer, Listing) else () for key, answer in answers.items()},
            unlisted=tuple(key for key, answer in answers.items() if not isinstance(answer, Listing) or not answer.complete),
        )

    async def _state(self, cluster: str) -> AutoscalerState:
        """The state of the autoscaler. A closed one has no slices any more, but its configuration names the locations.

        If Temporal has forgotten the autoscaler, the slices and inventories that still run name them.
        """
        state = await last_state_of(self._client, cluster)
        if state is None and (await running_slices(self._client, cluster) or await inventory_ids(self._client, cluster)):
            return AutoscalerState()
        if state is None or state.config is None:
            raise ApplicationError(f"there is no cluster {cluster}", type=ErrorCode.NO_SUCH_CLUSTER, non_retryable=True)
        if await is_running(self._client, names.autoscaler_id(cluster)):
            return state
        return state.model_copy(update={"slices": ()})

    async def _runs(self, cluster: str, slice_id: str, group: str) -> tuple[str, bool]:
        return slice_id, await is_running(self._client, names.slice_workflow_id(cluster, group, slice_id))

    async def _listing(self, location: WatchedLocation) -> Listing:
        provider = await self._providers.of(location.provider, location.settings)
        return await provider.list(location.name, cluster=location.cluster)


def agreed_slices(state: AutoscalerState, told: Mapping[str, tuple[str, str]]) -> dict[str, RunningSlice]:
    """The slices of which ledger and workflow show the same state, at a location that the ledger or the configuration knows."""
    config = state.config
    return {
        piece.id: RunningSlice(piece.state, piece.group)
        for piece in state.slices
        if told.get(piece.id) == (piece.group, piece.state)
        and (piece.location is not None or (config is not None and config.group(piece.group) is not None))
    }


def _locations(
    state: AutoscalerState, lifecycles: Iterable[SliceLifecycle], watched: Iterable[WatchedLocation]
) -> tuple[WatchedLocation, ...]:
    """All locations that may hold slices: configured ones, those of running slices, and those that inventories watch."""
    locations = {location.key: location for location in watched}
    specs = [lifecycle.spec for lifecycle in lifecycles]
    moved = {piece.location.key: piece.location for piece in state.slices if piece.location is not None}
    cluster = state.config.cluster if state.config is not None else ""
    locations |= {key: WatchedLocation.of(location, cluster=cluster) for key, location in moved.items()}
    locations |= {spec.location.key: WatchedLocation.of(spec.location, cluster=spec.cluster) for spec in specs}
    locations |= {location.key: location for location in (locations_of(state.config) if state.config is not None else ())}
    return tuple(locations[key] for key in sorted(locations))
