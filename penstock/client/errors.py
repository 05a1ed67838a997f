"""Exceptions of the client: one base class with a code."""

from penstock.contract.error_codes import ErrorCode


class ClientError(Exception):
    """A call failed. `code` says why; the text is for people.

    Errors of the connection itself stay Temporal's `RPCError`, and an `asyncio.timeout` of the caller stays `TimeoutError`.
    """

    def __init__(self, message: str, code: ErrorCode) -> None:
        super().__init__(message)
        self.code = code


class Refused(ClientError):
    """The autoscaler refused an update or a query, or the message cannot be sent."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.REFUSED) -> None:
        super().__init__(message, code)


class NotSent(ClientError):
    """The Temporal server does not answer, so demand may have been carried out or not. Submit it again: repeating is safe."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(
            f"demand of source {source!r} may not have been sent: the Temporal server does not answer ({problem});"
            " submit it again (repeating is safe: it replaces the demand of its source)",
            ErrorCode.NO_SERVER,
        )


class NoSuchCluster(ClientError, LookupError):
    """No autoscaler of that name runs."""

    def __init__(self, cluster: str) -> None:
        super().__init__(f"no cluster {cluster!r} runs here; start it with its configuration", ErrorCode.NO_SUCH_CLUSTER)
        self.cluster = cluster


class NoSuchSlice(ClientError, LookupError):
    """No workflow of that slice exists, or Temporal has already deleted its history."""

    def __init__(self, slice_id: str) -> None:
        super().__init__(f"there is no slice {slice_id!r}", ErrorCode.NO_SUCH_SLICE)
        self.slice_id = slice_id
