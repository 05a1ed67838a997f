"""Application default credentials: found, refreshed once, or what to do about it in one sentence."""

import google.auth
from google.auth import exceptions
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
    """The credentials of this process; `google.auth` raises if it has none."""
    found, _ = google.auth.default(scopes=SCOPES)
    return found


def check_credentials() -> str | None:
    """One sentence with the fix if this process cannot speak for anybody to Google; None if it can.

    It waits for the network, so it is called from a thread, once, when a worker starts.
    """
    try:
        credentials = find_credentials()
    except exceptions.DefaultCredentialsError as error:
        return f"No usable Google credentials: {_first_line(error)}. {HOW_TO_LOG_IN}."
    try:
        credentials.refresh(_bounded)  # type: ignore[no-untyped-call]
    except exceptions.TransportError as error:
        return f"Google's token server cannot be reached, so credentials are not checked: {_first_line(error)}. Mend the network."
    except exceptions.GoogleAuthError as error:
        return f"Google refuses the credentials of this worker: {_first_line(error)}. {HOW_TO_LOG_IN}."
    return None


def _bounded(url: str, method: str = "GET", **more: object) -> object:
    more["timeout"] = _REFRESH_SECONDS
    return Request()(url=url, method=method, **more)


def _first_line(error: Exception) -> str:
    text = str(error.args[0]) if error.args else type(error).__name__
    return text.strip().splitlines()[0].rstrip(".")
