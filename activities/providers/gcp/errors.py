"""Translation of Google's errors into the port's errors, by code.

The message decides only between the known meanings of one code: 8 in an operation is a stockout, a quota or a rate limit.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import requests
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.rpc import error_details_pb2 as details_pb2  # type: ignore[import-untyped]

from activities.providers.gcp.credentials import HOW_TO_LOG_IN, first_line
from activities.providers.gcp.error_codes import (
    BY_SPECIFICITY,
    CAN_ALSO_MEAN,
    EVERYWHERE,
    HTTP,
    IN_PROJECT,
    IN_REGION,
    IN_ZONE,
    NO_METADATA_SERVER,
    NO_TOKEN,
    REASONS,
    RPC,
    UNKNOWN_CAN_MEAN,
    WORDINGS,
    ZONE_ALONE,
    Meaning,
)
from activities.providers.port import (
    Conflict,
    Failure,
    FailureKind,
    Invalid,
    PermissionDenied,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Scope,
    Stockout,
    Transient,
)

DEFAULT_RETRY_SECONDS = 5.0
"""Delay after a rate limit without one of its own: Google's per-minute limits refill within seconds."""
_SERVER_ERROR = 500


class ProjectZone(NamedTuple):
    """The project and zone of a call."""

    project: str
    location: str

    def subject(self, scope: Scope) -> str:
        """The name of the zone, region or project."""
        region = self.location.rsplit("-", 1)[0]
        return {Scope.ZONE: self.location, Scope.REGION: region, Scope.PROJECT: self.project}[scope]


class Fault(NamedTuple):
    """One error with its meaning. `scope` is what a quota or a permission applies to."""

    meaning: Meaning
    code: str
    message: str
    scope: Scope = Scope.ZONE
    retry_after: float = DEFAULT_RETRY_SECONDS


CLIENT_ERRORS = (api.GoogleAPIError, auth.GoogleAuthError, requests.RequestException, OSError, TimeoutError)
"""Exceptions of Google's clients."""


def fault_of(error: BaseException) -> Fault:
    """The fault behind an exception of Google's clients."""
    if isinstance(error, api.RetryError) and error.cause is not None:
        return fault_of(error.cause)
    if isinstance(error, api.GoogleAPICallError):
        return _call_fault(error)
    if isinstance(error, auth.GoogleAuthError) and not _may_pass(error):
        return _unauthenticated(type(error).__name__, first_line(error))
    return Fault(Meaning.TRANSIENT, type(error).__name__, f"no answer from Google: {error or type(error).__name__}")


def _may_pass(error: auth.GoogleAuthError) -> bool:
    """Whether the token server could not be reached; otherwise it refused."""
    away = isinstance(error, auth.RefreshError) and NO_METADATA_SERVER.search(first_line(error)) is not None
    return isinstance(error, auth.TransportError) or error.retryable or away


def lacks_token(error: BaseException) -> bool:
    """Whether a gRPC call failed because it got no token; requesting one shows the reason."""
    return isinstance(error, api.ServiceUnavailable) and NO_TOKEN.search(error.message or "") is not None


def is_denied(error: BaseException) -> bool:
    """Whether a call lacked a permission; Compute raises the same class for quotas and rate limits."""
    return isinstance(error, api.Forbidden) and fault_of(error).meaning is Meaning.PERMISSION


def _unauthenticated(code: str, message: str) -> Fault:
    """The fault of a process without usable credentials, with the fix."""
    return Fault(Meaning.PERMISSION, code, f"{message}. {HOW_TO_LOG_IN}", Scope.PROJECT)


def _call_fault(error: api.GoogleAPICallError) -> Fault:
    """By the service's own codes first: the exception class that the client derives from them misleads."""
    details = [*(error.details or ()), *_header(error)]
    if (fault := fault_of_errors(error.errors or (), http=error.code, details=details)) is not None:
        return fault
    for status in error.errors or ():
        if isinstance(getattr(status, "code", None), int):
            return fault_of_status(status)
    message = error.message or type(error).__name__
    if error.grpc_status_code is not None:
        code = int(error.grpc_status_code.value[0])
        return _fault(f"rpc {code}", RPC.get(code, Meaning.TRANSIENT), message, details)
    status_code = int(error.code or 0)
    return _fault(f"http {status_code}", _by_http(status_code), message, details)


