"""Arithmetic on resource vectors: how many tasks fit, and the minimum of several needs."""

from penstock.model.resources import Vector


def holds_up_to(free: Vector, need: Vector, limit: int) -> int:
    """How many times the need fits into the free resources, up to a limit."""
    for have, wanted in zip(free, need, strict=True):
        if have < wanted:
            return 0
        if wanted and have // wanted < limit:
            limit = have // wanted
    return limit


def smallest(needs: list[Vector]) -> Vector:
    """The minimum of every dimension: a host with less in any dimension can take none of the needs."""
    if not needs:
        return (0, 0, 0, 0, 0)
    cpu, memory, disk, gpu, tpu = (min(column) for column in zip(*needs, strict=True))
    return (cpu, memory, disk, gpu, tpu)
