"""A way to a server that can be cut, so that to whoever uses it the server is away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Relay:
    """Passes on what comes, unless it is cut."""

    def __init__(self, port: int) -> None:
        self.address = ""
        self.refused = 0
        """Connections that were tried while it was cut."""
        self.cut = False
        self._port = port
        self._ends: list[asyncio.StreamWriter] = []

    def away(self) -> None:
        """Cut it: what is connected is cut off, and nobody gets through."""
        self.cut = True
        for end in self._ends:
            end.transport.abort()
        self._ends.clear()

    def back(self) -> None:
        """Let everybody through again."""
        self.cut = False

    async def refusals(self) -> int:
        """How often somebody tried to get through while it was cut."""
        return self.refused

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its begin to its end."""
        if self.cut:
            self.refused += 1
            writer.transport.abort()
            return
        beyond, there = await asyncio.open_connection("127.0.0.1", self._port)
        self._ends += [writer, there]
        await asyncio.gather(_pass_on(reader, there), _pass_on(beyond, writer))


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    sink.transport.abort()


@asynccontextmanager
async def relayed(port: int) -> AsyncIterator[Relay]:
    """A relay to a port of this machine, on one of its own."""
    relay = Relay(port)
    server = await asyncio.start_server(relay.take, "127.0.0.1", 0)
    relay.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield relay
    finally:
        server.close()
        relay.away()
