"""An embedded service as people start it: one command, its output, and the processes that it starts."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.activities.waiting import until

SECONDS = 60.0
"""Starting takes three seconds, and far longer on a busy machine."""
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
CLUSTER = {
    "cluster": "demo",
    "evaluation": {"interval": "50ms"},
    "inventory": {"look": "50ms", "rest": "200ms", "audit": "500ms"},
    "groups": [{"name": "small", "zone": "west-a", "max_slices": 3, "min_slices": 2, "host": {"cpu": 4, "memory": "16GiB"}}],
}


class Embedded:
    """`python -m embedded` in a directory of its own; each start is another process on the same data."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.folder = folder
        self.data_dir = folder / ".penstock"
        self.cluster_file = folder / "cluster.yaml"
        self.cluster_file.write_text(yaml.safe_dump(CLUSTER))
        (folder / "sim.yaml").write_text("defaults: {boot_latency: 20ms}\n")
        self._options: dict[str, object] = {"scenario": folder / "sim.yaml", **options}
        self._starts = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def output(self) -> str:
        """The output of the last start."""
        return (self.folder / f"output-{self._starts}").read_text()

    @property
    def address(self) -> str:
        """The server's address in its notes."""
        return (self.data_dir / "address").read_text().strip()

    def start(self) -> None:
        """Start it without waiting."""
        self._starts += 1
        options = {"data": self.data_dir, "cluster_file": self.cluster_file, **self._options}
        command = [sys.executable, "-m", "embedded"]
        for name, value in options.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        with (self.folder / f"output-{self._starts}").open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, env=clean_environment(), cwd=self.folder)

    async def ready(self) -> None:
        """Return when the welcome text is complete."""

        async def text() -> str:
            assert self.process is not None
            assert self.process.poll() is None, self.output
            return self.output

        await until(text, lambda output: "Ctrl-C stops everything" in output, seconds=SECONDS)

    def send(self, kind: signal.Signals) -> int:
        """Send it a signal; returns its exit code."""
        assert self.process is not None
        self.process.send_signal(kind)
        return self.process.wait(SECONDS)

    def exit_code(self) -> int:
        """The exit code of a start that ends on its own."""
        assert self.process is not None
        return self.process.wait(SECONDS)

    def end(self) -> None:
        """End it if it still runs; the kernel kills its children."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    async def nothing_left(self) -> None:
        """Return when no process mentions its directory any more."""

        async def left() -> list[str]:
            return [command for command in _commands() if str(self.folder) in command]

        await until(left, lambda commands: not commands, seconds=SECONDS)


@contextmanager
def taken_port() -> Iterator[int]:
    """A port on which another process listens, so that services must choose others."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def servers_of(embedded: Embedded) -> list[str]:
    """The child processes, by the program that each runs."""
    own = f"--data {embedded.data_dir}"
    found = [command for command in _commands() if str(embedded.data_dir) in command and own not in command]
    return sorted(re.sub(r".*(server start-dev|emulators\.\w+).*", r"\1", command) for command in found)


def clean_environment() -> dict[str, str]:
    """This process's environment without variables that point to other servers."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("TEMPORAL_", "PENSTOCK_", "OTEL_"))}


def _commands() -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue  # It ended meanwhile.
    return found
