"""How a zone of the emulated cloud behaves, and faults for single calls."""

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from emulators.gcp.refusals import Code
from penstock.model.units import Count, Positive, Seconds
from penstock.model.value import Value

TPU_METHODS = (
    "CreateNode",
    "GetNode",
    "ListNodes",
    "UpdateNode",
    "DeleteNode",
    "CreateQueuedResource",
    "GetQueuedResource",
    "ListQueuedResources",
    "DeleteQueuedResource",
    "GetGuestAttributes",
    "GetOperation",
    "ListOperations",
    "ListLocations",
)
COMPUTE_METHODS = (
    "instances.insert",
    "instances.bulkInsert",
    "instances.get",
    "instances.list",
    "instances.aggregatedList",
    "instances.delete",
    "instances.setLabels",
    "instances.getGuestAttributes",
    "zoneOperations.get",
    "zoneOperations.list",
    "zoneOperations.wait",
    "projects.get",
    "regions.get",
    "regions.list",
    "zones.get",
    "zones.list",
)


class Scope(StrEnum):
    """How far a quota or a permission reaches."""

    ZONE = "zone"
    REGION = "region"
    PROJECT = "project"


class Quota(Value):
    """At most `limit` nodes, or instances, in the zone, region or project.

    The TPU API refuses the call; Compute takes it and fails the operation, unless `in_operation` says otherwise.
    """

    scope: Scope = Scope.ZONE
    limit: Count
    metric: str | None = None
    in_operation: bool | None = None


class Rate(Value):
    """So many creates in so long; Google's limits are per minute."""

    creates: Positive
    seconds: Seconds = Field(default=60.0, alias="per")


class Behaviour(Value):
    """What a zone does. Unset, it gives everything at once and never fails.

    Latencies hold for what is admitted or deleted from then on. Counters of next calls run down as they are used up.
    """

    create_latency_seconds: Seconds = Field(default=0.0, alias="create_latency")
    """From the order to addresses; also to the failure of an order that finds nothing."""
    boot_latency_seconds: Seconds = Field(default=0.0, alias="boot_latency")
    """From addresses to READY or RUNNING, which is when the operation is done."""
    init_latency_seconds: Seconds = Field(default=0.0, alias="init_latency")
    """From the end of the boot to hosts that answer."""
    ready_lag_seconds: Seconds = Field(default=0.0, alias="ready_lag")
    """How much later than the end of the boot the API says so: hosts may serve long before."""
    delete_latency_seconds: Seconds = Field(default=0.0, alias="delete_latency")
    """From the call to being gone; also from a preemption to its end."""
    suspend_latency_seconds: Seconds = Field(default=0.0, alias="suspend_latency")
    """From a queued resource being suspended to its node showing that it is preempted."""
    reply_latency_seconds: Seconds = Field(default=0.0, alias="reply_latency")
    """From the moment a create is stored to its reply."""
    queue_latency_seconds: Seconds = Field(default=0.0, alias="queue_latency")
    """How long a queued resource waits at least."""
    capacity: Count | None = None
    """Nodes, and instances, that may exist at once; queued resources and flex-start instances wait for room."""
    hold_queue: bool = False
    """Queued resources and flex-start instances wait until they are admitted by name, room or not."""
    accept_queue: bool = False
    """Queued resources that wait say ACCEPTED, as they once did, instead of WAITING_FOR_RESOURCES."""
    stockout: bool = False
    stockout_after: Count | None = None
    """Further creates until the zone runs dry."""
    quota: Quota | None = None
    rate: Rate | None = None
    lost_replies: Count = 0
    """Next creates that are stored and then lose their connection."""
    failing_deletes: Count = 0
    """Next deletes that are answered with UNAVAILABLE and do nothing."""
    unreachable: bool = False
    """The zone cannot be reached for listing: lists lack it and say so."""
    permission_denied: Scope | None = None
    invalid: bool = False
    """Every create is refused as malformed."""
    offers: tuple[str, ...] | None = None
    """Accelerator and machine types that the zone knows; unset, all of Google's."""
    page_size: Positive = 500
    """The longest page of a list; of lists over all zones, in the defaults."""

    @property
    def dry(self) -> bool:
        """Whether there is nothing to give."""
        return self.stockout or self.stockout_after == 0


def _known_method(pattern: str) -> str:
    if not any(fnmatchcase(method, pattern) for method in TPU_METHODS + COMPUTE_METHODS):
        raise ValueError(f"{pattern!r} is no method; write it like CreateNode, instances.insert, instances.* or *")
    return pattern


def _known_code(name: str) -> str:
    if name not in Code.__members__:
        raise ValueError(f"{name!r} is no code; known are {', '.join(Code.__members__)}")
    return name


class Failure(Value):
    """An error in an operation: for the TPU API the number or name of a canonical code, for Compute a code of its own."""

    code: int | str
    message: str = ""

    @property
    def number(self) -> int:
        """The canonical number; a code that is none counts as UNKNOWN."""
        if isinstance(self.code, int):
            return self.code
        return Code[self.code] if self.code in Code.__members__ else Code.UNKNOWN


class Fault(Value):
    """What goes wrong with the next calls of a method, whatever its zone would do.

    `code` or `status` refuse the call; `operation` lets a write be taken and its operation fail; `latency` delays; with
    `lose_reply` the call is carried out first, and the caller gets the refusal, or without one no answer.
    """

    method: Annotated[str, AfterValidator(_known_method)]
    zone: str | None = None
    times: Positive | None = 1
    """Calls that it meets; null is all of them."""
    latency_seconds: Seconds = Field(default=0.0, alias="latency")
    code: Annotated[str, AfterValidator(_known_code)] | None = None
    status: Annotated[int, Field(ge=200, le=599)] | None = None
    reason: str | None = None
    message: str = "the emulator was told to fail this call"
    quota_failure: str | None = None
    """Description of a violation, sent as google.rpc.QuotaFailure."""
    error_info: str | None = None
    """Reason, sent as google.rpc.ErrorInfo."""
    retry_after_seconds: Seconds | None = Field(default=None, alias="retry_after")
    """Sent as google.rpc.RetryInfo, or as a header."""
    operation: tuple[Failure, ...] = ()
    lose_reply: bool = False

    @model_validator(mode="after")
    def _does_something(self) -> "Fault":
        if not (self.refuses or self.operation or self.lose_reply or self.latency_seconds):
            raise ValueError("give at least one of code, status, operation, lose_reply and latency")
        return self

    @property
    def refuses(self) -> bool:
        """Whether the call is answered with an error."""
        return self.code is not None or self.status is not None

    def meets(self, method: str, zone: str | None) -> bool:
        """Whether a call is meant."""
        return fnmatchcase(method, self.method) and self.zone in (None, zone)
