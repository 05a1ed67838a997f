"""Resources of hosts and tasks as integers: milli-cores, bytes of memory and disk, milli-GPUs, TPU chips."""

from functools import cached_property
from typing import Self, TypeAlias

from pydantic import Field

from penstock.model.units import MILLI, Bytes, Count, Milli, format_bytes, format_milli
from penstock.model.value import Value

Vector: TypeAlias = tuple[int, int, int, int, int]
"""(milli-cores, memory bytes, disk bytes, milli-GPUs, TPU chips): the form the core computes with."""

DIMENSIONS = ("cpu", "memory", "disk", "gpu", "tpu")
_IN_MILLI = ("cpu", "gpu")
GPU, TPU = 3, 4
"""Positions of the accelerators in a vector."""


class Resources(Value):
    """An amount of each resource; 0 by default."""

    cpu_milli: Milli = Field(default=0, alias="cpu")
    memory_bytes: Bytes = Field(default=0, alias="memory")
    disk_bytes: Bytes = Field(default=0, alias="disk")
    gpu_milli: Milli = Field(default=0, alias="gpu")
    tpu_chips: Count = Field(default=0, alias="tpu")

    @cached_property
    def vector(self) -> Vector:
        """The amounts in the order of `DIMENSIONS`."""
        return (self.cpu_milli, self.memory_bytes, self.disk_bytes, self.gpu_milli, self.tpu_chips)

    @classmethod
    def of(cls, vector: Vector) -> Self:
        """The resources of a vector."""
        return cls(**{name: vector[d] / MILLI if name in _IN_MILLI else vector[d] for d, name in enumerate(DIMENSIONS)})

    def __str__(self) -> str:
        named = [f"{name} {format_amount(i, self.vector[i])}" for i, name in enumerate(DIMENSIONS) if self.vector[i]]
        return ", ".join(named) or "nothing"


def format_amount(dimension: int, amount: int) -> str:
    """One dimension of a vector, as people write it."""
    if DIMENSIONS[dimension] in ("memory", "disk"):
        return format_bytes(amount)
    return format_milli(amount) if DIMENSIONS[dimension] in _IN_MILLI else str(amount)
