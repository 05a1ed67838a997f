"""Hosts on this machine as a provider: the daemon that owns them speaks as the simulated cloud does; its hosts are real."""

from http import HTTPStatus
from typing import Annotated, Any

import aiohttp
from pydantic import BaseModel, BeforeValidator, Field, JsonValue, ValidationError

from activities.providers.port import Host, Invalid, Order
from activities.providers.sim import DEFAULT_TIMEOUT_SECONDS, SimProvider
from activities.secrets import UnresolvedSecret, resolve
from penstock.contract.problems import path_text
from penstock.model.value import Value

DEFAULT_COMMAND = ("sleep", "infinity")
"""A host that is there and does nothing."""
HEALTH_SECONDS = 5.0
"""A host on this machine that has not answered by then is silent."""


def _command(value: object) -> object:
    """A list of strings is taken as it is and a string as a line for the shell: one message for everything else."""
    is_list = isinstance(value, list | tuple) and value and all(isinstance(part, str) for part in value)
    if not is_list and not (isinstance(value, str) and value.strip()):
        raise ValueError("must be a line for the shell, or a list of strings: a program and its arguments")
    return value


class LocalSettings(Value):
    """What a group's `provider` may say beside `kind: local`."""

    command: Annotated[str | tuple[str, ...], BeforeValidator(_command)] = DEFAULT_COMMAND
    """What each host runs: a program and its arguments, or a line for the shell."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables for it, beside those that say which slice and host it is."""
    project: str | None = None
    """Tells daemons apart; the daemon itself does not need it."""


class _Health(BaseModel):
    slice: str


class LocalProvider(SimProvider):
    """Keeps the promises of `Provider`, for whoever knows the `token` in the daemon's state directory."""

    cloud = "the daemon of local hosts"

    def __init__(
        self, url: str, session: aiohttp.ClientSession, *, token: str, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    ) -> None:
        super().__init__(url, session, timeout_seconds=timeout_seconds)
        self._headers = {"Authorization": f"Bearer {token}"}
        self._health_timeout = aiohttp.ClientTimeout(total=min(timeout_seconds, HEALTH_SECONDS))

    def _request(self, order: Order) -> dict[str, Any]:
        settings = settings_of(order.settings)
        return {**super()._request(order), "command": settings.command, "env": settings.env}

    async def _host(self, name: str, host: int, address: str | None) -> Host:  # noqa: ARG002 - an address is enough here
        """The host itself is asked, not the daemon. Whatever it says instead of its slice is silence."""
        if address is None:
            return Host()
        try:
            url = f"http://{address}/health"
            async with self._session.get(url, timeout=self._health_timeout, allow_redirects=False) as response:
                text = await response.text() if response.status == HTTPStatus.OK else ""
            answered = _Health.model_validate_json(text).slice
        except (aiohttp.ClientError, TimeoutError, ValueError):
            answered = None
        return Host(address=address, asked=True, answered=answered)


def settings_of(settings: dict[str, JsonValue]) -> LocalSettings:
    """The settings with their secrets in place; `Invalid` names the field that is wrong and never what stands in it."""
    try:
        return LocalSettings.model_validate(settings | {"env": resolve(settings.get("env", {}), where=("env",))})
    except UnresolvedSecret as error:
        raise Invalid(f"provider.{error}") from None
    except ValidationError as error:
        told = [
            f"provider.{path_text(each['loc'])}: {_words(each['type'], each['msg'])}"
            for each in error.errors(include_input=False)
        ]
        raise Invalid("; ".join(told)) from None


def _words(kind: str, message: str) -> str:
    return "unknown key" if kind == "extra_forbidden" else message.removeprefix("Value error, ")
