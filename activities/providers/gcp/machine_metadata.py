"""The metadata of machines: ownership, health settings, and the start-up script with its environment and secrets."""

import shlex
from typing import NamedTuple

from activities.providers.gcp.naming import HEALTH_KEY, ownership_metadata
from activities.providers.gcp.settings import ComputeSettings, Connection, HealthBy, Secret, SecretText, TpuSettings
from activities.providers.port import Invalid, Order
from activities.secrets import UnresolvedSecret, resolve

_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")


class MachineMetadata(NamedTuple):
    """The metadata of a slice's machines, and the secrets in it."""

    metadata: dict[str, str]
    secrets: tuple[str, ...]


def machine_metadata(order: Order, settings: TpuSettings | ComputeSettings, connection: Connection) -> MachineMetadata:
    """The metadata of the order's machines, with secrets read from the worker's environment or files.

    The connection has the health settings for groups without their own.
    """
    secrets: list[str] = []

    def plain(given: SecretText, *where: str) -> str:
        if not isinstance(given, Secret):
            return given
        secrets.append(_looked_up(given, where))
        return secrets[-1]

    extra = {key: plain(value, "metadata", key) for key, value in settings.metadata.items()}
    metadata = extra | ownership_metadata(order.labels)
    if (health := settings.health_metadata) is not None:
        metadata[HEALTH_KEY] = health
    if settings.health is HealthBy.GUEST_ATTRIBUTES:
        metadata["enable-guest-attributes"] = "TRUE"
    if settings.startup_script is not None:
        env = _identity(order, connection.with_health_settings(settings.health_metadata)) | {
            name: plain(value, "env", name) for name, value in settings.env.items()
        }
        metadata["startup-script"] = _script(plain(settings.startup_script, "startup_script"), env)
    return MachineMetadata(metadata, tuple(secrets))


def _looked_up(secret: Secret, where: tuple[str, ...]) -> str:
    try:
        found = str(resolve({"secret": secret.secret}, where=("provider", *where)))
    except UnresolvedSecret as error:
        raise Invalid(str(error)) from None
    if not found.isascii() and any("\ud800" <= letter <= "\udfff" for letter in found):
        raise Invalid(f"{'.'.join(('provider', *where))}: the content of {secret.secret} is not text")
    return found


def _identity(order: Order, connection: Connection) -> dict[str, str]:
    return {
        "PENSTOCK_CLUSTER": order.cluster,
        "PENSTOCK_GROUP": order.group,
        "PENSTOCK_SLICE": order.slice,
        "PENSTOCK_HOSTS": str(order.hosts),
        "PENSTOCK_HEALTH_PORT": str(connection.health_port),
    }


def _script(script: str, env: dict[str, str]) -> str:
    """The script, run by its own shell, with its environment exported in the first lines."""
    first, _, rest = script.partition("\n")
    shebang, body = (first, rest) if first.startswith("#!") else ("#!/bin/bash", script)
    programs = [word.rsplit("/", 1)[-1] for word in shebang[2:].split()[:2]]
    if not any(program in _SHELLS for program in programs):
        raise Invalid(
            "provider.startup_script has the shebang of a program that is no shell; write a shell script that calls the program"
        )
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in env.items())
    return f"{shebang}\n{exports}\n{body}"
