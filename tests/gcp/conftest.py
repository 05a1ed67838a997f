"""One emulator for all tests of a process, with a project and a zone for each; and a machine without Google credentials."""

from collections.abc import Iterator
from pathlib import Path

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


@pytest.fixture
def no_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home directory of a machine without Google credentials."""
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    return tmp_path
