"""Loopback addresses for emulated hosts."""

from collections.abc import Container, Iterator
from ipaddress import IPv4Address

_FIRST = IPv4Address("127.64.0.1")
"""Far from the loopback addresses that other programs use."""


def free_addresses(taken: Container[str]) -> Iterator[str]:
    """Unused addresses, lowest first, so that those of deleted machines are reused."""
    number = int(_FIRST)
    while True:
        address = str(IPv4Address(number))
        if address not in taken and not address.endswith((".0", ".255")):
            yield address
        number += 1
