"""The port that every cloud implements: four calls, the values they speak in, and a closed set of errors."""

import hashlib
import json
import re
from typing import Annotated, Protocol

from pydantic import Field, JsonValue

from penstock.model.failures import Failure as Failure
from penstock.model.failures import FailureKind as FailureKind
from penstock.model.failures import Phase as Phase
from penstock.model.failures import Scope as Scope
from penstock.model.units import Moment, Positive
from penstock.model.value import Value

LONGEST_NAME = 63
"""Characters of an RFC 1035 label, which is what clouds take as a name."""
_DIGEST = 10
"""Hex digits that tell apart slices whose readable heads are the same: 40 bits."""

Text = Annotated[str, Field(min_length=1)]


def resource_name(*, cluster: str, group: str, slice_id: str) -> str:
    """The cloud's name for a slice, the same whenever it is asked for: a readable head and a digest.

    RFC 1035: lower-case letters, digits and dashes, at most 63, a letter first and no dash last.
    """
    digest = hashlib.sha256(json.dumps([cluster, group, slice_id]).encode()).hexdigest()[:_DIGEST]
    readable = re.sub(r"[^a-z0-9]+", "-", slice_id.lower()).strip("-")
    head = readable if readable[:1].isalpha() else f"s-{readable}"
    return f"{head[: LONGEST_NAME - _DIGEST - 1].rstrip('-')}-{digest}"


class Labels(Value):
    """Who owns a resource. They are part of the create call, so nothing of ours is ever without them."""

    cluster: Text
    group: Text
    slice: Text


class Ref(Value):
    """Which resource is meant: where it is, its name, and the labels without which it is not ours."""

    location: Text
    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    labels: Labels


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
        return resource_name(cluster=self.cluster, group=self.group, slice_id=self.slice)

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


class Host(Value):
    """One host: its address once it has one, and the slice id that its health check answered with.

    `asked` tells a host that was silent from one that was not asked.
    """

    address: str | None = None
    asked: bool = False
    answered: str | None = None


class Observation(Value):
    """One look at a resource. What is gone has neither hosts nor `created_at`.

    `failure` is why it failed, or why the hosts of one that runs are silent, if the cloud says so.
    """

    ref: Ref
    phase: Phase
    hosts: tuple[Host, ...] = ()
    created_at: Moment | None = None
    failure: Failure | None = None

    @property
    def labels(self) -> Labels:
        """Who owns the resource."""
        return self.ref.labels

    @property
    def addressed(self) -> bool:
        """Whether every host has an address."""
        return bool(self.hosts) and all(host.address is not None for host in self.hosts)

    @property
    def healthy(self) -> bool:
        """Whether every host answered with the id of this slice: an address may have belonged to another before."""
        return bool(self.hosts) and all(host.answered == self.labels.slice for host in self.hosts)


class Listing(Value):
    """A cluster's resources in a location, by name. Unless `complete`, what is missing from it may well exist."""

    items: tuple[Observation, ...]
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

    async def observe(self, ref: Ref) -> Observation:
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
