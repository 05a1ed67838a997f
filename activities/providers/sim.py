"""The provider of the simulated cloud: HTTP calls, and its error codes translated into the port's errors."""

import asyncio
from http import HTTPStatus
from typing import Any, TypeVar, overload

import aiohttp
from pydantic import BaseModel, ValidationError
from yarl import URL

from activities.providers.port import (
    Adopted,
    Conflict,
    Created,
    Deleting,
    Gone,
    Host,
    Invalid,
    Labels,
    Listing,
    Notice,
    Order,
    PermissionDenied,
    Phase,
    Provider,
    ProviderError,
    Queued,
    QuotaExceeded,
    RateLimited,
    Ref,
    Scope,
    Sighting,
    Stockout,
    Transient,
    checked,
)
from activities.providers.runtime import Opener, ProcessContext, ProviderRuntime, Settings
from penstock.contract.addresses import DEFAULT_SIM_URL
from penstock.model.units import Moment

SIM_URL = "PENSTOCK_SIM_URL"
"""The environment variable with the simulated cloud's address, for groups without `provider.url`."""
DEFAULT_TIMEOUT_SECONDS = 20.0
"""Far more than the simulated cloud needs, and short enough for an activity to retry."""
T = TypeVar("T", bound=BaseModel)
_LABELS = {"cluster": "penstock-cluster", "group": "penstock-group", "slice": "penstock-slice"}


class _Resource(BaseModel):
    """A resource in the simulated cloud's replies; unknown keys are ignored."""

    class _Host(BaseModel):
        address: str | None

    name: str
    zone: str
    labels: dict[str, str]
    phase: Phase
    hosts: tuple[_Host, ...]
    created_at: Moment
    notice: Notice | None = None

    @property
    def owner(self) -> Labels | None:
        """The ownership labels; None if it lacks any."""
        owned = {field: self.labels.get(key) for field, key in _LABELS.items()}
        return Labels.model_validate(owned) if all(owned.values()) else None

    def is_ours(self, ref: Ref) -> bool:
        return self.owner == ref.labels and (self.zone, self.name) == (ref.location, ref.name)

    def unchecked_hosts(self) -> tuple[Host, ...]:
        """Its hosts before health checks. They have one address each, and are named by the resource and their number."""
        return tuple(Host(name=f"{self.name}-{i}", address=host.address or "") for i, host in enumerate(self.hosts))


class _ResourceList(BaseModel):
    items: tuple[_Resource, ...]
    complete: bool


class _Fault(BaseModel):
    """The error of a refused call; its code decides which details it has."""

    code: str
    message: str
    scope: Scope = Scope.ZONE
    subject: str = ""
    retry_after: float = 0.0


class _Refusal(BaseModel):
    error: _Fault


class _Health(BaseModel):
    slice: str | None


