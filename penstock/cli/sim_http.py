"""HTTP calls to the simulated cloud."""

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

from penstock.cli.failures import CommandFailed
from penstock.contract.addresses import DEFAULT_SIM_URL
from penstock.contract.error_codes import ErrorCode

_SECONDS = 10.0
"""Answers take milliseconds."""


class SimCalls:
    """One simulated cloud, by its address."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise CommandFailed(f"{url!r} is not a URL; write it like {DEFAULT_SIM_URL}", code=ErrorCode.BAD_INPUT)
        # A proxy from the environment must not apply to this machine itself.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The cloud's answer; raises `CommandFailed` with the cloud's message if it refuses."""
        data = None if body is None else json.dumps(body, default=str).encode()  # YAML has dates, JSON has not.
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)  # noqa: S310
        try:
            with self._opener.open(request, timeout=_SECONDS) as response:
                return json.load(response)
        except urllib.error.HTTPError as refusal:
            code = ErrorCode.BAD_INPUT if refusal.code == http.client.BAD_REQUEST else ErrorCode.REFUSED
            raise CommandFailed(f"the simulated cloud refused: {_message(refusal)}", code=code) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise CommandFailed(
                f"no simulated cloud answers at {self.url} ({getattr(error, 'reason', error)})",
                "Start one: make run, or python -m emulators.sim --database FILE",
                "Or use another: penstock sim --url URL, or export PENSTOCK_SIM_URL=URL",
                code=ErrorCode.NO_SIMULATED_CLOUD,
            ) from None


def _message(refusal: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(refusal)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"{refusal.code} {refusal.reason}"
