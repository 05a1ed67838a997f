"""The port that every cloud implements: four calls, the values they speak in, and a closed set of errors."""

from typing import Protocol

from pydantic import Field, JsonValue

from penstock.model.failures import Failure as Failure
from penstock.model.failures import FailureKind as FailureKind
from penstock.model.failures import Phase as Phase
from penstock.model.failures import Scope as Scope
from penstock.model.sightings import LONGEST_NAME as LONGEST_NAME
from penstock.model.sightings import Host as Host
from penstock.model.sightings import Labels as Labels
from penstock.model.sightings import Ref as Ref
from penstock.model.sightings import Sighting as Sighting
from penstock.model.sightings import Text
from penstock.model.sightings import resource_name as resource_name
from penstock.model.units import Positive
from penstock.model.value import Value


class Order(Value):
    """One slice to create. `queued` asks the cloud to keep the order waiting when it has nothing to give.

    `settings` is what the group's `provider` says beside `kind`.
    """

    cluster: Text
    group: Text
    slice: Text
    location: Text
    hosts: Positive = 1
    variant: str | None = None
    preemptible: bool = False
    queued: bool = False
    settings: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def labels(self) -> Labels:
        """The ownership labels of the resource."""
        return Labels(cluster=self.cluster, group=self.group, slice=self.slice)

    @property
    def name(self) -> str:
        """The name of the resource."""
        return self.labels.resource_name

    @property
    def ref(self) -> Ref:
        """What the order makes, made or not."""
        return Ref(location=self.location, name=self.name, labels=self.labels)


class Created(Value):
    """The resource was made by this call."""

    ref: Ref


class Adopted(Value):
    """An earlier call had made the resource; there is still only one."""

    ref: Ref


class Queued(Value):
    """The order waits in the cloud's queue, put there by this call or an earlier one."""

    ref: Ref


class Deleting(Value):
    """The cloud has taken the request; the resource still exists."""

    ref: Ref


class Gone(Value):
    """The resource does not exist."""

    ref: Ref


class Listing(Value):
    """A cluster's resources in a location, by name. Unless `complete`, what is missing from it may well exist."""

    items: tuple[Sighting, ...]
    complete: bool


class ProviderError(Exception):
    """What a call may raise; its kinds below are all there are."""


class Stockout(ProviderError):
    """The location has none of this to give now."""


class QuotaExceeded(ProviderError):
    """More than the owner may have in the zone, region or project named by `subject`."""

    def __init__(self, message: str, *, scope: Scope, subject: str) -> None:
        super().__init__(message)
        self.scope = scope
        self.subject = subject


class RateLimited(ProviderError):
    """Asked too often; `retry_after` is in seconds."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Transient(ProviderError):
    """No answer, or one that may differ next time. Whether the call took effect is unknown: repeat it."""


class PermissionDenied(ProviderError):
    """The credentials do not reach into the zone, region or project named by `subject`."""

    def __init__(self, message: str, *, scope: Scope, subject: str) -> None:
        super().__init__(message)
        self.scope = scope
        self.subject = subject


class Invalid(ProviderError):
    """The cloud will never accept this call; repeating it is of no use."""


class Conflict(ProviderError):
    """The name is taken by something that is not ours; it was not touched."""


class Provider(Protocol):
    """A cloud. Every call may be repeated at any time, by anyone, after any crash, and raises only `ProviderError`.

    Ours is what carries all the labels of the order or ref. Whatever else exists, unlabelled or of another cluster, is
    never changed, deleted, adopted or shown as ours.
    """

    async def create(self, order: Order) -> Created | Adopted | Queued:
        """Make the one resource of the order, or find the one that an earlier call made.

        It may raise after the cloud took the order; the next call then adopts. A stranger's resource under the name is
        `Conflict`. The resource exists or is queued when this returns; that it runs, `observe` tells.
        """
        ...

    async def observe(self, ref: Ref) -> Sighting:
        """Look at one resource, and ask its hosts for their health once they have addresses.

        What does not exist is seen as gone, and so is a name that a stranger holds.
        """
        ...

    async def list(self, location: str, *, cluster: str) -> Listing:
        """All resources of the cluster in the location. Hosts are not asked for their health.

        `complete` is true only if the cloud said so.
        """
        ...

    async def delete(self, ref: Ref) -> Deleting | Gone:
        """Ask for the end of one resource, in whatever phase it is; `Gone` once it does not exist, or never did.

        `Deleting` is no promise: ask again until `Gone`.
        """
        ...
