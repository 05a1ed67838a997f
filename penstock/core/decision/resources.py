"""Arithmetic on vectors of resources."""

from penstock.model.resources import Vector


def holds_up_to(free: Vector, need: Vector, limit: int) -> int:
    """How many times the need fits into what is free, up to a limit."""
    for have, wanted in zip(free, need, strict=True):
        if have < wanted:
            return 0
        if wanted and have // wanted < limit:
            limit = have // wanted
    return limit


def smallest(needs: list[Vector]) -> Vector:
    """The least of every dimension: a host with less than this of anything can take none of them."""
    if not needs:
        return (0, 0, 0, 0, 0)
    cpu, memory, disk, gpu, tpu = (min(column) for column in zip(*needs, strict=True))
    return (cpu, memory, disk, gpu, tpu)