class SimProvider(Provider):
    """The simulated cloud. Its only state is the HTTP session, which belongs to the caller."""

    cloud = "the simulated cloud"
    """Its name in messages."""

    def __init__(self, url: str, session: aiohttp.ClientSession, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        self._url = URL(url)
        self._session = session
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._headers: dict[str, str] = {}

    async def create(self, order: Order) -> Created | Adopted | Queued:
        """Create the resource, or adopt the existing one if it is ours."""
        made = await self._call(
            _Resource,
            "POST",
            self._url / "zones" / order.location / "resources",
            expected=("ALREADY_EXISTS",),
            body=self._request(order),
        )
        if made is not None:
            return Queued(ref=order.ref) if made.phase is Phase.QUEUED else Created(ref=order.ref)
        found = await self._get(order.ref)
        if found is None:
            raise Transient(f"{order.name} existed and is gone; repeat the create")
        if not found.is_ours(order.ref):
            raise Conflict(f"{order.name} in {found.zone} is a resource without the labels of slice {order.slice}")
        return Queued(ref=order.ref) if found.phase is Phase.QUEUED else Adopted(ref=order.ref)

    async def observe(self, ref: Ref) -> Sighting:
        """The resource, with the health of all its hosts checked at once."""
        seen = await self._get(ref)
        if seen is None or not seen.is_ours(ref):
            return Sighting(ref=ref, phase=Phase.GONE)
        hosts = await asyncio.gather(*(self._checked(ref.name, i, host) for i, host in enumerate(seen.unchecked_hosts())))
        return Sighting(ref=ref, phase=seen.phase, hosts=tuple(hosts), created_at=seen.created_at, notice=seen.notice)

    async def list(self, location: str, *, cluster: str) -> Listing:
        """The resources with all ownership labels and this cluster's name."""
        url = self._url / "zones" / location / "resources" % {"label": f"{_LABELS['cluster']}={cluster}"}
        seen = await self._call(_ResourceList, "GET", url)
        items = [_listed_resource(item, owner) for item in seen.items if (owner := item.owner) and owner.cluster == cluster]
        return Listing(items=tuple(items), complete=seen.complete)

    async def delete(self, ref: Ref) -> Deleting | Gone:
        """Delete the resource, if it is ours."""
        seen = await self._get(ref)
        if seen is None or not seen.is_ours(ref):
            return Gone(ref=ref)
        left = await self._call(_Resource, "DELETE", self._url / "resources" / ref.name, expected=("NOT_FOUND",))
        return Gone(ref=ref) if left is None or left.phase is Phase.GONE else Deleting(ref=ref)

    def _request(self, order: Order) -> dict[str, Any]:
        labels = {_LABELS[field]: value for field, value in order.labels.model_dump().items()}
        wanted = order.model_dump(include={"hosts", "variant", "preemptible", "queued"})
        return {"name": order.name, "labels": labels, **wanted}

    async def _get(self, ref: Ref) -> _Resource | None:
        return await self._call(_Resource, "GET", self._url / "resources" / ref.name, expected=("NOT_FOUND",))

    async def _checked(self, name: str, index: int, host: Host) -> Host:
        """The host after its health check, which the simulated cloud answers for it."""
        if not host.address:
            return host
        health = await self._call(_Health, "GET", self._url / "health" / name / str(index), expected=("SILENT", "NOT_FOUND"))
        return checked(host, None if health is None else health.slice)

    @overload
    async def _call(self, model: type[T], method: str, url: URL) -> T: ...
    @overload
    async def _call(
        self, model: type[T], method: str, url: URL, *, expected: tuple[str, ...], body: dict[str, Any] | None = None
    ) -> T | None: ...
    async def _call(
        self, model: type[T], method: str, url: URL, *, expected: tuple[str, ...] = (), body: dict[str, Any] | None = None
    ) -> T | None:
        """The reply; None for a refusal with an expected code; other refusals are raised."""
        try:
            async with self._session.request(method, url, json=body, headers=self._headers, timeout=self._timeout) as response:
                status, text = response.status, await response.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Transient(f"no answer from {self.cloud} at {self._url}: {error or type(error).__name__}") from error
        if status >= HTTPStatus.BAD_REQUEST:
            fault = _fault(status, text, self.cloud)
            if fault.code in expected:
                return None
            raise _error(status, fault)
        try:
            return model.model_validate_json(text)
        except ValidationError as error:
            raise Transient(f"{self.cloud} at {self._url} sent a reply that cannot be parsed: {error}") from error


def _listed_resource(seen: _Resource, owner: Labels) -> Sighting:
    return Sighting(
        ref=Ref(location=seen.zone, name=seen.name, labels=owner),
        phase=seen.phase,
        hosts=seen.unchecked_hosts(),
        created_at=seen.created_at,
        notice=seen.notice,
    )


def _fault(status: int, text: str, cloud: str) -> _Fault:
    try:
        return _Refusal.model_validate_json(text).error
    except ValidationError:
        return _Fault(code="", message=f"status {status} from {cloud}")


def _error(status: int, fault: _Fault) -> ProviderError:
    match fault.code:
        case "STOCKOUT":
            return Stockout(fault.message)
        case "QUOTA_EXCEEDED":
            return QuotaExceeded(fault.message, scope=fault.scope, subject=fault.subject)
        case "RATE_LIMITED":
            return RateLimited(fault.message, retry_after=fault.retry_after)
        case "PERMISSION_DENIED":
            return PermissionDenied(fault.message, scope=fault.scope, subject=fault.subject)
    return Transient(fault.message) if status >= HTTPStatus.INTERNAL_SERVER_ERROR else Invalid(fault.message)


class SimRuntime(ProviderRuntime):
    """The kind `sim`."""

    async def opener(self, settings: Settings, context: ProcessContext) -> Opener:
        """By address: the group's `url`, else the environment's, else the default port on this machine."""
        url = text_setting(settings, "url") or context.environ.get(SIM_URL) or DEFAULT_SIM_URL
        return Opener(url, lambda: SimProvider(url, context.session()))


def text_setting(settings: Settings, name: str) -> str | None:
    """A setting that must be text, if it is there at all; raises `Invalid`."""
    value = settings.get(name)
    if value is not None and not (isinstance(value, str) and value):
        raise Invalid(f"provider.{name}: must be text")
    return value


SIM = SimRuntime()
