"""The daemon of local hosts over HTTP: the simulated cloud's API for slices of real processes, behind a token."""

import hmac
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Middleware

from emulators.command_line import LOOPBACK
from emulators.local.reconciler import Reconciler
from emulators.local.slices import LocalRequest, LocalSlice, check_program
from emulators.local.store import LocalStore
from emulators.request_body import without_values
from emulators.sim.behaviour import Behaviour
from emulators.sim.cloud import ApiError, Phase, Resource
from emulators.sim.handlers import Handler, ResourceHandlers, errors_as_json


def application(store: LocalStore, reconciler: Reconciler, *, token: str, on_shutdown: Callable[[], None]) -> web.Application:
    """The web application of the daemon."""
    app = web.Application(middlewares=[errors_as_json, _require_token(token)])
    app.add_routes(LocalServer(store, reconciler, on_shutdown).routes())
    return app


def _require_token(token: str) -> Middleware:
    """Refuse callers without the token, because a create runs any command."""
    expected = f"Bearer {token}".encode()

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not hmac.compare_digest(request.headers.get("Authorization", "").encode(), expected):
            message = "the call lacks the token that is in the daemon's state directory"
            raise ApiError(401, "PERMISSION_DENIED", message, scope="project", subject="local")
        return await handler(request)

    return check


class LocalServer(ResourceHandlers[LocalSlice, LocalRequest]):
    """The shared handlers; every saved slice is handed to the reconciler."""

    def __init__(self, store: LocalStore, reconciler: Reconciler, on_shutdown: Callable[[], None]) -> None:
        super().__init__(store, LocalRequest, explain=without_values)
        self._reconciler = reconciler
        self._on_shutdown = on_shutdown

    def routes(self) -> list[web.RouteDef]:
        """Every route of the daemon."""
        return [*super().routes(), web.post("/shutdown", self.shutdown)]

    async def kill_host(self, request: web.Request) -> web.Response:
        """Send SIGKILL to one host."""
        now = datetime.now(UTC)
        piece, text = self._find(request, now), request.match_info["host"]
        count = len(piece.local_hosts)
        if not text.isdecimal() or int(text) >= count:
            raise ApiError(404, "NOT_FOUND", f"{piece.name} has {count} hosts now, numbered from 0; {text!r} is none of them")
        self._reconciler.kill_host(piece, int(text))
        return web.json_response(self._describe(piece, now))

    async def shutdown(self, _: web.Request) -> web.Response:
        """Stop every host, then the daemon."""
        self._on_shutdown()
        return web.json_response({"stopping": True}, status=202)

    def _record(self, resource: Resource, requested: LocalRequest) -> LocalSlice:
        check_program(requested, os.environ)
        return LocalSlice(**resource.model_dump(), program=requested.program, env=requested.env)

    def _save(self, *resources: LocalSlice, zones: Mapping[str, Behaviour] | None = None) -> None:
        super()._save(*resources, zones=zones)
        for piece in resources:
            self._reconciler.reconcile(piece.name)

    def _describe_hosts(self, record: LocalSlice, phase: Phase) -> list[dict[str, Any]]:
        if phase is not Phase.RUNNING:
            return [{"address": None, "pid": None, "running": False}] * record.hosts
        return [
            {"address": f"{LOOPBACK}:{host.port}", "pid": host.process.pid, "running": self._reconciler.runs(host)}
            for host in record.local_hosts
        ]
