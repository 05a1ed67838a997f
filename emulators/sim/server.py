"""The simulated cloud over HTTP: calls that a provider makes, and calls that make trouble."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from aiohttp import web
from pydantic import ValidationError

from emulators.sim import cloud
from emulators.sim.behaviour import Behaviour
from emulators.sim.cloud import Phase, Refusal, Request, Resource
from emulators.sim.store import Store
from penstock.config.problems import problems_of
from penstock.model.value import Value

T = TypeVar("T", bound=Value)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def tell_refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer a refusal with its status and code."""
    try:
        return await handler(request)
    except Refusal as refusal:
        return web.json_response(refusal.body, status=refusal.status)


def application(store: Store) -> web.Application:
    """The server's routes."""
    server = SimServer(store)
    app = web.Application(middlewares=[tell_refusals])
    app.add_routes(
        [
            web.get("/ready", server.ready),
            web.get("/zones/{zone}", server.show_zone),
            web.put("/zones/{zone}", server.set_zone),
            web.get("/zones/{zone}/resources", server.list_zone),
            web.post("/zones/{zone}/resources", server.create),
            web.post("/zones/{zone}/preempt", server.preempt_zone),
            web.get("/resources", server.ever),
            web.get("/resources/{name}", server.show),
            web.delete("/resources/{name}", server.delete),
            web.post("/resources/{name}/admit", server.admit),
            web.post("/resources/{name}/preempt", server.preempt),
            web.post("/resources/{name}/hosts/{host}/kill", server.kill_host),
            web.get("/health/{name}/{host}", server.health),
        ]
    )
    return app


