"""Rules of the simulated cloud as pure functions: resources, behaviour and time in; a changed resource or an error out."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, TypeVar

from pydantic import Field

from emulators.behaviour import name_in_scope
from emulators.sim.behaviour import Behaviour
from penstock.model.failures import Notice, NoticeKind
from penstock.model.units import Moment, Positive
from penstock.model.value import Value

PROJECT = "sim"
"""The only project of the simulated cloud."""
SLICE_LABEL = "penstock-slice"
"""The label that holds the slice id with which the hosts answer health checks."""
_RATE_WINDOW_SECONDS = 1.0


class Phase(StrEnum):
    """Phase of a resource, from queued to gone."""

    QUEUED = "queued"
    CREATING = "creating"
    BOOTING = "booting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    DELETING = "deleting"
    GONE = "gone"


class ApiError(Exception):
    """A call that is refused: HTTP status, error code, message, and details that depend on the code."""

    def __init__(self, status: int, code: str, message: str, **details: str | float) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"code": code, "message": message, **details}}


class Request(Value):
    """Body of a create call."""

    name: Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$")]
    labels: dict[str, str] = Field(default_factory=dict)
    hosts: Positive = 1
    variant: str | None = None
    preemptible: bool = False
    queued: bool = False


class Resource(Request):
    """A resource as stored. Its phase is computed from its moments and the time, so it advances while the server is down."""

    zone: str
    created_at: Moment
    booting_at: Moment | None = None
    running_at: Moment | None = None
    healthy_at: Moment | None = None
    preempted_at: Moment | None = None
    gone_at: Moment | None = None
    dead_hosts: tuple[int, ...] = ()
    notice: Notice | None = None
    """What was announced for it. It comes true by itself, unless it is taken back or the resource deleted before."""

    @property
    def ends_at(self) -> datetime | None:
        """When it is gone: deleted, or with the end of its reservation."""
        reserved = self.notice is not None and self.notice.kind is NoticeKind.RESERVATION_END
        ends = (self.gone_at, self.notice.until if self.notice is not None and reserved else None)
        return min((end for end in ends if end is not None), default=None)

    def has_come_true(self, kind: NoticeKind, now: datetime) -> bool:
        """Whether the moment of a notice of this kind has come."""
        return self.notice is not None and self.notice.kind is kind and now >= self.notice.until

    def is_preempted(self, now: datetime) -> bool:
        """Whether the cloud has taken it back."""
        return self.preempted_at is not None or self.has_come_true(NoticeKind.PREEMPTION, now)

    def phase(self, now: datetime) -> Phase:
        """The phase at a time."""
        if self.ends_at is not None and now >= self.ends_at:
            return Phase.GONE
        if self.gone_at is not None:
            return Phase.DELETING
        if self.is_preempted(now):
            return Phase.PREEMPTED
        if self.booting_at is None or self.running_at is None:
            return Phase.QUEUED
        if now >= self.running_at:
            return Phase.RUNNING
        return Phase.BOOTING if now >= self.booting_at else Phase.CREATING

    def answers(self, host: int, now: datetime) -> bool:
        """Whether a host answers its health check. None does once an announced maintenance has begun."""
        started = self.healthy_at is not None and now >= self.healthy_at
        if self.has_come_true(NoticeKind.MAINTENANCE, now):
            return False
        return started and self.phase(now) is Phase.RUNNING and 0 <= host < self.hosts and host not in self.dead_hosts


R = TypeVar("R", bound=Resource)


def check_permission(behaviour: Behaviour, zone: str) -> None:
    """Refuse every call to a zone without permission."""
    if behaviour.permission_denied is not None:
        scope = behaviour.permission_denied
        subject = name_in_scope(scope, project=PROJECT, zone=zone)
        raise ApiError(403, "PERMISSION_DENIED", f"no permission in {scope} {subject}", scope=scope, subject=subject)


def create(
    request: Request, zone: str, *, behaviour: Behaviour, existing: Mapping[str, Resource], now: datetime
) -> tuple[Resource, Behaviour]:
    """The new resource, queued or admitted, and the behaviour with its counters decremented.

    An existing name is checked before quota and capacity, so that a repeated create is never refused for lack of capacity.
    """
    check_permission(behaviour, zone)
    if behaviour.invalid:
        raise ApiError(400, "INVALID", f"zone {zone} does not accept variant {request.variant!r}")
    _check_rate(zone, behaviour, existing.values(), now)
    if request.name in existing:
        raise ApiError(409, "ALREADY_EXISTS", f"{request.name} exists")
    _check_quota(zone, behaviour, existing.values())
    resource = Resource(**request.model_dump(include=set(Request.model_fields)), zone=zone, created_at=now)
    if behaviour.out_of_capacity or not _has_capacity(zone, behaviour, existing.values(), now):
        if not request.queued:
            raise ApiError(503, "STOCKOUT", f"zone {zone} has no more capacity for {request.variant or 'machines'}")
    elif not (request.queued and behaviour.hold_queue):
        resource = admitted(resource, behaviour, now)
    return resource, _after_create(behaviour)


def admitted(resource: R, behaviour: Behaviour, now: datetime) -> R:
    """The resource with its creation started."""
    booting_at = now + timedelta(seconds=behaviour.create_latency_seconds)
    running_at = booting_at + timedelta(seconds=behaviour.boot_latency_seconds)
    healthy_at = running_at + timedelta(seconds=behaviour.init_latency_seconds)
    return resource.model_copy(update={"booting_at": booting_at, "running_at": running_at, "healthy_at": healthy_at})


def next_admitted(queued: Collection[R], *, behaviour: Behaviour, existing: Mapping[str, Resource], now: datetime) -> R | None:
    """The oldest queued resource of a zone, admitted, if there is capacity for it now."""
    first = min(queued, key=lambda resource: (resource.created_at, resource.name), default=None)
    if first is None or behaviour.hold_queue or behaviour.out_of_capacity:
        return None
    return admitted(first, behaviour, now) if _has_capacity(first.zone, behaviour, existing.values(), now) else None


def delete(resource: R, *, behaviour: Behaviour, now: datetime) -> R:
    """The resource with its deletion started; a deletion in progress keeps its end."""
    check_permission(behaviour, resource.zone)
    if resource.gone_at is not None:
        return resource
    return resource.model_copy(update={"gone_at": now + timedelta(seconds=behaviour.delete_latency_seconds)})


def can_be_preempted(resource: Resource, now: datetime) -> bool:
    """Whether the resource was admitted and is neither preempted nor deleted."""
    return resource.phase(now) in (Phase.CREATING, Phase.BOOTING, Phase.RUNNING)


def preempted(resource: R, now: datetime) -> R:
    """The resource after a preemption; it stays visible until it is deleted."""
    if not can_be_preempted(resource, now):
        phase = resource.phase(now)
        raise ApiError(409, "NOT_RUNNING", f"{resource.name} is {phase}; only an admitted resource can be preempted")
    return resource.model_copy(update={"preempted_at": now})


def with_notice(resource: R, notice: Notice | None, now: datetime) -> R:
    """The resource with what is announced for it; None takes the announcement back, which is too late once it has come true."""
    if resource.notice is not None and resource.has_come_true(resource.notice.kind, now):
        came = f"{resource.notice.until:%Y-%m-%d %H:%M:%S}Z"
        raise ApiError(409, "TOO_LATE", f"{resource.name}: {resource.notice.kind.noun} has come at {came}")
    if not can_be_preempted(resource, now):
        phase = resource.phase(now)
        raise ApiError(409, "NOT_RUNNING", f"{resource.name} is {phase}; only an admitted resource can have a notice")
    return resource.model_copy(update={"notice": notice})


def with_dead_host(resource: R, host: int) -> R:
    """The resource with one more host that does not answer health checks."""
    if not 0 <= host < resource.hosts:
        raise ApiError(404, "NOT_FOUND", f"{resource.name} has hosts 0 to {resource.hosts - 1}")
    return resource.model_copy(update={"dead_hosts": tuple(sorted({*resource.dead_hosts, host}))})


def _check_rate(zone: str, behaviour: Behaviour, existing: Collection[Resource], now: datetime) -> None:
    if behaviour.creates_per_second is None:
        return
    window = timedelta(seconds=_RATE_WINDOW_SECONDS)
    recent = sorted(resource.created_at for resource in existing if resource.zone == zone and resource.created_at > now - window)
    if len(recent) >= behaviour.creates_per_second:
        wait = (recent[-behaviour.creates_per_second] + window - now).total_seconds()
        limit = f"zone {zone} allows {behaviour.creates_per_second} creates per second"
        raise ApiError(429, "RATE_LIMITED", limit, retry_after=wait)


def _check_quota(zone: str, behaviour: Behaviour, existing: Collection[Resource]) -> None:
    if behaviour.quota is None:
        return
    scope, limit = behaviour.quota.scope, behaviour.quota.limit
    subject = name_in_scope(scope, project=PROJECT, zone=zone)
    if sum(name_in_scope(scope, project=PROJECT, zone=resource.zone) == subject for resource in existing) >= limit:
        raise ApiError(429, "QUOTA_EXCEEDED", f"{scope} {subject} may have {limit} resources", scope=scope, subject=subject)


def _has_capacity(zone: str, behaviour: Behaviour, existing: Collection[Resource], now: datetime) -> bool:
    if behaviour.capacity is None:
        return True
    used = sum(r.zone == zone and r.booting_at is not None and not r.is_preempted(now) for r in existing)
    return used < behaviour.capacity


def _after_create(behaviour: Behaviour) -> Behaviour:
    left = behaviour.stockout_after
    return behaviour.model_copy(
        update={
            "lost_replies": max(0, behaviour.lost_replies - 1),
            "stockout_after": left - 1 if left else left,
        }
    )
