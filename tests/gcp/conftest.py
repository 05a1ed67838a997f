"""One emulator for all tests of a process, each with a project and a zone of its own on it; and a machine without a login."""

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
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nobody is logged in; its home."""
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    return tmp_path
