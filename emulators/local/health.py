"""Health checks of local hosts: a port for each, which answers for as long as somebody can vouch for the host."""

import socket
from collections.abc import Callable

from aiohttp import web

HOST = "127.0.0.1"
"""Nobody but this machine."""
_BACKLOG = 128

Vouch = Callable[[str, int], str | None]
"""The slice id that a host, named by its slice's resource and its number, answers with; None for a host that is silent."""


class HealthPorts:
    """`GET /health` on a port of its own for each host."""

    def __init__(self, vouch: Vouch) -> None:
        self._vouch = vouch
        self._sites: dict[int, web.SockSite] = {}
        self._hosts: dict[int, tuple[str, int]] = {}
        app = web.Application()
        app.add_routes([web.get("/health", self._answer)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)

    async def begin(self) -> None:
        """Get ready for the first host."""
        await self._runner.setup()

    async def open(self, name: str, host: int, *, port: int = 0) -> int:
        """Listen for a host, on the port it had if that is still free, and tell the port."""
        listening = _listening(port)
        port = listening.getsockname()[1]
        self._sites[port] = web.SockSite(self._runner, listening, backlog=_BACKLOG)
        self._hosts[port] = (name, host)
        await self._sites[port].start()
        return port

    async def close(self, name: str) -> None:
        """Listen no more for the hosts of a slice."""
        for port in [port for port, (owner, _) in self._hosts.items() if owner == name]:
            del self._hosts[port]
            await self._sites.pop(port).stop()

    async def end(self) -> None:
        """Close every port."""
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        port = request.transport.get_extra_info("sockname")[1] if request.transport is not None else 0
        host = self._hosts.get(port)
        answer = None if host is None else self._vouch(*host)
        silent = {"error": {"code": "SILENT", "message": "the host does not answer"}}
        response = web.json_response(silent, status=503) if answer is None else web.json_response({"slice": answer})
        response.force_close()
        return response


def _listening(port: int) -> socket.socket:
    try:
        return _bound(port)
    except OSError:
        if not port:
            raise
        return _bound(0)


def _bound(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
    except OSError:
        listening.close()
        raise
    return listening