class SimServer:
    """One handler per route. Between reading the store and writing it nothing waits, so calls do not mix."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def ready(self, _: web.Request) -> web.Response:
        """Whether the cloud takes calls."""
        return web.json_response({"ready": True})

    async def show_zone(self, request: web.Request) -> web.Response:
        """How a zone behaves, its counters as they are now."""
        return web.json_response(self._store.behaviour(request.match_info["zone"]).model_dump(mode="json"))

    async def set_zone(self, request: web.Request) -> web.Response:
        """Replace the behaviour of a zone; what is not given is as if never set."""
        zone = request.match_info["zone"]
        self._store.keep(zones={zone: await _body(request, Behaviour)})
        return await self.show_zone(request)

    async def create(self, request: web.Request) -> web.Response:
        """Store a resource, then reply: late, never, or at once, as the zone behaves."""
        zone, asked = request.match_info["zone"], await _body(request, Request)
        now, before = datetime.now(UTC), self._store.behaviour(zone)
        made, after = cloud.create(asked, zone, behaviour=before, existing=self._settled(zone, now), now=now)
        self._store.keep(made, zones={} if after == before else {zone: after})
        if before.lost_replies and request.transport is not None:
            request.transport.abort()
        await asyncio.sleep(before.reply_latency_seconds)
        return web.json_response(_described(made, now), status=201)

    async def list_zone(self, request: web.Request) -> web.Response:
        """What exists in a zone, with all given labels (`?label=key=value`), by name."""
        zone, now = request.match_info["zone"], datetime.now(UTC)
        behaviour = self._store.behaviour(zone)
        cloud.permit(behaviour, zone)
        wanted = [label.partition("=")[::2] for label in request.query.getall("label", [])]
        found = [] if behaviour.partial_lists else self._in_zone(zone, now)
        shown = [resource for resource in found if all(resource.labels.get(key) == value for key, value in wanted)]
        items = [_described(resource, now) for resource in sorted(shown, key=lambda resource: resource.name)]
        return web.json_response({"items": items, "complete": not behaviour.partial_lists})

    async def ever(self, _: web.Request) -> web.Response:
        """Everything that was ever created in any zone, gone or not: for those who check what was made."""
        now = datetime.now(UTC)
        return web.json_response({"items": [_described(resource, now) for resource in self._store.ever()]})

    async def show(self, request: web.Request) -> web.Response:
        """One resource."""
        now = datetime.now(UTC)
        resource = self._found(request, now)
        cloud.permit(self._store.behaviour(resource.zone), resource.zone)
        return web.json_response(_described(resource, now))

    async def delete(self, request: web.Request) -> web.Response:
        """Begin to delete a resource; the next so many calls fail if the zone says so."""
        now = datetime.now(UTC)
        resource = self._found(request, now)
        behaviour = self._store.behaviour(resource.zone)
        if behaviour.failing_deletes:
            fewer = behaviour.model_copy(update={"failing_deletes": behaviour.failing_deletes - 1})
            self._store.keep(zones={resource.zone: fewer})
            raise Refusal(503, "UNAVAILABLE", f"zone {resource.zone} cannot delete now")
        return self._changed(cloud.delete(resource, behaviour=behaviour, now=now), now)

    async def admit(self, request: web.Request) -> web.Response:
        """Let a queued resource in, room or not."""
        now = datetime.now(UTC)
        resource = self._found(request, now)
        if resource.phase(now) is not Phase.QUEUED:
            raise Refusal(409, "NOT_QUEUED", f"{resource.name} is {resource.phase(now)}")
        return self._changed(cloud.admitted(resource, self._store.behaviour(resource.zone), now), now)

    async def preempt(self, request: web.Request) -> web.Response:
        """Take one resource away, preemptible or not."""
        now = datetime.now(UTC)
        return self._changed(cloud.preempted(self._found(request, now), now), now)

    async def preempt_zone(self, request: web.Request) -> web.Response:
        """Take every preemptible resource of a zone away."""
        zone, now = request.match_info["zone"], datetime.now(UTC)
        given = [r for r in self._in_zone(zone, now) if r.preemptible and cloud.takeable(r, now)]
        self._store.keep(*[cloud.preempted(resource, now) for resource in given])
        return web.json_response({"preempted": sorted(resource.name for resource in given)})

    async def kill_host(self, request: web.Request) -> web.Response:
        """One host of a resource answers no more."""
        now = datetime.now(UTC)
        return self._changed(cloud.without_host(self._found(request, now), _host(request)), now)

    async def health(self, request: web.Request) -> web.Response:
        """A host's health check: the slice it belongs to."""
        now = datetime.now(UTC)
        resource = self._found(request, now)
        if not resource.answers(_host(request), now):
            raise Refusal(503, "SILENT", "the host does not answer")
        return web.json_response({"slice": resource.labels.get(cloud.SLICE_LABEL)})

    def _settled(self, zone: str, now: datetime) -> Mapping[str, Resource]:
        """Everything that exists, once the zone's queue has moved up into what room there is."""
        behaviour = self._store.behaviour(zone)
        while True:
            existing = self._store.existing(now)
            moved = cloud.next_admitted(self._store.waiting(zone), behaviour=behaviour, existing=existing, now=now)
            if moved is None:
                return existing
            self._store.keep(moved)

    def _in_zone(self, zone: str, now: datetime) -> list[Resource]:
        return [resource for resource in self._settled(zone, now).values() if resource.zone == zone]

    def _found(self, request: web.Request, now: datetime) -> Resource:
        name = request.match_info["name"]
        resource = self._store.existing(now).get(name)
        if resource is None:
            raise Refusal(404, "NOT_FOUND", f"there is no {name}")
        return self._settled(resource.zone, now)[name]

    def _changed(self, resource: Resource, now: datetime) -> web.Response:
        self._store.keep(resource)
        return web.json_response(_described(resource, now))


def _host(request: web.Request) -> int:
    text = request.match_info["host"]
    if not text.isdecimal():
        raise Refusal(404, "NOT_FOUND", f"{text!r} is no host; hosts are numbered from 0")
    return int(text)


def _described(resource: Resource, now: datetime) -> dict[str, Any]:
    phase = resource.phase(now)
    addressed = phase is Phase.RUNNING
    hosts = [{"address": f"{resource.name}-{i}.{resource.zone}.sim" if addressed else None} for i in range(resource.hosts)]
    described = resource.model_dump(mode="json", include={"name", "zone", "labels", "variant", "preemptible", "created_at"})
    return described | {"phase": phase, "hosts": hosts}


async def _body(request: web.Request, model: type[T]) -> T:
    try:
        return model.model_validate(await request.json())
    except json.JSONDecodeError as error:
        raise Refusal(400, "INVALID", f"the body is not JSON: {error}") from None
    except ValidationError as error:
        told = "; ".join(f"{p.path}: {p.message}" for p in problems_of(error, model, "body", {}))
        raise Refusal(400, "INVALID", told) from None
