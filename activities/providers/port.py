"""The port that every cloud implements: create, observe, list and delete, their values, and a closed set of errors."""

from typing import Protocol

from pydantic import Field, JsonValue

from penstock.model.failures import Failure as Failure
from penstock.model.failures import FailureKind as FailureKind
from penstock.model.failures import Notice as Notice
from penstock.model.failures import NoticeKind as NoticeKind
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
    """One slice to create. With `queued`, the cloud queues the order while it has no capacity.

    `settings` are the keys of the group's `provider` other than `kind`.
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
        """The reference of the resource, whether it exists yet or not."""
        return Ref(location=self.location, name=self.name, labels=self.labels)


class Created(Value):
    """The resource was created by this call."""

    ref: Ref


class Adopted(Value):
    """An earlier call had created the resource; there is still only one."""

    ref: Ref


class Queued(Value):
    """The order is in the cloud's queue, put there by this call or an earlier one."""

    ref: Ref


class Deleting(Value):
    """The cloud accepted the deletion; the resource still exists."""

    ref: Ref


class Gone(Value):
    """The resource does not exist."""

    ref: Ref


def checked(host: Host, answered: str | None) -> Host:
    """The host after a health check; `answered` is None if it gave no answer."""
    return host.model_copy(update={"asked": True, "answered": answered})


class Listing(Value):
    """A cluster's resources in a location, sorted by name. Unless `complete`, resources that it lacks may exist."""

    items: tuple[Sighting, ...]
    complete: bool


class ProviderError(Exception):
    """Base of the errors below; calls raise no others."""


class Stockout(ProviderError):
    """The location has no capacity for this order now."""


class QuotaExceeded(ProviderError):
    """The order exceeds the quota of the zone, region or project named by `subject`."""

    def __init__(self, message: str, *, scope: Scope, subject: str) -> None:
        super().__init__(message)
        self.scope = scope
        self.subject = subject


class RateLimited(ProviderError):
    """Too many calls; `retry_after` is in seconds."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Transient(ProviderError):
    """A failure that may pass, or no answer. The call may have taken effect: repeat it."""


class Unexpected(Transient):
    """A defect of the provider or its client library: its call raised an exception that is none of these.

    Callers raise it, providers never do.
    """


class PermissionDenied(ProviderError):
    """The credentials have no access to the zone, region or project named by `subject`."""

    def __init__(self, message: str, *, scope: Scope, subject: str) -> None:
        super().__init__(message)
        self.scope = scope
        self.subject = subject


class Invalid(ProviderError):
    """The call can never succeed, so repeating it does not help. `fix` is the doctor's advice if settings are not the cause."""

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix


class Conflict(ProviderError):
    """A resource that is not ours has the name; it was not touched."""


class Provider(Protocol):
    """A cloud. Every call can be repeated at any time, by any worker, after any crash, and raises only `ProviderError`.

    A resource is ours if it carries all the labels of the order or ref. Other resources, unlabelled or of another cluster,
    are never changed, deleted, adopted or reported as ours.

    If the cloud announces that it preempts a resource, works on its hosts or ends its reservation, `observe` and `list` both
    show that as `notice`: the same moment each time, until the cloud moves it or takes the announcement back. A cloud that
    announces nothing leaves it out.
    """

    async def create(self, order: Order) -> Created | Adopted | Queued:
        """Create the one resource of the order, or adopt the one that an earlier call created.

        It may raise although the cloud accepted the order; the next call then adopts. If a resource that is not ours has the
        name, it raises `Conflict`. When it returns, the resource exists or is queued; `observe` shows whether it runs.
        """
        ...

    async def observe(self, ref: Ref) -> Sighting:
        """The state of one resource, with health checks of the hosts that have addresses.

        A resource that does not exist, or whose name belongs to a resource that is not ours, is `GONE`.
        """
        ...

    async def list(self, location: str, *, cluster: str) -> Listing:
        """All resources of the cluster in the location, without health checks.

        `complete` is true only if the cloud confirmed it.
        """
        ...

    async def delete(self, ref: Ref) -> Deleting | Gone:
        """Delete one resource, in whatever phase it is; `Gone` if it does not exist or never did.

        `Deleting` is no promise: repeat the call until it returns `Gone`.
        """
        ...

    async def mislabelled(self, location: str, *, cluster: str) -> tuple[str, ...]:  # noqa: ARG002 - the port's signature
        """Names of resources with the cluster's label whose other labels do not match, as after an edit by hand.

        By default none: a cloud where only Penstock can set the labels has none.
        """
        return ()

    async def close(self) -> None:
        """Release connections and threads; by default there are none."""
        return
