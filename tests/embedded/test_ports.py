"""Free ports for servers that are about to start."""

import subprocess
import sys

from embedded.ports import free_port

CLAIM = "from embedded.ports import free_port; print(free_port({port}), flush=True); input()"


def test_services_that_start_at_once_do_not_take_the_same_port() -> None:
    wanted = free_port()
    command = [sys.executable, "-c", CLAIM.format(port=wanted)]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    try:
        found = [int(process.stdout.readline()) for process in started if process.stdout]
    finally:
        for process in started:
            process.communicate("\n")
    assert found.count(wanted) == 1, found
    assert len(set(found)) == len(found)
