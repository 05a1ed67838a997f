"""Local hosts over HTTP: the calls of the simulated cloud, for slices of real processes."""

import asyncio
import hmac
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from aiohttp import web
from pydantic import ValidationError

from emulators.local.health import HOST
from emulators.local.keeper import Keeper
from emulators.local.slices import LocalRequest, Slice, refuse_missing_program
from emulators.local.store import Store
from emulators.sim import cloud
from emulators.sim.behaviour import Behaviour
from emulators.sim.cloud import Phase, Refusal, Resource
from penstock.contract.problems import path_text
from penstock.model.value import Value

T = TypeVar("T", bound=Value)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(store: Store, keeper: Keeper, *, token: str, shut_down: Callable[[], None]) -> web.Application:
    """The server's routes, open to those who know the token: whoever may create may run any command."""
    server = LocalServer(store, keeper, shut_down)

    @web.middleware
    async def admit_and_tell_refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if not hmac.compare_digest(request.headers.get("Authorization", "").encode(), f"Bearer {token}".encode()):
                told = "the call lacks the token that is in the daemon's state directory"
                raise Refusal(401, "PERMISSION_DENIED", told, scope="project", subject="local")
            return await handler(request)
        except Refusal as refusal:
            return web.json_response(refusal.body, status=refusal.status)

    app = web.Application(middlewares=[admit_and_tell_refusals])
    app.add_routes(
        [
            web.get("/zones/{zone}", server.show_zone),
            web.put("/zones/{zone}", server.set_zone),
            web.get("/zones/{zone}/resources", server.list_zone),
            web.post("/zones/{zone}/resources", server.create),
            web.get("/resources", server.ever),
            web.get("/resources/{name}", server.show),
            web.delete("/resources/{name}", server.delete),
            web.post("/resources/{name}/admit", server.admit),
            web.post("/resources/{name}/preempt", server.preempt),
            web.post("/resources/{name}/hosts/{host}/kill", server.kill_host),
            web.post("/shutdown", server.shutdown),
        ]
    )
    return app