def _header(error: api.GoogleAPICallError) -> list[dict[str, str]]:
    """The Retry-After header in the form of gRPC's RetryInfo detail."""
    seconds = getattr(error.response, "headers", {}).get("Retry-After", "")
    return [{"retryDelay": f"{seconds}s"}] if seconds else []


def fault_of_status(status: Any) -> Fault:
    """The fault in a google.rpc.Status: the error of a TPU operation or of a failed queued resource."""
    details = []
    for packed in status.details:
        for kind in (details_pb2.QuotaFailure, details_pb2.RetryInfo, details_pb2.ErrorInfo):
            if packed.Is(kind.DESCRIPTOR):
                unpacked = kind()
                packed.Unpack(unpacked)
                details.append(unpacked)
    return _fault(f"rpc {status.code}", RPC.get(status.code, Meaning.TRANSIENT), status.message, details)


def fault_of_errors(errors: Iterable[Any], *, http: int | None, details: Sequence[Any] = ()) -> Fault | None:
    """The fault in Compute's list of errors, of an operation or a reply; None if it has no codes.

    A failed bulk insert has VM_MIN_COUNT_NOT_REACHED, which is no cause: the other errors in the list name it.
    """
    found = []
    for entry in errors:
        code, message, more = _entry(entry)
        if code:
            meaning = REASONS.get(code) or _by_http(int(http or 0))
            found.append(_fault(code, meaning, message, [*details, *more], others=_others(code, http)))
    causes = [fault for fault in found if fault.code != "VM_MIN_COUNT_NOT_REACHED"] or found
    return min(causes, key=lambda fault: BY_SPECIFICITY.index(fault.meaning), default=None)


def _entry(entry: Any) -> tuple[str, str, list[Any]]:
    if isinstance(entry, Mapping):
        return str(entry.get("reason") or entry.get("code") or ""), str(entry.get("message", "")), []
    code = getattr(entry, "code", None)
    if not isinstance(code, str):
        return "", "", []
    return code, str(entry.message), list(getattr(entry, "error_details", ()))


def _others(code: str, http: int | None) -> tuple[Meaning, ...]:
    """Further meanings of a Compute code; for an unknown code, those of its HTTP status."""
    if code in CAN_ALSO_MEAN or code in REASONS:
        return CAN_ALSO_MEAN.get(code, ())
    return (*UNKNOWN_CAN_MEAN, *CAN_ALSO_MEAN.get(f"http {http}", ()))


def _by_http(status: int) -> Meaning:
    return HTTP.get(status, Meaning.TRANSIENT if status >= _SERVER_ERROR or not status else Meaning.INVALID)


def _fault(
    code: str, meaning: Meaning, message: str, details: Sequence[Any], *, others: tuple[Meaning, ...] | None = None
) -> Fault:
    """The fault of a code. If it is ambiguous, a reason in the details decides, else the message."""
    text = " ".join([message, *(text for detail in details for text in _quota_texts(detail))])
    others = CAN_ALSO_MEAN.get(code, ()) if others is None else others
    named = [REASONS[reason] for detail in details if (reason := _reason(detail)) in REASONS]
    implied = next((other for other in others if WORDINGS[other].search(text)), meaning)
    if any(_is_quota(detail) for detail in details) and Meaning.QUOTA in others and implied is not Meaning.RATE:
        implied = Meaning.QUOTA
    meaning = next((other for other in named if other in others), implied)
    retry = next((seconds for detail in details if (seconds := _retry_seconds(detail))), DEFAULT_RETRY_SECONDS)
    return Fault(meaning, code, text, _scope(meaning, text), retry)


def _scope(meaning: Meaning, text: str) -> Scope:
    """What the fault applies to: the widest scope that the text names. "Per project" alone says little: every quota is."""
    if meaning is Meaning.PERMISSION:
        return Scope.ZONE if ZONE_ALONE.search(text) else Scope.PROJECT
    if EVERYWHERE.search(text):
        return Scope.PROJECT
    if IN_REGION.search(text):
        return Scope.REGION
    if IN_ZONE.search(text):
        return Scope.ZONE
    return Scope.PROJECT if IN_PROJECT.search(text) else Scope.ZONE


