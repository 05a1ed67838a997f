"""Google's TPU variants: how many chips and hosts a slice of each has."""

import re
from typing import NamedTuple

_CHIPS_PER_HOST = 4
_V5P_LARGEST_CORES = 12288
_V4_LARGEST_CORES = 4096
_PARTS_OF_A_CUBE = (4, 8, 16, 32)
_CUBE = 64
"""Chips of a cube, the torus that larger slices are built from."""
_LITE_SINGLE_HOST = (1, 4, 8)
_LITE_MULTI_HOST = (16, 32, 64, 128, 256)
_VARIANT = re.compile(r"(v4|v5p|v5litepod|v6e)-([0-9]{1,9})")


class TpuVariant(NamedTuple):
    """The hosts and chips of one slice of a variant."""

    hosts: int
    chips_per_host: int

    @property
    def chips(self) -> int:
        """Chips of the whole slice."""
        return self.hosts * self.chips_per_host


def tpu_variant(name: str) -> TpuVariant | None:
    """The size of a variant; None if Google offers no such variant.

    The number after v4 and v5p counts TensorCores, two per chip; after v5litepod and v6e it counts chips. Up to 8 chips of
    v5litepod and v6e share one host; every larger slice, and every v4 and v5p, has four chips per host. A v4 or v5p slice is
    part of a cube of 64 chips, or several whole cubes.
    """
    match = _VARIANT.fullmatch(name)
    if match is None:
        return None
    family, number = match[1], int(match[2])
    if family in ("v4", "v5p"):
        chips, largest = number // 2, _V4_LARGEST_CORES if family == "v4" else _V5P_LARGEST_CORES
        if number % 2 or number > largest or not (chips in _PARTS_OF_A_CUBE or (chips and chips % _CUBE == 0)):
            return None
        return TpuVariant(chips // _CHIPS_PER_HOST, _CHIPS_PER_HOST)
    if number in _LITE_SINGLE_HOST:
        return TpuVariant(1, number)
    return TpuVariant(number // _CHIPS_PER_HOST, _CHIPS_PER_HOST) if number in _LITE_MULTI_HOST else None