class LocalServer:
    """One handler per route. Between reading the store and writing it nothing waits, so calls do not mix."""

    def __init__(self, store: Store, keeper: Keeper, shut_down: Callable[[], None]) -> None:
        self._store = store
        self._keeper = keeper
        self._shut_down = shut_down

    async def show_zone(self, request: web.Request) -> web.Response:
        """How a zone behaves, its counters as they are now."""
        return web.json_response(self._store.behaviour(request.match_info["zone"]).model_dump(mode="json"))

    async def set_zone(self, request: web.Request) -> web.Response:
        """Replace the behaviour of a zone; what is not given is as if never set."""
        self._store.keep(zones={request.match_info["zone"]: await _body(request, Behaviour)})
        return await self.show_zone(request)

    async def create(self, request: web.Request) -> web.Response:
        """Put a slice on record, then reply; its hosts follow."""
        zone, asked = request.match_info["zone"], await _body(request, LocalRequest)
        now, before = datetime.now(UTC), self._store.behaviour(zone)
        existing = _resources(self._settled(zone, now))
        made, after = cloud.create(asked.plain, zone, behaviour=before, existing=existing, now=now)
        refuse_missing_program(asked, os.environ)
        held = Slice(resource=made, program=asked.program, env=asked.env)
        self._store.keep(held, zones={} if after == before else {zone: after})
        self._keeper.look_after(held.name)
        if before.lost_replies and request.transport is not None:
            request.transport.abort()
        await asyncio.sleep(before.reply_latency_seconds)
        return web.json_response(self._described(held, now), status=201)

    async def list_zone(self, request: web.Request) -> web.Response:
        """What exists in a zone, with all given labels (`?label=key=value`), by name."""
        zone, now = request.match_info["zone"], datetime.now(UTC)
        behaviour = self._store.behaviour(zone)
        cloud.permit(behaviour, zone)
        wanted = [label.partition("=")[::2] for label in request.query.getall("label", [])]
        found = (
            [] if behaviour.partial_lists else [held for held in self._settled(zone, now).values() if held.resource.zone == zone]
        )
        shown = [held for held in found if all(held.resource.labels.get(key) == value for key, value in wanted)]
        items = [self._described(held, now) for held in sorted(shown, key=lambda held: held.name)]
        return web.json_response({"items": items, "complete": not behaviour.partial_lists})

    async def ever(self, _: web.Request) -> web.Response:
        """Everything that was ever created in any zone, gone or not: for those who check what was made."""
        now = datetime.now(UTC)
        return web.json_response({"items": [self._described(held, now) for held in self._store.ever()]})

    async def show(self, request: web.Request) -> web.Response:
        """One slice."""
        now = datetime.now(UTC)
        held = self._found(request, now)
        cloud.permit(self._store.behaviour(held.resource.zone), held.resource.zone)
        return web.json_response(self._described(held, now))

    async def delete(self, request: web.Request) -> web.Response:
        """Begin to end a slice's hosts; the next so many calls fail if the zone says so."""
        now = datetime.now(UTC)
        held = self._found(request, now)
        zone = held.resource.zone
        behaviour = self._store.behaviour(zone)
        if behaviour.failing_deletes:
            self._store.keep(zones={zone: behaviour.model_copy(update={"failing_deletes": behaviour.failing_deletes - 1})})
            raise Refusal(503, "UNAVAILABLE", f"zone {zone} cannot delete now")
        return self._changed(held, cloud.delete(held.resource, behaviour=behaviour, now=now), now)

    async def admit(self, request: web.Request) -> web.Response:
        """Let a queued slice in, room or not."""
        now = datetime.now(UTC)
        held = self._found(request, now)
        if held.phase(now) is not Phase.QUEUED:
            raise Refusal(409, "NOT_QUEUED", f"{held.name} is {held.phase(now)}")
        return self._changed(held, cloud.admitted(held.resource, self._store.behaviour(held.resource.zone), now), now)

    async def preempt(self, request: web.Request) -> web.Response:
        """Take a slice away, preemptible or not: its hosts end, and it stays visible until it is deleted."""
        now = datetime.now(UTC)
        held = self._found(request, now)
        return self._changed(held, cloud.preempted(held.resource, now), now)

    async def kill_host(self, request: web.Request) -> web.Response:
        """End one host without warning."""
        now = datetime.now(UTC)
        held, text = self._found(request, now), request.match_info["host"]
        if not text.isdecimal() or int(text) >= len(held.hosts):
            raise Refusal(
                404, "NOT_FOUND", f"{held.name} has {len(held.hosts)} hosts now, numbered from 0; {text!r} is none of them"
            )
        self._keeper.kill_host(held, int(text))
        return web.json_response(self._described(held, now))

    async def shutdown(self, _: web.Request) -> web.Response:
        """End every host, then the daemon."""
        self._shut_down()
        return web.json_response({"stopping": True}, status=202)

    def _settled(self, zone: str, now: datetime) -> Mapping[str, Slice]:
        """Everything that exists, once the zone's queue has moved up into what room there is."""
        behaviour = self._store.behaviour(zone)
        while True:
            existing = self._store.existing(now)
            waiting = [h.resource for h in existing.values() if h.resource.zone == zone and h.phase(now) is Phase.QUEUED]
            moved = cloud.next_admitted(waiting, behaviour=behaviour, existing=_resources(existing), now=now)
            if moved is None:
                return existing
            self._keep(existing[moved.name], moved)

    def _found(self, request: web.Request, now: datetime) -> Slice:
        name = request.match_info["name"]
        held = self._store.existing(now).get(name)
        if held is None:
            raise Refusal(404, "NOT_FOUND", f"there is no {name}")
        return self._settled(held.resource.zone, now)[name]

    def _changed(self, held: Slice, resource: Resource, now: datetime) -> web.Response:
        return web.json_response(self._described(self._keep(held, resource), now))

    def _keep(self, held: Slice, resource: Resource) -> Slice:
        kept = held.model_copy(update={"resource": resource})
        self._store.keep(kept)
        self._keeper.look_after(kept.name)
        return kept

    def _described(self, held: Slice, now: datetime) -> dict[str, Any]:
        """What there is to tell of a slice; its variables are nobody's business."""
        phase = held.phase(now)
        hosts: list[dict[str, Any]] = [{"address": None, "pid": None, "running": False}] * held.resource.hosts
        if phase is Phase.RUNNING:
            hosts = [
                {"address": f"{HOST}:{host.port}", "pid": host.process.pid, "running": self._keeper.runs(host)}
                for host in held.hosts
            ]
        described = held.resource.model_dump(
            mode="json", include={"name", "zone", "labels", "variant", "preemptible", "created_at"}
        )
        return described | {"phase": phase, "hosts": hosts}


def _resources(slices: Mapping[str, Slice]) -> dict[str, Resource]:
    return {name: held.resource for name, held in slices.items()}


async def _body(request: web.Request, model: type[T]) -> T:
    """The body of a call. What is wrong with it is told without the values, some of which may be secrets."""
    try:
        return model.model_validate(await request.json())
    except json.JSONDecodeError as error:
        raise Refusal(400, "INVALID", f"the body is not JSON: {error}") from None
    except ValidationError as error:
        told = "; ".join(f"{path_text(each['loc'])}: {each['msg']}" for each in error.errors(include_input=False))
        raise Refusal(400, "INVALID", told) from None
