"""An embedded service as people start it: one command, its output, and the processes it starts."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import yaml

from tests.activities.waiting import until

SECONDS = 60.0
"""Starting takes three seconds, and far longer on a busy machine."""
CLUSTER = {
    "cluster": "demo",
    "evaluation": {"interval": "50ms"},
    "inventory": {"look": "50ms", "rest": "200ms", "audit": "500ms"},
    "groups": [{"name": "small", "zone": "west-a", "max_slices": 3, "min_slices": 2, "host": {"cpu": 4, "memory": "16GiB"}}],
}


class Embedded:
    """`python -m worker --embedded` in a directory of its own; each start is another process on the same data."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.cluster_file = folder / "cluster.yaml"
        self.cluster_file.write_text(yaml.safe_dump(CLUSTER))
        (folder / "sim.yaml").write_text("defaults: {boot_latency: 20ms}\n")
        self._options: dict[str, object] = {"scenario": folder / "sim.yaml", **options}
        self._starts = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def output(self) -> str:
        """What the last start said."""
        return (self.folder / f"output-{self._starts}").read_text()

    @property
    def address(self) -> str:
        """Where its server says it is."""
        return (self.home / "address").read_text().strip()

    def start(self) -> None:
        """Start it, and do not wait."""
        self._starts += 1
        command = [
            sys.executable,
            "-m",
            "worker",
            "--embedded",
            "--data",
            str(self.home),
            "--cluster-file",
            str(self.cluster_file),
        ]
        for name, value in self._options.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        with (self.folder / f"output-{self._starts}").open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, env=_clean_environment())

    async def ready(self) -> None:
        """Return when it says what to type next."""

        async def said() -> str:
            assert self.process is not None
            assert self.process.poll() is None, self.output
            return self.output

        await until(said, lambda output: "Ctrl-C stops everything" in output, seconds=SECONDS)

    def send(self, kind: signal.Signals) -> int:
        """Send it a signal; returns its exit code."""
        assert self.process is not None
        self.process.send_signal(kind)
        return self.process.wait(SECONDS)

    def ended(self) -> int:
        """The exit code of a start that ends by itself."""
        assert self.process is not None
        return self.process.wait(SECONDS)

    async def nothing_left(self) -> None:
        """Return when no process has anything to do with its directory."""

        async def left() -> list[str]:
            return [command for command in _commands() if str(self.folder) in command]

        await until(left, lambda commands: not commands, seconds=SECONDS)


def servers_of(embedded: Embedded) -> list[str]:
    """The processes that it started, by what they run."""
    assert embedded.process is not None
    own = f"--data {embedded.home}"
    found = [command for command in _commands() if str(embedded.home) in command and own not in command]
    return sorted(re.sub(r".*(server start-dev|emulators\.\w+).*", r"\1", command) for command in found)


def _commands() -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue  # It ended meanwhile.
    return found


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("TEMPORAL_", "PENSTOCK_", "OTEL_"))}
