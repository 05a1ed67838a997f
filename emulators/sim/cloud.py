"""What happens in the simulated cloud: resources, a behaviour and the time in, a changed resource or a refusal out."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from emulators.sim.behaviour import Behaviour, Scope
from penstock.model.units import Moment, Positive
from penstock.model.value import Value

PROJECT = "sim"
"""The only project there is."""
SLICE_LABEL = "penstock-slice"
"""The label from which a host's start-up takes the slice id that its health check answers with."""
_RATE_WINDOW_SECONDS = 1.0


class Phase(StrEnum):
    """Where a resource is in its life."""

    QUEUED = "queued"
    CREATING = "creating"
    BOOTING = "booting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    DELETING = "deleting"
    GONE = "gone"


class Refusal(Exception):
    """An answer other than yes: HTTP status, code, sentence, and what else the code needs."""

    def __init__(self, status: int, code: str, message: str, **details: str | float) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"code": code, "message": message, **details}}


class Request(Value):
    """What a create call asks for."""

    name: Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$")]
    labels: dict[str, str] = Field(default_factory=dict)
    hosts: Positive = 1
    variant: str | None = None
    preemptible: bool = False
    queued: bool = False


class Resource(Request):
    """A resource as stored. Its phase follows from its moments and the time, so stopping the cloud loses nothing."""

    zone: str
    created_at: Moment
    booting_at: Moment | None = None
    running_at: Moment | None = None
    healthy_at: Moment | None = None
    preempted_at: Moment | None = None
    gone_at: Moment | None = None
    dead_hosts: tuple[int, ...] = ()

    def phase(self, now: datetime) -> Phase:
        """The phase at a time."""
        if self.gone_at is not None:
            return Phase.GONE if now >= self.gone_at else Phase.DELETING
        if self.preempted_at is not None:
            return Phase.PREEMPTED
        if self.booting_at is None or self.running_at is None:
            return Phase.QUEUED
        if now >= self.running_at:
            return Phase.RUNNING
        return Phase.BOOTING if now >= self.booting_at else Phase.CREATING

    def answers(self, host: int, now: datetime) -> bool:
        """Whether a host answers its health check."""
        started = self.healthy_at is not None and now >= self.healthy_at
        return started and self.phase(now) is Phase.RUNNING and 0 <= host < self.hosts and host not in self.dead_hosts


def region_of(zone: str) -> str:
    """The zone without its last part."""
    return zone.rsplit("-", 1)[0]


def subject_of(scope: Scope, zone: str) -> str:
    """The name of the zone, its region, or the project."""
    return {Scope.ZONE: zone, Scope.REGION: region_of(zone), Scope.PROJECT: PROJECT}[scope]


def permit(behaviour: Behaviour, zone: str) -> None:
    """Refuse every call to a zone that may not be entered."""
    if behaviour.permission_denied is not None:
        scope = behaviour.permission_denied
        subject = subject_of(scope, zone)
        raise Refusal(403, "PERMISSION_DENIED", f"no permission in {scope} {subject}", scope=scope, subject=subject)


def create(
    request: Request, zone: str, *, behaviour: Behaviour, existing: Mapping[str, Resource], now: datetime
) -> tuple[Resource, Behaviour]:
    """The new resource, queued or admitted, and the behaviour with its counters run down.

    A name that exists is told before quota and stock, so that a repeated create is never refused for want of room.
    """
    permit(behaviour, zone)
    if behaviour.invalid:
        raise Refusal(400, "INVALID", f"zone {zone} does not accept variant {request.variant!r}")
    _refuse_haste(zone, behaviour, existing.values(), now)
    if request.name in existing:
        raise Refusal(409, "ALREADY_EXISTS", f"{request.name} exists")
    _refuse_beyond_quota(zone, behaviour, existing.values())
    made = Resource(**request.model_dump(), zone=zone, created_at=now)
    if behaviour.dry or not _has_room(zone, behaviour, existing.values()):
        if not request.queued:
            raise Refusal(503, "STOCKOUT", f"zone {zone} has no more capacity for {request.variant or 'machines'}")
    elif not (request.queued and behaviour.hold_queue):
        made = admitted(made, behaviour, now)
    return made, _after_create(behaviour)


