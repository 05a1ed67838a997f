"""Health-check servers of local hosts: `GET /health` on a port per host."""

import socket
from collections.abc import Callable

from aiohttp import web

from emulators.command_line import LOOPBACK

_BACKLOG = 128

SliceOf = Callable[[str, int], str | None]
"""The slice id with which a host answers, given its resource's name and its number; None if the host is not healthy."""


class HealthPorts:
    """One listening port per host."""

    def __init__(self, slice_of: SliceOf) -> None:
        self._slice_of = slice_of
        self._sites: dict[int, web.SockSite] = {}
        self._hosts: dict[int, tuple[str, int]] = {}
        app = web.Application()
        app.add_routes([web.get("/health", self._health)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)

    async def start(self) -> None:
        """Set up the server; no port is open yet."""
        await self._runner.setup()

    async def open(self, name: str, host: int, *, port: int = 0) -> int:
        """Listen for a host, on the given port if it is free, and return the port."""
        listening = _listen(port)
        port = listening.getsockname()[1]
        self._sites[port] = web.SockSite(self._runner, listening, backlog=_BACKLOG)
        self._hosts[port] = (name, host)
        await self._sites[port].start()
        return port

    async def close(self, name: str) -> None:
        """Close the ports of a slice's hosts."""
        for port in [port for port, (owner, _) in self._hosts.items() if owner == name]:
            del self._hosts[port]
            await self._sites.pop(port).stop()

    async def stop(self) -> None:
        """Close every port."""
        await self._runner.cleanup()

    async def _health(self, request: web.Request) -> web.Response:
        port = request.transport.get_extra_info("sockname")[1] if request.transport is not None else 0
        host = self._hosts.get(port)
        slice_id = None if host is None else self._slice_of(*host)
        silent = {"error": {"code": "SILENT", "message": "the host does not answer"}}
        response = web.json_response(silent, status=503) if slice_id is None else web.json_response({"slice": slice_id})
        response.force_close()
        return response


def _listen(port: int) -> socket.socket:
    """A socket on the port, or on a free one if the port is taken."""
    try:
        return _bind(port)
    except OSError:
        if not port:
            raise
        return _bind(0)


def _bind(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
    except OSError:
        listening.close()
        raise
    return listening
