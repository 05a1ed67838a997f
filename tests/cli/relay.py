"""A TCP relay that tests can cut, so that a server becomes unreachable for the clients behind it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Relay:
    """Forwards connections to a port of this machine, unless it is cut."""

    def __init__(self, port: int) -> None:
        self.address = ""
        self.refused = 0
        """Connections that were refused while it was cut."""
        self.is_cut = False
        self._port = port
        self._ends: list[asyncio.StreamWriter] = []

    def cut(self) -> None:
        """Abort every connection and refuse new ones."""
        self.is_cut = True
        for end in self._ends:
            end.transport.abort()
        self._ends.clear()

    def mend(self) -> None:
        """Forward connections again."""
        self.is_cut = False

    async def refusals(self) -> int:
        """How many connections were refused while it was cut."""
        return self.refused

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until it ends."""
        if self.is_cut:
            self.refused += 1
            writer.transport.abort()
            return
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        self._ends += [writer, to_server]
        await asyncio.gather(_forward(reader, to_server), _forward(from_server, writer))


async def _forward(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    sink.transport.abort()


@asynccontextmanager
async def relayed(port: int) -> AsyncIterator[Relay]:
    """A relay to a port of this machine, at an address of its own."""
    relay = Relay(port)
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    relay.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield relay
    finally:
        server.close()
        relay.cut()
