"""The provider of hosts on this machine: the local daemon has the simulated cloud's API, but its hosts are real processes."""

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import aiohttp
from pydantic import BaseModel, BeforeValidator, Field, JsonValue, ValidationError

from activities.providers.port import Host, Invalid, Order, checked
from activities.providers.runtime import Opener, ProcessContext, ProviderRuntime, Settings
from activities.providers.sim import DEFAULT_TIMEOUT_SECONDS, SimProvider, text_setting
from activities.secrets import UnresolvedSecret, resolve
from penstock.contract.problems import path_text
from penstock.model.value import Value

LOCAL_URL = "PENSTOCK_LOCAL_URL"
"""The environment variable with the daemon's address, for groups without `provider.url`."""
LOCAL_TOKEN_FILE = "PENSTOCK_LOCAL_TOKEN_FILE"  # noqa: S105 - the file, not the token
"""The environment variable with the file that holds the daemon's token, for groups without `provider.token`."""
_CONNECTION_SETTINGS = ("url", "token")

DEFAULT_COMMAND = ("sleep", "infinity")
"""A process that does nothing, so that a host exists."""
HEALTH_SECONDS = 5.0
"""Timeout of a health check: a host on the same machine answers in milliseconds."""


def _command(value: object) -> object:
    """Accept a shell command line or a list of strings; reject everything else with one message."""
    is_list = isinstance(value, list | tuple) and value and all(isinstance(part, str) for part in value)
    if not is_list and not (isinstance(value, str) and value.strip()):
        raise ValueError("must be a line for the shell, or a list of strings: a program and its arguments")
    return value


class LocalSettings(Value):
    """The keys of a group's `provider` beside `kind: local` and the connection."""

    command: Annotated[str | tuple[str, ...], BeforeValidator(_command)] = DEFAULT_COMMAND
    """The command of each host: a program and its arguments, or a line for the shell."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the command, beside those that name its slice and host."""
    project: str | None = None
    """Distinguishes the accounts of several daemons; the daemon itself does not use it."""


class _Health(BaseModel):
    slice: str


class LocalProvider(SimProvider):
    """The daemon of local hosts; `token` is the one in its state directory."""

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

    async def _checked(self, name: str, index: int, host: Host) -> Host:  # noqa: ARG002 - an address is enough here
        """The host after its own answer, not the daemon's. Any reply but a slice id counts as no answer."""
        if not host.address:
            return host
        try:
            url = f"http://{host.address}/health"
            async with self._session.get(url, timeout=self._health_timeout, allow_redirects=False) as response:
                text = await response.text() if response.status == HTTPStatus.OK else ""
            answered = _Health.model_validate_json(text).slice
        except (aiohttp.ClientError, TimeoutError, ValueError):
            answered = None
        return checked(host, answered)


class LocalRuntime(ProviderRuntime):
    """The kind `local`."""

    async def opener(self, settings: Settings, context: ProcessContext) -> Opener:
        """By address and token, each from the group's settings or else from the environment."""
        url = text_setting(settings, "url") or context.environ.get(LOCAL_URL)
        if url is None:
            raise Invalid(f"provider.url: the address of the daemon of local hosts is missing; add it, or set {LOCAL_URL}")
        token = _token(settings, context.environ)
        return Opener(f"{url} {token}", lambda: LocalProvider(url, context.session(), token=token))

    async def check_order(self, order: Order) -> None:
        """Read the settings and the secrets in them."""
        settings_of(order.settings)


LOCAL = LocalRuntime()


def settings_of(settings: Mapping[str, JsonValue]) -> LocalSettings:
    """The settings with their secrets resolved; `Invalid` names the wrong field and never repeats its value."""
    own = {name: value for name, value in settings.items() if name not in _CONNECTION_SETTINGS}
    try:
        return LocalSettings.model_validate(own | {"env": resolve(own.get("env", {}), where=("env",))})
    except UnresolvedSecret as error:
        raise Invalid(f"provider.{error}") from None
    except ValidationError as error:
        problems = [
            f"provider.{path_text(each['loc'])}: {_message(each['type'], each['msg'])}"
            for each in error.errors(include_input=False)
        ]
        raise Invalid("; ".join(problems)) from None


def _message(kind: str, message: str) -> str:
    return "unknown key" if kind == "extra_forbidden" else message.removeprefix("Value error, ")


def _token(settings: Settings, environ: Mapping[str, str]) -> str:
    try:
        given = resolve(settings.get("token"), environ=environ, where=("provider", "token"))
    except UnresolvedSecret as error:
        raise Invalid(str(error)) from None
    if isinstance(given, str) and given:
        return given
    file = environ.get(LOCAL_TOKEN_FILE)
    if file is None:
        fix = f"write {{secret: file:PATH}}, or set {LOCAL_TOKEN_FILE} for the worker"
        raise Invalid(f"provider.token: the token in the state directory of the daemon of local hosts is missing; {fix}")
    try:
        return Path(file).read_text().strip()
    except OSError as error:
        raise Invalid(f"{LOCAL_TOKEN_FILE}: {file} cannot be read here: {error.strerror}") from None
