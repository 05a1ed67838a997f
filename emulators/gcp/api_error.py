"""Errors of a call: Google's canonical codes, their HTTP statuses, and the exceptions that both protocols send."""

from enum import IntEnum

from emulators.gcp.protobufs import Message


class Code(IntEnum):
    """Google's canonical codes, which gRPC sends as the status of a call."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


HTTP_OF: dict[Code, tuple[int, str]] = {
    Code.INVALID_ARGUMENT: (400, "invalid"),
    Code.OUT_OF_RANGE: (400, "invalid"),
    Code.UNAUTHENTICATED: (401, "authError"),
    Code.PERMISSION_DENIED: (403, "forbidden"),
    Code.NOT_FOUND: (404, "notFound"),
    Code.ALREADY_EXISTS: (409, "alreadyExists"),
    Code.ABORTED: (409, "aborted"),
    Code.FAILED_PRECONDITION: (412, "conditionNotMet"),
    Code.RESOURCE_EXHAUSTED: (429, "rateLimitExceeded"),
    Code.CANCELLED: (499, "cancelled"),
    Code.UNKNOWN: (500, "internalError"),
    Code.DATA_LOSS: (500, "internalError"),
    Code.INTERNAL: (500, "internalError"),
    Code.UNIMPLEMENTED: (501, "notImplemented"),
    Code.UNAVAILABLE: (503, "backendError"),
    Code.DEADLINE_EXCEEDED: (504, "backendError"),
}
"""HTTP status of each code, and the reason that Compute sends with it."""

_CODE_OF = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    409: Code.ALREADY_EXISTS,
    412: Code.FAILED_PRECONDITION,
    429: Code.RESOURCE_EXHAUSTED,
    499: Code.CANCELLED,
    500: Code.INTERNAL,
    501: Code.UNIMPLEMENTED,
    503: Code.UNAVAILABLE,
    504: Code.DEADLINE_EXCEEDED,
}


def code_of(status: int) -> Code:
    """The canonical code of an HTTP status."""
    return _CODE_OF.get(status, Code.UNAVAILABLE if status >= 500 else Code.UNKNOWN)


class ApiError(Exception):
    """A refused call: canonical code, message, details, and HTTP status and reason if they differ from the code's."""

    def __init__(self, code: Code, message: str, *details: Message, status: int | None = None, reason: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
        default_status, default_reason = HTTP_OF[code]
        self.status = status or default_status
        self.reason = reason or default_reason


class LostReply(Exception):
    """The call was carried out, but its caller must get no reply."""
