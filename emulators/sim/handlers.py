"""HTTP handlers of zones and resources that the simulated cloud and the daemon of local hosts share."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from aiohttp import web

from emulators.request_body import Explain, InvalidBody, read_body, with_values
from emulators.sim import cloud
from emulators.sim.behaviour import Behaviour
from emulators.sim.cloud import ApiError, Phase, Request, Resource
from emulators.sim.store import ResourceStore

R = TypeVar("R", bound=Resource)
Q = TypeVar("Q", bound=Request)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer a refused call with its status and error code."""
    try:
        return await handler(request)
    except InvalidBody as error:
        refused = ApiError(400, "INVALID", str(error))
    except ApiError as error:
        refused = error
    return web.json_response(refused.body, status=refused.status)


class ResourceHandlers(ABC, Generic[R, Q]):
    """One handler per route. A handler does not await between reading and writing the store, so calls never interleave."""

    def __init__(self, store: ResourceStore[R], request_type: type[Q], *, explain: Explain = with_values) -> None:
        self._store = store
        self._request_type = request_type
        self._explain = explain

    def routes(self) -> list[web.RouteDef]:
        """The shared routes."""
        one = "/resources/{name}"
        return [
            web.get("/zones/{zone}", self.show_zone),
            web.put("/zones/{zone}", self.set_zone),
            web.get("/zones/{zone}/resources", self.list_zone),
            web.post("/zones/{zone}/resources", self.create),
            web.get("/resources", self.list_ever_created),
            web.get(one, self.show),
            web.delete(one, self.delete),
            web.post(one + "/admit", self.admit),
            web.post(one + "/preempt", self.preempt),
            web.post(one + "/hosts/{host}/kill", self.kill_host),
        ]

    @abstractmethod
    async def kill_host(self, request: web.Request) -> web.Response:
        """Make one host stop answering."""

    @abstractmethod
    def _record(self, resource: Resource, requested: Q) -> R:
        """The record to store for a resource that was just created."""

    @abstractmethod
    def _describe_hosts(self, record: R, phase: Phase) -> list[dict[str, Any]]:
        """The hosts of a resource as JSON."""

    async def show_zone(self, request: web.Request) -> web.Response:
        """The behaviour of a zone, with the current values of its counters."""
        return web.json_response(self._store.behaviour(request.match_info["zone"]).model_dump(mode="json"))

    async def set_zone(self, request: web.Request) -> web.Response:
        """Replace the behaviour of a zone; missing keys get their defaults."""
        self._store.set_zone(request.match_info["zone"], await read_body(request, Behaviour, explain=self._explain))
        return await self.show_zone(request)

    async def create(self, request: web.Request) -> web.Response:
        """Store a resource, then reply at once, late or never, as the zone behaves."""
        zone, requested = request.match_info["zone"], await read_body(request, self._request_type, explain=self._explain)
        now, before = datetime.now(UTC), self._store.behaviour(zone)
        resource, after = cloud.create(requested, zone, behaviour=before, existing=self._settled(zone, now), now=now)
        record = self._record(resource, requested)
        self._save(record, zones={} if after == before else {zone: after})
        if before.lost_replies and request.transport is not None:
            request.transport.abort()
        await asyncio.sleep(before.reply_latency_seconds)
        return web.json_response(self._describe(record, now), status=201)

    async def list_zone(self, request: web.Request) -> web.Response:
        """The resources of a zone that have every given label (`?label=key=value`), by name."""
        zone, now = request.match_info["zone"], datetime.now(UTC)
        behaviour = self._store.behaviour(zone)
        cloud.check_permission(behaviour, zone)
        labels = _labels_in(request)
        found = [] if behaviour.partial_lists else self._in_zone(zone, now)
        matching = [resource for resource in found if all(resource.labels.get(key) == value for key, value in labels)]
        items = [self._describe(resource, now) for resource in sorted(matching, key=lambda resource: resource.name)]
        return web.json_response({"items": items, "complete": not behaviour.partial_lists})

    async def list_ever_created(self, request: web.Request) -> web.Response:
        """Every resource ever created in any zone, including those that are gone, for tests that count creates; by labels."""
        now = datetime.now(UTC)
        found = self._store.ever_created(_labels_in(request))
        return web.json_response({"items": [self._describe(resource, now) for resource in found]})

    async def show(self, request: web.Request) -> web.Response:
        """One resource."""
        now = datetime.now(UTC)
        resource = self._find(request, now)
        cloud.check_permission(self._store.behaviour(resource.zone), resource.zone)
        return web.json_response(self._describe(resource, now))

    async def delete(self, request: web.Request) -> web.Response:
        """Start to delete a resource, unless the zone fails its next deletes."""
        now = datetime.now(UTC)
        resource = self._find(request, now)
        behaviour = self._store.behaviour(resource.zone)
        if behaviour.failing_deletes:
            fewer = behaviour.model_copy(update={"failing_deletes": behaviour.failing_deletes - 1})
            self._store.set_zone(resource.zone, fewer)
            raise ApiError(503, "UNAVAILABLE", f"zone {resource.zone} cannot delete now")
        return self._updated(cloud.delete(resource, behaviour=behaviour, now=now), now)

    async def admit(self, request: web.Request) -> web.Response:
        """Admit a queued resource, even if there is no capacity."""
        now = datetime.now(UTC)
        resource = self._find(request, now)
        if resource.phase(now) is not Phase.QUEUED:
            raise ApiError(409, "NOT_QUEUED", f"{resource.name} is {resource.phase(now)}")
        return self._updated(cloud.admitted(resource, self._store.behaviour(resource.zone), now), now)

    async def preempt(self, request: web.Request) -> web.Response:
        """Preempt one resource, even if it is not preemptible."""
        now = datetime.now(UTC)
        return self._updated(cloud.preempted(self._find(request, now), now), now)

    def _settled(self, zone: str, now: datetime) -> Mapping[str, R]:
        """Every resource that exists, after admitting the zone's queued resources for which there is capacity."""
        behaviour = self._store.behaviour(zone)
        while True:
            existing = self._store.existing(now)
            next_one = cloud.next_admitted(self._store.queued(zone), behaviour=behaviour, existing=existing, now=now)
            if next_one is None:
                return existing
            self._save(next_one)

    def _in_zone(self, zone: str, now: datetime) -> list[R]:
        return [resource for resource in self._settled(zone, now).values() if resource.zone == zone]

    def _find(self, request: web.Request, now: datetime) -> R:
        name = request.match_info["name"]
        resource = self._store.existing(now).get(name)
        if resource is None:
            raise ApiError(404, "NOT_FOUND", f"there is no {name}")
        return self._settled(resource.zone, now)[name]

    def _updated(self, resource: R, now: datetime) -> web.Response:
        self._save(resource)
        return web.json_response(self._describe(resource, now))

    def _save(self, *resources: R, zones: Mapping[str, Behaviour] | None = None) -> None:
        self._store.save(*resources, zones=zones)

    def _describe(self, record: R, now: datetime) -> dict[str, Any]:
        phase = record.phase(now)
        fields = record.model_dump(mode="json", include={"name", "zone", "labels", "variant", "preemptible", "created_at"})
        return fields | {"phase": phase, "hosts": self._describe_hosts(record, phase)}


def _labels_in(request: web.Request) -> list[tuple[str, str]]:
    """The labels that a list is asked for: `?label=key=value`, as often as there are labels."""
    found = [label.partition("=") for label in request.query.getall("label", [])]
    return [(key, value) for key, _, value in found]
