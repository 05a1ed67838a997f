"""Faults injected into single API calls: which calls they match, and the error, delay or lost reply they cause."""

from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from emulators.gcp.api_error import Code
from penstock.model.units import Positive, Seconds
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


def _known_method(pattern: str) -> str:
    if not any(fnmatchcase(method, pattern) for method in TPU_METHODS + COMPUTE_METHODS):
        raise ValueError(f"{pattern!r} is no method; write it like CreateNode, instances.insert, instances.* or *")
    return pattern


def _known_code(name: str) -> str:
    if name not in Code.__members__:
        raise ValueError(f"{name!r} is no code; known are {', '.join(Code.__members__)}")
    return name


class Failure(Value):
    """Error of an operation: the number or name of a canonical code for the TPU API, a code of Compute's own otherwise."""

    code: int | str
    message: str = ""

    @property
    def number(self) -> int:
        """The canonical number; UNKNOWN for a code that is not canonical."""
        if isinstance(self.code, int):
            return self.code
        return Code[self.code] if self.code in Code.__members__ else Code.UNKNOWN


class Fault(Value):
    """Fault of the next calls of a method, independent of the behaviour of the zone.

    `code` or `status` refuses the call. `operation` accepts a write and fails its operation. `latency` delays the call.
    `lose_reply` carries the call out first; then the caller gets the error, or no reply if there is none.
    """

    method: Annotated[str, AfterValidator(_known_method)]
    zone: str | None = None
    times: Positive | None = 1
    """Number of calls that it affects; null is all of them."""
    latency_seconds: Seconds = Field(default=0.0, alias="latency")
    code: Annotated[str, AfterValidator(_known_code)] | None = None
    status: Annotated[int, Field(ge=200, le=599)] | None = None
    reason: str | None = None
    message: str = "the emulator is configured to fail this call"
    quota_failure: str | None = None
    """Description of a violation, sent as google.rpc.QuotaFailure."""
    error_info: str | None = None
    """Reason, sent as google.rpc.ErrorInfo."""
    retry_after_seconds: Seconds | None = Field(default=None, alias="retry_after")
    """Sent as google.rpc.RetryInfo, or as a header."""
    operation: tuple[Failure, ...] = ()
    lose_reply: bool = False

    @model_validator(mode="after")
    def _has_effect(self) -> "Fault":
        if not (self.refuses or self.operation or self.lose_reply or self.latency_seconds):
            raise ValueError("give at least one of code, status, operation, lose_reply and latency")
        return self

    @property
    def refuses(self) -> bool:
        """Whether the call is answered with an error."""
        return self.code is not None or self.status is not None

    def matches(self, method: str, zone: str | None) -> bool:
        """Whether the fault affects a call."""
        return fnmatchcase(method, self.method) and self.zone in (None, zone)
