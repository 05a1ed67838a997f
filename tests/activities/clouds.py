"""The cloud that port rules run against, and helpers for them."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from activities.providers.port import Listing, Notice, Order, Provider, ProviderError, Ref, Scope, Sighting
from tests.activities.waiting import until


class Cloud(Protocol):
    """A provider, a location and a cluster that no other test uses, and the faults that a rule needs."""

    @property
    def provider(self) -> Provider: ...
    @property
    def location(self) -> str: ...
    @property
    def cluster(self) -> str: ...
    async def refuse(self, error: type[ProviderError]) -> None:
        """Creates are refused from now on; for `RateLimited`, all but one a second."""

    def subject(self, scope: Scope) -> str: ...
    async def lose_next_reply(self) -> None: ...
    async def fail_next_delete(self) -> None: ...
    async def hide(self) -> None:
        """Listings are incomplete from now on."""

    async def hold_queue(self) -> None: ...
    async def admit(self, ref: Ref) -> None: ...
    async def preempt(self, ref: Ref) -> None: ...
    async def kill_host(self, ref: Ref, host: int) -> None: ...
    async def add_stranger(self, name: str) -> None: ...
    async def has_stranger(self, name: str) -> bool: ...
    async def times_made(self, ref: Ref) -> int: ...


@runtime_checkable
class Particular(Protocol):
    """A cloud that does not accept every order unchanged."""

    def fitted(self, order: Order) -> Order:
        """The order in the form that this cloud accepts."""


@runtime_checkable
class Announcing(Protocol):
    """A cloud that announces what it will do to a resource."""

    async def announce(self, ref: Ref, notice: Notice | None) -> None:
        """Announce it for the resource; None takes back what was announced."""


def order_of(
    cloud: Cloud, slice_id: str = "v5e-16-a1", *, cluster: str | None = None, hosts: int = 2, queued: bool = False
) -> Order:
    order = Order(
        cluster=cluster or cloud.cluster,
        group="v5e-16",
        slice=slice_id,
        location=cloud.location,
        hosts=hosts,
        variant="v5litepod-16",
        preemptible=True,
        queued=queued,
    )
    return cloud.fitted(order) if isinstance(cloud, Particular) else order


async def observed(cloud: Cloud, ref: Ref, holds: Callable[[Sighting], object]) -> Sighting:
    return await until(lambda: cloud.provider.observe(ref), holds)


async def listed(cloud: Cloud) -> Listing:
    return await cloud.provider.list(cloud.location, cluster=cloud.cluster)
