"""Codes of the errors that clients and commands report, so that programs never compare texts."""

from enum import StrEnum


class ErrorCode(StrEnum):
    """Why a call or a command failed."""

    BAD_INPUT = "bad_input"
    """A file, an option or a setting is wrong; the message says where and how to fix it."""
    NO_SERVER = "no_server"
    """No Temporal server answers at the address."""
    NO_WORKER = "no_worker"
    """The server runs, but no worker polls the task queue."""
    NO_ANSWER = "no_answer"
    """A worker polls the task queue, but did not answer in time."""
    NO_SIMULATED_CLOUD = "no_simulated_cloud"
    """No simulated cloud answers at its address."""
    NO_SUCH_CLUSTER = "no_such_cluster"
    """No autoscaler of that name runs."""
    SEVERAL_CLUSTERS = "several_clusters"
    """Several clusters run, and none was named."""
    ALREADY_RUNNING = "already_running"
    """The cluster to start is already running."""
    NO_SUCH_SLICE = "no_such_slice"
    """No slice of that name is in the ledger, and Temporal has no workflow of it."""
    MESSAGE_TOO_LARGE = "message_too_large"
    """The message is larger than Temporal accepts."""
    CLUSTER_TOO_LARGE = "cluster_too_large"
    """A query would take longer than Temporal allows; `AutoscalerClient` decides on the dumped state instead."""
    REFUSED = "refused"
    """The autoscaler, the server or the simulated cloud refused the request; the message says why."""
    INTERRUPTED = "interrupted"
    """Ctrl-C ended the command."""
    UNEXPECTED = "unexpected"
    """A bug in Penstock: the command failed in a way that nobody foresaw."""
    AUTOSCALER_ENDED = "autoscaler_ended"
    """An autoscaler ended while the command waited for its cluster to be deleted, and did not come back."""


def with_code(code: ErrorCode, message: str) -> str:
    """The text of a failed query with its code in front: Temporal carries nothing but the text to the caller."""
    return f"{code}: {message}"


def split_code(text: str) -> tuple[ErrorCode, str]:
    """The code and the message of a failed query; a text without a code is a plain refusal."""
    code, separator, message = text.partition(": ")
    return (ErrorCode(code), message) if separator and code in list(ErrorCode) else (ErrorCode.REFUSED, text)
