"""What machines are told at their start: the user's script, who they are, and secrets that nobody else may read."""

import shlex
from typing import NamedTuple

from activities.providers.gcp.naming import HEALTH_KEY, ownership_metadata
from activities.providers.gcp.settings import ComputeSettings, Connection, HealthBy, Secret, TpuSettings, Words
from activities.providers.port import Invalid, Order
from activities.secrets import UnresolvedSecret, resolve

_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")


class Told(NamedTuple):
    """The metadata of a slice's machines, and the secrets among it."""

    metadata: dict[str, str]
    secrets: tuple[str, ...]


def told(order: Order, settings: TpuSettings | ComputeSettings, connection: Connection) -> Told:
    """What the order's machines can read. Secrets are read here, from the worker's environment or files.

    The connection says how hosts are asked of which the group says nothing.
    """
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
        env = _identity(order, connection.asking(settings.health_said)) | {
            name: words(value, "env", name) for name, value in settings.env.items()
        }
        metadata["startup-script"] = _script(words(settings.startup_script, "startup_script"), env)
    return Told(metadata, tuple(secrets))


def _looked_up(secret: Secret, where: tuple[str, ...]) -> str:
    try:
        found = str(resolve({"secret": secret.secret}, where=("provider", *where)))
    except UnresolvedSecret as error:
        raise Invalid(str(error)) from None
    if not found.isascii() and any("\ud800" <= letter <= "\udfff" for letter in found):
        raise Invalid(f"{'.'.join(('provider', *where))}: what {secret.secret} holds is not text")
    return found


def _identity(order: Order, asked: Connection) -> dict[str, str]:
    return {
        "PENSTOCK_CLUSTER": order.cluster,
        "PENSTOCK_GROUP": order.group,
        "PENSTOCK_SLICE": order.slice,
        "PENSTOCK_HOSTS": str(order.hosts),
        "PENSTOCK_HEALTH_PORT": str(asked.health_port),
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
