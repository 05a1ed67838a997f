"""What machines are told at their start: the user's script, who they are, and secrets that nobody else may read."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from activities.providers.gcp.naming import HEALTH_KEY, ownership_metadata
from activities.providers.gcp.settings import ComputeSettings, HealthBy, Secret, TpuSettings, Words
from activities.providers.port import Invalid, Order, ProviderError
from activities.secrets import UnresolvedSecret, resolve

_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
_SHORTEST_LINE = 6
"""Characters of a line of a secret that is hidden by itself: shorter ones are words that messages are made of."""
_HIDDEN = "(secret)"


class Told(NamedTuple):
    """The metadata of a slice's machines, and the secrets among it."""

    metadata: dict[str, str]
    secrets: tuple[str, ...]


def told(order: Order, settings: TpuSettings | ComputeSettings) -> Told:
    """What the order's machines can read. Secrets are read here, from the worker's environment or files."""
    secrets: list[str] = []

    def words(given: Words, *where: str) -> str:
        if not isinstance(given, Secret):
            return given
        secrets.append(_looked_up(given, where))
        return secrets[-1]

    extra = {key: words(value, "metadata", key) for key, value in settings.metadata.items()}
    metadata = extra | ownership_metadata(order.labels)
    if (said := settings.health_said) is not None:
        metadata[HEALTH_KEY] = said
    if settings.health is HealthBy.GUEST_ATTRIBUTES:
        metadata["enable-guest-attributes"] = "TRUE"
    if settings.startup_script is not None:
        env = _identity(order, settings) | {name: words(value, "env", name) for name, value in settings.env.items()}
        metadata["startup-script"] = _script(words(settings.startup_script, "startup_script"), env)
    return Told(metadata, tuple(secrets))


def _looked_up(secret: Secret, where: tuple[str, ...]) -> str:
    try:
        return str(resolve({"secret": secret.secret}, where=("provider", *where)))
    except UnresolvedSecret as error:
        raise Invalid(str(error)) from None


def _identity(order: Order, settings: TpuSettings | ComputeSettings) -> dict[str, str]:
    return {
        "PENSTOCK_CLUSTER": order.cluster,
        "PENSTOCK_GROUP": order.group,
        "PENSTOCK_SLICE": order.slice,
        "PENSTOCK_HOSTS": str(order.hosts),
        "PENSTOCK_HEALTH_PORT": str(settings.health_port),
    }


def _script(script: str, env: dict[str, str]) -> str:
    """The script with its environment exported first, under the shell that it names."""
    first, _, rest = script.partition("\n")
    shebang, body = (first, rest) if first.startswith("#!") else ("#!/bin/bash", script)
    programs = [word.rsplit("/", 1)[-1] for word in shebang[2:].split()[:2]]
    if not any(program in _SHELLS for program in programs):
        raise Invalid("provider.startup_script is for another program than a shell; write a shell script, which may call others")
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in env.items())
    return f"{shebang}\n{exports}\n{body}"


@contextmanager
def unspoken(secrets: tuple[str, ...]) -> Iterator[None]:
    """Raise errors without the secrets: Google quotes the values that it refuses."""
    try:
        yield
    except ProviderError as error:
        error.args = (_without(str(error), secrets),)
        raise


def _without(text: str, secrets: tuple[str, ...]) -> str:
    lines = [line.strip() for secret in secrets for line in secret.splitlines()]
    for part in sorted({*secrets, *(line for line in lines if len(line) >= _SHORTEST_LINE)}, key=len, reverse=True):
        text = text.replace(part, _HIDDEN) if part else text
    return text
