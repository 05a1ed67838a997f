"""A whole service on Google's emulated clouds: a Temporal server, the emulator and a worker, each a real process."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.emulators.running_gcp import RunningGcp
from tests.workflows.machine import Machine


class GcpMachine(Machine):
    """A machine with Google's emulated clouds; `environment` is added to the worker's."""

    def __init__(self, folder: Path, **environment: str) -> None:
        super().__init__(folder)
        self.gcp = RunningGcp(folder / "google.sqlite")
        self._environment = environment

    @property
    def url(self) -> str:
        """The address of the Compute API and of the emulator's admin API."""
        return self.gcp.url

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of commands and workers for this machine."""
        google = {
            "PENSTOCK_GCP_ENDPOINT": self.gcp.url,
            "PENSTOCK_GCP_TPU_ENDPOINT": self.gcp.tpu_address,
            "PENSTOCK_GCP_HEALTH_PORT": str(self.gcp.health_port),
        }
        return super().environment | google | self._environment

    def start(self) -> None:
        """Start all three; return when the worker is ready."""
        self.server.start()
        self.gcp.start()
        self.worker = self.new_worker("worker")
        self.await_server()
        self.start_worker()

    def stop(self) -> None:
        """Kill all three."""
        super().stop()
        self.gcp.kill()


@contextmanager
def running_gcp_machine(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[GcpMachine]:
    """A running machine, whose processes end with the block."""
    machine = GcpMachine(folder, **(environment or {}))
    try:
        machine.start()
        yield machine
    finally:
        machine.stop()
