"""Google's error codes and their meanings, as tables."""

import re
from enum import StrEnum


class Meaning(StrEnum):
    """The meaning of a Google error."""

    STOCKOUT = "stockout"
    QUOTA = "quota"
    RATE = "rate"
    TRANSIENT = "transient"
    EXISTS = "exists"
    NOT_FOUND = "not_found"
    PREEMPTED = "preempted"
    BUSY = "busy"
    INVALID = "invalid"
    PERMISSION = "permission"


_M = Meaning
RPC: dict[int, Meaning] = {
    1: _M.TRANSIENT,
    2: _M.TRANSIENT,
    3: _M.INVALID,
    4: _M.TRANSIENT,
    5: _M.NOT_FOUND,
    6: _M.EXISTS,
    7: _M.PERMISSION,
    8: _M.STOCKOUT,
    9: _M.BUSY,
    10: _M.BUSY,
    11: _M.INVALID,
    12: _M.INVALID,
    13: _M.TRANSIENT,
    14: _M.TRANSIENT,
    15: _M.TRANSIENT,
    16: _M.PERMISSION,
}
"""By google.rpc.Code, in a gRPC reply or an operation."""

HTTP: dict[int, Meaning] = {
    400: _M.INVALID,
    401: _M.PERMISSION,
    403: _M.PERMISSION,
    404: _M.NOT_FOUND,
    408: _M.TRANSIENT,
    409: _M.EXISTS,
    412: _M.BUSY,
    429: _M.RATE,
    499: _M.TRANSIENT,
    501: _M.INVALID,
}

REASONS: dict[str, Meaning] = {
    "ZONE_RESOURCE_POOL_EXHAUSTED": _M.STOCKOUT,
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": _M.STOCKOUT,
    "RESOURCE_POOL_EXHAUSTED": _M.STOCKOUT,
    "STOCKOUT": _M.STOCKOUT,
    "insufficientCapacity": _M.STOCKOUT,
    "VM_MIN_COUNT_NOT_REACHED": _M.STOCKOUT,
    "QUOTA_EXCEEDED": _M.QUOTA,
    "quotaExceeded": _M.QUOTA,
    "QUOTA_NOT_SUFFICIENT": _M.QUOTA,
    "LIMIT_EXCEEDED": _M.QUOTA,
    "limitExceeded": _M.QUOTA,
    "rateLimitExceeded": _M.RATE,
    "RATE_LIMIT_EXCEEDED": _M.RATE,
    "userRateLimitExceeded": _M.RATE,
    "concurrentLimitExceeded": _M.RATE,
    "RESOURCE_OPERATION_RATE_EXCEEDED": _M.RATE,
    "RESOURCE_ALREADY_EXISTS": _M.EXISTS,
    "alreadyExists": _M.EXISTS,
    "duplicate": _M.EXISTS,
    "RESOURCE_NOT_FOUND": _M.NOT_FOUND,
    "notFound": _M.NOT_FOUND,
    "UNSUPPORTED_OPERATION": _M.PREEMPTED,
    "RESOURCE_NOT_READY": _M.BUSY,
    "resourceNotReady": _M.BUSY,
    "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE": _M.BUSY,
    "resourceInUseByAnotherResource": _M.BUSY,
    "conditionNotMet": _M.BUSY,
    "aborted": _M.BUSY,
    "invalid": _M.INVALID,
    "required": _M.INVALID,
    "badRequest": _M.INVALID,
    "INVALID_FIELD_VALUE": _M.INVALID,
    "INVALID_USAGE": _M.INVALID,
    "notImplemented": _M.INVALID,
    "forbidden": _M.PERMISSION,
    "authError": _M.PERMISSION,
    "PERMISSIONS_ERROR": _M.PERMISSION,
    "IAM_PERMISSION_DENIED": _M.PERMISSION,
    "accessNotConfigured": _M.PERMISSION,
    "SERVICE_DISABLED": _M.PERMISSION,
    "backendError": _M.TRANSIENT,
    "internalError": _M.TRANSIENT,
    "INTERNAL_ERROR": _M.TRANSIENT,
}
"""By the error code of Compute's operations and the reason in its replies."""

WORDINGS = {
    _M.PREEMPTED: re.compile(r"\bpreempted\b", re.I),
    _M.STOCKOUT: re.compile(
        r"no more capacity|not have enough resources|currently unavailable in the|insufficient (reserved )?capacity"
        r"|RESOURCE_POOL_EXHAUSTED|stockout",
        re.I,
    ),
    _M.RATE: re.compile(r"rate[ _]?limit|per (minute|second|100 seconds)|PerMinute", re.I),
    _M.QUOTA: re.compile(r"\bquota\b(?! project)", re.I),
    _M.INVALID: re.compile(r"not compatible|not supported|does not support", re.I),
}
"""Message patterns that decide between the meanings of an ambiguous code.

A message about a "quota project" (the project that pays for calls) is about a permission, not a quota."""

CAN_ALSO_MEAN: dict[str, tuple[Meaning, ...]] = {
    "rpc 2": (_M.STOCKOUT,),
    "rpc 3": (_M.PREEMPTED,),
    "rpc 4": (_M.STOCKOUT,),
    "rpc 8": (_M.STOCKOUT, _M.RATE, _M.QUOTA),
    "rpc 9": (_M.STOCKOUT,),
    "rpc 13": (_M.STOCKOUT,),
    "rpc 14": (_M.STOCKOUT,),
    "http 403": (_M.RATE, _M.QUOTA),
    "http 500": (_M.STOCKOUT,),
    "http 503": (_M.STOCKOUT,),
    "forbidden": (_M.RATE, _M.QUOTA),
    "backendError": (_M.STOCKOUT,),
    "internalError": (_M.STOCKOUT,),
    "INTERNAL_ERROR": (_M.STOCKOUT,),
    "UNSUPPORTED_OPERATION": (_M.PREEMPTED, _M.INVALID),
}
"""Further meanings of ambiguous codes; the message decides. Compute uses 403 for quotas and for permissions, and reports
some stockouts as 503 or INTERNAL.

An insert ends with UNSUPPORTED_OPERATION if its machine was preempted meanwhile, or if its settings cannot be combined."""
UNKNOWN_CAN_MEAN = (_M.STOCKOUT,)
"""Further meanings of a code that is in no table, beside those of its HTTP status."""

NO_TOKEN = re.compile(r"metadata from plugin failed")
"""gRPC reports that it got no token as UNAVAILABLE with this message."""
NO_METADATA_SERVER = re.compile(r"Metadata server unavailable")
"""`google.auth` reports an outage of the metadata server, which issues tokens, as a refusal with this message."""
ZONE_ALONE = re.compile(r"not found or access is unauthorized", re.I)
EVERYWHERE = re.compile(r"globally|ALL[_-]REGIONS", re.I)
IN_ZONE = re.compile(r"PerZone|in zone|per[_-](project[_-])?zone", re.I)
IN_REGION = re.compile(r"PerRegion|in region|per[_-](project[_-])?region", re.I)
IN_PROJECT = re.compile(r"PerProject|per[_-]project", re.I)

RETRYABLE = (_M.TRANSIENT, _M.BUSY, _M.RATE)
"""Meanings that may be gone when the call is repeated."""

BY_SPECIFICITY = (
    _M.QUOTA,
    _M.STOCKOUT,
    _M.PREEMPTED,
    _M.PERMISSION,
    _M.INVALID,
    _M.NOT_FOUND,
    _M.EXISTS,
    _M.RATE,
    _M.BUSY,
    _M.TRANSIENT,
)
"""The most specific meaning first: it is reported if an operation has several errors."""
