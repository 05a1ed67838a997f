"""One daemon of local hosts for all tests of a session; every test uses its own zone."""

from collections.abc import Iterator

import pytest

from tests.activities.local_cloud import RunningLocal
from tests.emulators.running import ensure_running


@pytest.fixture(scope="session")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLocal]:
    daemon = RunningLocal(tmp_path_factory.mktemp("local") / "hosts")
    try:
        yield daemon
    finally:
        daemon.shut_down()


@pytest.fixture
def daemon(shared_daemon: RunningLocal) -> RunningLocal:
    """The shared daemon, started again if an earlier test stopped it."""
    return ensure_running(shared_daemon)