def _is_quota(detail: Any) -> bool:
    return isinstance(detail, details_pb2.QuotaFailure) or _type(detail).endswith("google.rpc.QuotaFailure")


def _quota_texts(detail: Any) -> list[str]:
    """The texts of a detail about a quota, which name its scope."""
    if isinstance(detail, details_pb2.QuotaFailure):
        return [violation.description for violation in detail.violations]
    if isinstance(detail, Mapping):
        return [str(violation.get("description", "")) for violation in detail.get("violations", ())] if _is_quota(detail) else []
    quota = getattr(detail, "quota_info", None)
    return [f"({quota.limit_name})"] if quota and quota.limit_name else []


def _reason(detail: Any) -> str:
    if isinstance(detail, details_pb2.ErrorInfo):
        return str(detail.reason)
    return str(detail.get("reason", "")) if isinstance(detail, Mapping) else ""


def _retry_seconds(detail: Any) -> float:
    if isinstance(detail, details_pb2.RetryInfo):
        return float(detail.retry_delay.ToTimedelta().total_seconds())
    delay = str(detail.get("retryDelay", "")) if isinstance(detail, Mapping) else ""
    return float(delay[:-1]) if re.fullmatch(r"\d+(\.\d+)?s", delay) else 0.0


def _type(detail: Any) -> str:
    return str(detail.get("@type", "")) if isinstance(detail, Mapping) else ""


def error_of(fault: Fault, zone: ProjectZone) -> ProviderError:
    """The port's error. NOT_FOUND on a create means that an argument names nothing: `Invalid`."""
    message = f"{fault.message} ({fault.code})"
    match fault.meaning:
        case Meaning.STOCKOUT:
            return Stockout(message)
        case Meaning.QUOTA:
            return QuotaExceeded(message, scope=fault.scope, subject=zone.subject(fault.scope))
        case Meaning.RATE:
            return RateLimited(message, retry_after=fault.retry_after)
        case Meaning.PERMISSION:
            return PermissionDenied(message, scope=fault.scope, subject=zone.subject(fault.scope))
        case Meaning.INVALID | Meaning.NOT_FOUND:
            return Invalid(message)
        case Meaning.EXISTS:
            return Conflict(message)
    return Transient(message)


_KINDS = {
    Meaning.STOCKOUT: FailureKind.STOCKOUT,
    Meaning.QUOTA: FailureKind.QUOTA,
    Meaning.RATE: FailureKind.RATE_LIMIT,
    Meaning.PERMISSION: FailureKind.PERMISSION,
    Meaning.INVALID: FailureKind.INVALID,
    Meaning.NOT_FOUND: FailureKind.INVALID,
    Meaning.EXISTS: FailureKind.CONFLICT,
    Meaning.PREEMPTED: FailureKind.PREEMPTED,
}


def failure_of(fault: Fault, zone: ProjectZone) -> Failure:
    """The failure in an observation, for an order that failed after the cloud had accepted it."""
    scoped = fault.meaning in (Meaning.QUOTA, Meaning.PERMISSION)
    return Failure(
        kind=_KINDS.get(fault.meaning, FailureKind.GONE),
        message=f"{fault.message} ({fault.code})",
        scope=fault.scope if scoped else None,
        subject=zone.subject(fault.scope) if scoped else "",
        retry_after_seconds=fault.retry_after if fault.meaning is Meaning.RATE else 0.0,
    )


def under_maintenance(what: str) -> Failure:
    """Maintenance, as the reason why hosts do not answer. A slice out of service for too long counts as preempted."""
    return Failure(kind=FailureKind.PREEMPTED, message=f"out of service for maintenance: {what or 'the cloud gives no details'}")


@contextmanager
def translated(zone: ProjectZone) -> Iterator[None]:
    """Raise the port's errors instead of Google's. The cause is dropped: it may quote the request, and with it a secret."""
    try:
        yield
    except CLIENT_ERRORS as error:
        raise error_of(fault_of(error), zone) from None
