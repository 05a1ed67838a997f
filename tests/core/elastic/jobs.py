"""Jobs of a controller in simulated time, and the room that they find on hosts."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from penstock.model.cluster import ScaleGroup
from penstock.model.units import MILLI

Hosts: TypeAlias = tuple[tuple[str, int], ...]
"""Hosts by slice and position."""


class Job(NamedTuple):
    """One task, or a gang of equal tasks that run together, one on each host, and for how long."""

    id: str
    cpu: int
    tpu: int = 0
    gang: int = 0
    seconds: float = 600.0

    @property
    def item(self) -> dict[str, Any]:
        """As an item of a demand message."""
        resources = {"cpu": self.cpu} | ({"tpu": self.tpu} if self.tpu else {})
        device = {"device": {"type": "tpu"}} if self.tpu else {}
        gang = {"gang": {"size": self.gang}} if self.gang else {}
        return {"id": self.id, "resources": resources} | device | gang


class Running(NamedTuple):
    """A job under way: on which hosts of which slices, and until when."""

    job: Job
    hosts: Hosts
    until: datetime

    @property
    def slices(self) -> set[str]:
        """The slices that it runs on."""
        return {owner for owner, _ in self.hosts}


class Size(NamedTuple):
    """The hosts of a slice, and what each has."""

    hosts: int
    cpu: int
    tpu: int


def size_of(group: ScaleGroup) -> Size:
    """The size of a group's slices."""
    cpu, *_, tpu = group.host.vector
    return Size(group.hosts_per_slice, cpu // MILLI, tpu)


class HostRoom:
    """What is free on one host. A task on TPU chips has its host alone."""

    def __init__(self, size: Size) -> None:
        self._size = size
        self.cpu, self.tpu = size.cpu, size.tpu

    def fits(self, job: Job) -> bool:
        """Whether the host has room for one task of the job."""
        return (self.is_whole or not job.tpu) and job.cpu <= self.cpu and job.tpu <= self.tpu

    def take(self, job: Job) -> None:
        """Start one task of the job."""
        self.cpu -= self._size.cpu if job.tpu else job.cpu
        self.tpu -= self._size.tpu if job.tpu else 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing runs on it."""
        return (self.cpu, self.tpu) == (self._size.cpu, self._size.tpu)


Rooms: TypeAlias = Mapping[str, list[HostRoom]]


def hosts_for(rooms: Rooms, job: Job, *, spread: bool) -> Hosts:
    """Where a job runs: whole, empty slices of one size for a gang, else the first or the emptiest host; none without room."""
    return _whole_slices(rooms, job) if job.gang else _one_host(rooms, job, spread=spread)


def _one_host(rooms: Rooms, job: Job, *, spread: bool) -> Hosts:
    fitting = [(owner, i, host) for owner, hosts in rooms.items() for i, host in enumerate(hosts) if host.fits(job)]
    if not fitting:
        return ()
    owner, i, _ = max(fitting, key=lambda each: each[2].cpu) if spread else fitting[0]
    return ((owner, i),)


def _whole_slices(rooms: Rooms, job: Job) -> Hosts:
    """Whole, empty slices of one size for a gang."""
    by_size: dict[int, list[str]] = {}
    for owner, hosts in rooms.items():
        if hosts and all(host.is_whole and host.fits(job) for host in hosts) and job.gang % len(hosts) == 0:
            by_size.setdefault(len(hosts), []).append(owner)
    for size, owners in by_size.items():
        if size * len(owners) >= job.gang:
            return tuple((owner, i) for owner in owners[: job.gang // size] for i in range(size))
    return ()
