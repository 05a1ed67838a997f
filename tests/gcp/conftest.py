"""One emulator for all tests of a process; every test has a project and a zone of its own on it."""

from collections.abc import Iterator

import pytest

from tests.emulators.running_gcp import RunningGcp
from tests.gcp.clouds import Endpoints


@pytest.fixture(scope="session")
def endpoints(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    gcp = RunningGcp(tmp_path_factory.mktemp("gcp") / "gcp.db")
    try:
        gcp.start()
        yield Endpoints.of(gcp)
    finally:
        gcp.kill()
