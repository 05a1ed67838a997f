"""The loopback addresses that hosts live at."""

from collections.abc import Container, Iterator
from ipaddress import IPv4Address

_FIRST = IPv4Address("127.64.0.1")
"""Far from the addresses that other programs on a machine use."""


def free_addresses(taken: Container[str]) -> Iterator[str]:
    """Addresses that nobody has, the lowest first, so that those of deleted machines come back."""
    number = int(_FIRST)
    while True:
        address = str(IPv4Address(number))
        if address not in taken and not address.endswith((".0", ".255")):
            yield address
        number += 1
