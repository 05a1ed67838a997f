"""Examining a worker's surroundings: what it can reach, with the credentials it has."""

import time
from datetime import UTC, datetime

from temporalio import activity
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError

from activities.accounts import each, state_of
from activities.auditing import beating
from activities.providers.port import Invalid, PermissionDenied, ProviderError
from activities.providers.registry import Providers
from penstock.contract import names
from penstock.contract.answers import Examination, Finding
from penstock.contract.lives import Place
from penstock.core.specs import places_of
from penstock.core.state import AutoscalerState


class Examining:
    """The activity behind `penstock doctor`."""

    def __init__(self, client: Client, providers: Providers) -> None:
        self._client = client
        self._providers = providers

    @activity.defn(name=names.EXAMINE)
    async def examine(self) -> Examination:
        """Look at the namespace, at every cluster, and at every location of theirs."""
        async with beating():
            clusters = await self._clusters()
            states = await each(clusters, lambda cluster: state_of(self._client, cluster))
            running = {cluster: state for cluster, state in zip(clusters, states, strict=True) if state is not None}
            places = [place for state in running.values() if state.config for place in places_of(state.config)]
            found = [await self._attributes(), *(_cluster(cluster, state) for cluster, state in running.items())]
            found += await each(places, self._location)
        return Examination(at=datetime.now(UTC), findings=tuple(found))

    async def _clusters(self) -> list[str]:
        query = f"WorkflowType = '{names.AUTOSCALER}' AND ExecutionStatus = 'Running'"
        return sorted({run.id.removeprefix(names.autoscaler_id("")) async for run in self._client.list_workflows(query)})

    async def _attributes(self) -> Finding:
        subject, namespace = "search attributes", self._client.namespace
        try:
            request = ListSearchAttributesRequest(namespace=namespace)
            listed = await self._client.operator_service.list_search_attributes(request)
        except RPCError as error:
            return Finding(subject=subject, ok=True, message=f"the server does not say which there are ({error.message})")
        missing = [name for name in names.SEARCH_ATTRIBUTES if name not in listed.custom_attributes]
        if not missing:
            return Finding(subject=subject, ok=True, message=f"registered in namespace {namespace}")
        flags = " ".join(f"--name {name} --type Keyword" for name in missing)
        fix = f"temporal operator search-attribute create --namespace {namespace} {flags}"
        return Finding(subject=subject, ok=False, message=f"missing in namespace {namespace}: {', '.join(missing)}", fix=fix)

    async def _location(self, place: Place) -> Finding:
        """Whether one location of one cluster can be listed."""
        subject = f"{place.cluster}: {place.key}"
        began = time.monotonic()
        try:
            provider = await self._providers.of(place.provider, place.settings)
            listing = await provider.list(place.location, cluster=place.cluster)
        except ProviderError as error:
            return Finding(subject=subject, ok=False, message=str(error), fix=_fix(error, place))
        told = f"{len(listing.items)} resources, listed in {time.monotonic() - began:.2f} s"
        if listing.complete:
            return Finding(subject=subject, ok=True, message=told)
        fix = "the cloud could not reach all of it; nothing there is believed lost meanwhile"
        return Finding(subject=subject, ok=False, message="the list is not complete", fix=fix)


def _cluster(cluster: str, state: AutoscalerState) -> Finding:
    if state.recovery is None:
        return Finding(subject=cluster, ok=True, message=f"{len(state.slices)} slices, configuration {state.config_revision}")
    waited = ", ".join(state.recovery.waiting) or "its slices' reports"
    return Finding(subject=cluster, ok=False, message=f"recovers: {state.recovery.reason}", fix=f"it waits for {waited}")


def _fix(error: ProviderError, place: Place) -> str:
    if isinstance(error, PermissionDenied):
        return f"give the worker's credentials access to {error.subject}"
    if isinstance(error, Invalid):
        return f"correct the provider of the groups in {place.location}: penstock config apply FILE"
    return f"see that the worker can reach {place.provider}; it goes on trying by itself"
