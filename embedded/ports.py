"""Free TCP ports on the loopback interface."""

import fcntl
import os
import socket
import tempfile
from pathlib import Path
from typing import TextIO

LOOPBACK = "127.0.0.1"
"""Servers listen here, so only this machine reaches them."""


def port_is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_port(preferred: int = 0) -> int:
    """The preferred port if it is free and no other launcher claims it, else any free port."""
    if preferred and port_is_free(preferred) and _claimed(preferred):
        return preferred
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((LOOPBACK, 0))
        probe.listen(1)
        _leave_in_time_wait(probe)
        return int(probe.getsockname()[1])


def _leave_in_time_wait(listening: socket.socket) -> None:
    """Leave one connection in TIME_WAIT, so that the kernel does not hand the port out as an ephemeral one for a minute.

    A server that binds the port by number still gets it.
    """
    with socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
        accepted.close()


_CLAIMS: dict[int, TextIO] = {}
"""Locked files, held open until this process ends: launchers that start in the same second see the same ports as free."""


def _claimed(port: int) -> bool:
    """Claim the port; False if another launcher has claimed it."""
    if port in _CLAIMS:
        return True
    claim = (Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}-port-{port}").open("a")
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        claim.close()
        return False
    _CLAIMS[port] = claim
    return True
