"""Application default credentials: found, refreshed once, or what to do about it in one sentence."""

import os

import google.auth
from google.auth import environment_vars, exceptions
from google.auth.credentials import Credentials
from google.auth.transport.requests import Request

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
HOW_TO_LOG_IN = (
    "Run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a service account's key file, "
    "or run the worker on a machine with a service account"
)
_REFRESH_SECONDS = 20.0
"""One round trip to Google's token server, with room for a slow network."""


def find_credentials() -> Credentials:
    """The credentials of this process; if it has none that can be read, an error of `google.auth` says so."""
    try:
        found, _ = google.auth.default(scopes=SCOPES)
    except (exceptions.DefaultCredentialsError, exceptions.TransportError):
        raise
    except Exception as error:
        # A file that is a directory, or JSON of another kind, is met with whatever exception the parser stumbles over.
        raise exceptions.DefaultCredentialsError(f"{_file()} cannot be read as credentials: {_named(error)}") from None  # type: ignore[no-untyped-call]
    return found


def refresh(found: Credentials) -> None:
    """Get a token; what keeps from it is raised as an error of `google.auth`. It waits for the network."""
    try:
        found.refresh(_bounded)  # type: ignore[no-untyped-call]
    except exceptions.GoogleAuthError:
        raise
    except Exception as error:
        # As above: what a file may say is only read when a token is wanted for it.
        raise exceptions.DefaultCredentialsError(f"{_file()} cannot be used: {_named(error)}") from None  # type: ignore[no-untyped-call]


def check_credentials() -> str | None:
    """One sentence with the fix if this process cannot speak for anybody to Google; None if it can.

    It waits for the network, so it is called from a thread, once, when a worker starts.
    """
    try:
        refresh(find_credentials())
    except exceptions.DefaultCredentialsError as error:
        return f"No usable Google credentials: {first_line(error)}. {HOW_TO_LOG_IN}."
    except exceptions.TransportError as error:
        return f"Google's token server cannot be reached, so credentials are not checked: {first_line(error)}. Mend the network."
    except exceptions.GoogleAuthError as error:
        return f"Google refuses the credentials of this worker: {first_line(error)}. {HOW_TO_LOG_IN}."
    return None


def first_line(error: BaseException) -> str:
    """What an error says, without what it adds in further lines and arguments."""
    text = str(error.args[0]).strip() if error.args else ""
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__


def _bounded(url: str, method: str = "GET", **more: object) -> object:
    more["timeout"] = _REFRESH_SECONDS
    return Request()(url=url, method=method, **more)


def _file() -> str:
    return os.environ.get(environment_vars.CREDENTIALS) or "what gcloud wrote"


def _named(error: Exception) -> str:
    """What was stumbled over. An OSError has its number first, and says more in words."""
    said = error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
    return f"{type(error).__name__}: {said}"
