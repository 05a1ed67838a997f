"""Application default credentials: find them, refresh them, and describe any problem with them in one sentence."""

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
"""Timeout of a round trip to Google's token server on a slow network."""


def find_credentials() -> Credentials:
    """The credentials of this process; raises an error of `google.auth` if there are none or they cannot be read."""
    try:
        found, _ = google.auth.default(scopes=SCOPES)
    except (exceptions.DefaultCredentialsError, exceptions.TransportError):
        raise
    except Exception as error:
        # For a directory, or JSON of another kind, the parser raises arbitrary exceptions.
        raise exceptions.DefaultCredentialsError(f"{_file()} cannot be read as credentials: {_named(error)}") from None  # type: ignore[no-untyped-call]
    return found


def refresh(found: Credentials) -> None:
    """Get a token, over the network; every failure is raised as an error of `google.auth`."""
    try:
        found.refresh(_bounded)  # type: ignore[no-untyped-call]
    except exceptions.GoogleAuthError:
        raise
    except Exception as error:
        # As above: some contents of a file are parsed only when a token is requested.
        raise exceptions.DefaultCredentialsError(f"{_file()} cannot be used: {_named(error)}") from None  # type: ignore[no-untyped-call]


def check_credentials() -> str | None:
    """One sentence with the fix if this process has no usable credentials; None if it has.

    It waits for the network, so call it in a thread.
    """
    try:
        refresh(find_credentials())
    except exceptions.DefaultCredentialsError as error:
        return f"No usable Google credentials: {first_line(error)}. {HOW_TO_LOG_IN}."
    except exceptions.TransportError as error:
        return f"Google's token server cannot be reached, so credentials are not checked: {first_line(error)}. Check the network."
    except exceptions.GoogleAuthError as error:
        return f"Google refuses the credentials of this worker: {first_line(error)}. {HOW_TO_LOG_IN}."
    return None


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    text = str(error.args[0]).strip() if error.args else ""
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__


def _bounded(url: str, method: str = "GET", **more: object) -> object:
    more["timeout"] = _REFRESH_SECONDS
    return Request()(url=url, method=method, **more)


def _file() -> str:
    return os.environ.get(environment_vars.CREDENTIALS) or "the file written by gcloud"


def _named(error: Exception) -> str:
    """The type and message of an exception. The first argument of an OSError is only its number."""
    message = error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
    return f"{type(error).__name__}: {message}"
