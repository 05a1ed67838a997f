"""`make run` starts a stuck service again, and passes any other end on: quietly after Ctrl-C, with an error after a failure."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.embedded.launched import ROOT, SECONDS

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
ENDS = """#!/bin/sh
echo up
echo up >> "$0.starts"
[ $(wc -l < "$0.starts") -lt 3 ] && exit 75
exit {code}
"""
"""Ends twice as a service does whose worker is stuck in a workflow, and then otherwise."""
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


@pytest.mark.parametrize(("code", "ends_with"), [(0, 0), (1, 2), (2, 2), (74, 2), (137, 2)])
def test_a_service_with_a_stuck_worker_is_started_again_and_one_that_ended_otherwise_is_not(
    tmp_path: Path, code: int, ends_with: int
) -> None:
    make = _make_run(tmp_path, ENDS.format(code=code))
    try:
        output, _ = make.communicate(timeout=SECONDS)
    finally:
        if make.poll() is None:
            os.killpg(make.pid, signal.SIGKILL)

    assert (output.count("up\n"), make.returncode) == (3, ends_with)


def test_a_failure_is_an_error_of_make_too(tmp_path: Path) -> None:
    make = _make_run(tmp_path, "#!/bin/sh\nexit 2\n")
    _, errors = make.communicate(timeout=SECONDS)

    assert make.returncode == 2
    assert "Error" in errors
