"""Free ports of this machine."""

import socket

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
    """The preferred port if it is free, else any that is."""
    if preferred and port_is_free(preferred):
        return preferred
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
