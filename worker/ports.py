"""Free ports of this machine."""

import fcntl
import os
import socket
import tempfile
from pathlib import Path
from typing import TextIO

LOOPBACK = "127.0.0.1"
"""Nobody but this machine."""


def port_is_free(port: int) -> bool:
    """Whether somebody could listen there now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_port(preferred: int = 0) -> int:
    """The preferred port if it is free and no other process of ours is about to listen there, else any that is."""
    if preferred and port_is_free(preferred) and _claimed(preferred):
        return preferred
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((LOOPBACK, 0))
        probe.listen(1)
        _let_rest(probe)
        return int(probe.getsockname()[1])


def _let_rest(listening: socket.socket) -> None:
    """Leave a connection of the port in its last state: for a minute the kernel gives the port to nobody who asks for any.

    Servers, who ask for it by number, get it.
    """
    with socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
        accepted.close()


_CLAIMS: dict[int, TextIO] = {}
"""Open for as long as this process lives: services that start in the same second find the same ports free."""


def _claimed(port: int) -> bool:
    """Whether nobody else claims the port from now on."""
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
