"""The simulated cloud over HTTP: its routes, with health checks, notices and preemption of whole zones."""

from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from emulators.request_body import read_body
from emulators.sim import cloud
from emulators.sim.cloud import ApiError, Phase, Request, Resource
from emulators.sim.handlers import ResourceHandlers, errors_as_json
from emulators.sim.store import SimStore
from penstock.model.failures import Notice


def application(store: SimStore) -> web.Application:
    """The web application of the simulated cloud."""
    app = web.Application(middlewares=[errors_as_json])
    app.add_routes(SimServer(store).routes())
    return app


class SimServer(ResourceHandlers[Resource, Request]):
    """The shared handlers, and those for hosts that exist only as health checks."""

    def __init__(self, store: SimStore) -> None:
        super().__init__(store, Request)

    def routes(self) -> list[web.RouteDef]:
        """Every route of the simulated cloud."""
        return [
            *super().routes(),
            web.get("/ready", self.ready),
            web.post("/zones/{zone}/preempt", self.preempt_zone),
            web.put("/resources/{name}/notice", self.announce),
            web.delete("/resources/{name}/notice", self.take_back),
            web.get("/health/{name}/{host}", self.health),
        ]

    async def ready(self, _: web.Request) -> web.Response:
        """Readiness probe."""
        return web.json_response({"ready": True})

    async def preempt_zone(self, request: web.Request) -> web.Response:
        """Preempt every preemptible resource of a zone."""
        zone, now = request.match_info["zone"], datetime.now(UTC)
        spot = [r for r in self._in_zone(zone, now) if r.preemptible and cloud.can_be_preempted(r, now)]
        self._save(*[cloud.preempted(resource, now) for resource in spot])
        return web.json_response({"preempted": sorted(resource.name for resource in spot)})

    async def announce(self, request: web.Request) -> web.Response:
        """Announce a preemption, maintenance or the end of a reservation for one resource, in place of what was announced."""
        notice, now = await read_body(request, Notice, explain=self._explain), datetime.now(UTC)
        return self._updated(cloud.with_notice(self._find(request, now), notice, now), now)

    async def take_back(self, request: web.Request) -> web.Response:
        """Take back what was announced for one resource."""
        now = datetime.now(UTC)
        return self._updated(cloud.with_notice(self._find(request, now), None, now), now)

    async def kill_host(self, request: web.Request) -> web.Response:
        """Make one host stop answering."""
        now = datetime.now(UTC)
        return self._updated(cloud.with_dead_host(self._find(request, now), _host(request)), now)

    async def health(self, request: web.Request) -> web.Response:
        """Health check of a host: the slice it belongs to."""
        now = datetime.now(UTC)
        resource = self._find(request, now)
        if not resource.answers(_host(request), now):
            raise ApiError(503, "SILENT", "the host does not answer")
        return web.json_response({"slice": resource.labels.get(cloud.SLICE_LABEL)})

    def _record(self, resource: Resource, requested: Request) -> Resource:  # noqa: ARG002 - all of it is in the resource
        return resource

    def _describe(self, record: Resource, now: datetime) -> dict[str, Any]:
        return super()._describe(record, now) | record.model_dump(mode="json", include={"notice"})

    def _describe_hosts(self, record: Resource, phase: Phase) -> list[dict[str, Any]]:
        addressed = phase is Phase.RUNNING
        return [{"address": f"{record.name}-{i}.{record.zone}.sim" if addressed else None} for i in range(record.hosts)]


def _host(request: web.Request) -> int:
    text = request.match_info["host"]
    if not text.isdecimal():
        raise ApiError(404, "NOT_FOUND", f"{text!r} is no host; hosts are numbered from 0")
    return int(text)
