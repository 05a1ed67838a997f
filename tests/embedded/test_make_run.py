"""`make run` passes the end of the service on: quietly after Ctrl-C, with an error after a failure."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.embedded.launched import ROOT, SECONDS

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
INTERRUPTED = "#!/bin/sh\ntrap 'exit 130' INT\necho up\nread -r _\n"


def _make_run(folder: Path, script: str) -> "subprocess.Popen[str]":
    """Run the Makefile's `run` with a script instead of Python and nothing to install."""
    python = folder / "python"
    python.write_text(script)
    python.chmod(0o755)
    return subprocess.Popen(
        ["make", "run", f"BIN={folder}", "RUN="],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PROVIDER"))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # A background test run ignores SIGINT.
    )


@pytest.mark.parametrize("_attempt", range(20))
def test_ctrl_c_ends_it_without_an_error_of_make(tmp_path: Path, _attempt: int) -> None:
    """Make and the service hear of Ctrl-C at the same moment, and either may act on it first."""
    make = _make_run(tmp_path, INTERRUPTED)
    assert make.stdout is not None
    assert make.stdout.readline() == "up\n"
    os.killpg(make.pid, signal.SIGINT)  # As a terminal does.
    _, errors = make.communicate(timeout=SECONDS)

    assert (make.returncode, errors) == (-signal.SIGINT, "")  # A shell shows that as 130.


def test_a_failure_is_an_error_of_make_too(tmp_path: Path) -> None:
    make = _make_run(tmp_path, "#!/bin/sh\nexit 2\n")
    _, errors = make.communicate(timeout=SECONDS)

    assert make.returncode == 2
    assert "Error" in errors
