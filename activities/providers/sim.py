"""The simulated cloud as a provider: its replies, translated by code."""

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
    Order,
    PermissionDenied,
    Phase,
    ProviderError,
    Queued,
    QuotaExceeded,
    RateLimited,
    Ref,
    Scope,
    Sighting,
    Stockout,
    Transient,
)
from penstock.model.units import Moment

DEFAULT_TIMEOUT_SECONDS = 20.0
"""Far more than the simulated cloud needs, and short enough for an activity to try again."""
T = TypeVar("T", bound=BaseModel)
_LABELS = {"cluster": "penstock-cluster", "group": "penstock-group", "slice": "penstock-slice"}


class _Seen(BaseModel):
    """A resource as the simulated cloud describes it; keys that are not needed here are passed over."""

    class _Host(BaseModel):
        address: str | None

    name: str
    zone: str
    labels: dict[str, str]
    phase: Phase
    hosts: tuple[_Host, ...]
    created_at: Moment

    @property
    def owner(self) -> Labels | None:
        """The ownership labels, if it has them all."""
        owned = {field: self.labels.get(key) for field, key in _LABELS.items()}
        return Labels.model_validate(owned) if all(owned.values()) else None

    def is_ours(self, ref: Ref) -> bool:
        return self.owner == ref.labels and (self.zone, self.name) == (ref.location, ref.name)


class _SeenList(BaseModel):
    items: tuple[_Seen, ...]
    complete: bool


class _Fault(BaseModel):
    """Why a call was refused; which of the details are there depends on the code."""

    code: str
    message: str
    scope: Scope = Scope.ZONE
    subject: str = ""
    retry_after: float = 0.0


class _Refusal(BaseModel):
    error: _Fault


class _Health(BaseModel):
    slice: str | None


class SimProvider:
    """Keeps the promises of `Provider`; holds no state but the session, which belongs to the caller."""

    cloud = "the simulated cloud"
    """What messages call it."""

    def __init__(self, url: str, session: aiohttp.ClientSession, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        self._url = URL(url)
        self._session = session
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._headers: dict[str, str] = {}

    async def create(self, order: Order) -> Created | Adopted | Queued:
        """Make the resource, or adopt the one that exists if it is ours."""
        made = await self._ask(
            _Seen,
            "POST",
            self._url / "zones" / order.location / "resources",
            expected=("ALREADY_EXISTS",),
            body=self._request(order),
        )
        if made is not None:
            return Queued(ref=order.ref) if made.phase is Phase.QUEUED else Created(ref=order.ref)
        found = await self._look(order.ref)
        if found is None:
            raise Transient(f"{order.name} existed and is gone; create it again")
        if not found.is_ours(order.ref):
            raise Conflict(f"{order.name} is taken in {found.zone} by something without the labels of slice {order.slice}")
        return Queued(ref=order.ref) if found.phase is Phase.QUEUED else Adopted(ref=order.ref)

    async def observe(self, ref: Ref) -> Sighting:
        """Look at the resource, and at the health of all its hosts at once."""
        seen = await self._look(ref)
        if seen is None or not seen.is_ours(ref):
            return Sighting(ref=ref, phase=Phase.GONE)
        hosts = await asyncio.gather(*(self._host(ref.name, i, host.address) for i, host in enumerate(seen.hosts)))
        return Sighting(ref=ref, phase=seen.phase, hosts=tuple(hosts), created_at=seen.created_at)

    async def list(self, location: str, *, cluster: str) -> Listing:
        """What carries all ownership labels and the cluster's name."""
        url = self._url / "zones" / location / "resources" % {"label": f"{_LABELS['cluster']}={cluster}"}
        seen = await self._ask(_SeenList, "GET", url)
        items = [_listed(item, owner) for item in seen.items if (owner := item.owner) and owner.cluster == cluster]
        return Listing(items=tuple(items), complete=seen.complete)

    async def delete(self, ref: Ref) -> Deleting | Gone:
        """Delete what is there, if it is ours."""
        seen = await self._look(ref)
        if seen is None or not seen.is_ours(ref):
            return Gone(ref=ref)
        left = await self._ask(_Seen, "DELETE", self._url / "resources" / ref.name, expected=("NOT_FOUND",))
        return Gone(ref=ref) if left is None or left.phase is Phase.GONE else Deleting(ref=ref)

    def _request(self, order: Order) -> dict[str, Any]:
        labels = {_LABELS[field]: value for field, value in order.labels.model_dump().items()}
        wanted = order.model_dump(include={"hosts", "variant", "preemptible", "queued"})
        return {"name": order.name, "labels": labels, **wanted}

    async def _look(self, ref: Ref) -> _Seen | None:
        return await self._ask(_Seen, "GET", self._url / "resources" / ref.name, expected=("NOT_FOUND",))

    async def _host(self, name: str, host: int, address: str | None) -> Host:
        if address is None:
            return Host()
        health = await self._ask(_Health, "GET", self._url / "health" / name / str(host), expected=("SILENT", "NOT_FOUND"))
        return Host(address=address, asked=True, answered=None if health is None else health.slice)

    @overload
    async def _ask(self, model: type[T], method: str, url: URL) -> T: ...
    @overload
    async def _ask(
        self, model: type[T], method: str, url: URL, *, expected: tuple[str, ...], body: dict[str, Any] | None = None
    ) -> T | None: ...
    async def _ask(
        self, model: type[T], method: str, url: URL, *, expected: tuple[str, ...] = (), body: dict[str, Any] | None = None
    ) -> T | None:
        """The reply, or None for a refusal with one of the expected codes; any other is raised."""
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
            raise Transient(f"{self.cloud} at {self._url} answered what is not understood: {error}") from error


def _listed(seen: _Seen, owner: Labels) -> Sighting:
    return Sighting(
        ref=Ref(location=seen.zone, name=seen.name, labels=owner),
        phase=seen.phase,
        hosts=tuple(Host(address=host.address) for host in seen.hosts),
        created_at=seen.created_at,
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