def admitted(resource: Resource, behaviour: Behaviour, now: datetime) -> Resource:
    """The resource, on its way from now on."""
    booting_at = now + timedelta(seconds=behaviour.create_latency_seconds)
    running_at = booting_at + timedelta(seconds=behaviour.boot_latency_seconds)
    healthy_at = running_at + timedelta(seconds=behaviour.init_latency_seconds)
    return resource.model_copy(update={"booting_at": booting_at, "running_at": running_at, "healthy_at": healthy_at})


def next_admitted(
    waiting: Collection[Resource], *, behaviour: Behaviour, existing: Mapping[str, Resource], now: datetime
) -> Resource | None:
    """The first of those that wait in a zone, admitted, if there is room for it now."""
    first = min(waiting, key=lambda resource: (resource.created_at, resource.name), default=None)
    if first is None or behaviour.hold_queue or behaviour.dry or not _has_room(first.zone, behaviour, existing.values()):
        return None
    return admitted(first, behaviour, now)


def delete(resource: Resource, *, behaviour: Behaviour, now: datetime) -> Resource:
    """The resource on its way out; what is already on its way keeps its time."""
    permit(behaviour, resource.zone)
    if resource.gone_at is not None:
        return resource
    gone_at = now + timedelta(seconds=behaviour.delete_latency_seconds)
    return resource.model_copy(update={"gone_at": gone_at})


def takeable(resource: Resource, now: datetime) -> bool:
    """Whether the cloud has given the resource and can take it away."""
    return resource.phase(now) in (Phase.CREATING, Phase.BOOTING, Phase.RUNNING)


def preempted(resource: Resource, now: datetime) -> Resource:
    """The resource, taken away by the cloud; it stays visible until it is deleted."""
    if not takeable(resource, now):
        raise Refusal(409, "NOT_RUNNING", f"{resource.name} is {resource.phase(now)}; only what was given can be taken away")
    return resource.model_copy(update={"preempted_at": now})


def without_host(resource: Resource, host: int) -> Resource:
    """The resource with one host that answers no more."""
    if not 0 <= host < resource.hosts:
        raise Refusal(404, "NOT_FOUND", f"{resource.name} has hosts 0 to {resource.hosts - 1}")
    return resource.model_copy(update={"dead_hosts": tuple(sorted({*resource.dead_hosts, host}))})


def _refuse_haste(zone: str, behaviour: Behaviour, existing: Collection[Resource], now: datetime) -> None:
    if behaviour.creates_per_second is None:
        return
    window = timedelta(seconds=_RATE_WINDOW_SECONDS)
    recent = sorted(resource.created_at for resource in existing if resource.zone == zone and resource.created_at > now - window)
    if len(recent) >= behaviour.creates_per_second:
        wait = (recent[-behaviour.creates_per_second] + window - now).total_seconds()
        raise Refusal(429, "RATE_LIMITED", f"zone {zone} takes {behaviour.creates_per_second} creates a second", retry_after=wait)


def _refuse_beyond_quota(zone: str, behaviour: Behaviour, existing: Collection[Resource]) -> None:
    if behaviour.quota is None:
        return
    scope, limit = behaviour.quota.scope, behaviour.quota.limit
    subject = subject_of(scope, zone)
    if sum(subject_of(scope, resource.zone) == subject for resource in existing) >= limit:
        raise Refusal(429, "QUOTA_EXCEEDED", f"{scope} {subject} may have {limit} resources", scope=scope, subject=subject)


def _has_room(zone: str, behaviour: Behaviour, existing: Collection[Resource]) -> bool:
    if behaviour.capacity is None:
        return True
    given = sum(r.zone == zone and r.booting_at is not None and r.preempted_at is None for r in existing)
    return given < behaviour.capacity


def _after_create(behaviour: Behaviour) -> Behaviour:
    stock = behaviour.stockout_after
    return behaviour.model_copy(
        update={
            "lost_replies": max(0, behaviour.lost_replies - 1),
            "stockout_after": stock - 1 if stock else stock,
        }
    )
