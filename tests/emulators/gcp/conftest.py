"""One Google emulator for all tests of a session, and clients of its Compute API; every test uses its own zone."""

from collections.abc import Iterator

import pytest
from google.cloud import compute_v1

from tests.emulators.gcp.zones import Clients
from tests.emulators.running import kept_running
from tests.emulators.running_gcp import RunningGcp


@pytest.fixture(scope="session")
def gcp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGcp]:
    with kept_running(RunningGcp(tmp_path_factory.mktemp("gcp") / "gcp.db")) as running:
        yield running


@pytest.fixture(scope="session")
def clients(gcp: RunningGcp) -> Clients:
    return gcp.compute(compute_v1.InstancesClient), gcp.compute(compute_v1.ZoneOperationsClient)
