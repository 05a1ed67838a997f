"""How a Google provider is opened: by its connection alone, so that groups of one project share it."""

from collections.abc import Callable, Mapping

import aiohttp
from pydantic import JsonValue

from activities.providers.gcp.packages import load
from activities.providers.gcp.settings import Connection, read
from activities.providers.port import Provider

_CLASSES = {"gcp-tpu": ("tpu", "TpuProvider"), "gce": ("compute", "ComputeProvider")}
"""Module and class of each kind."""
KINDS = tuple(_CLASSES)
ENDPOINT, TPU_ENDPOINT, HEALTH_PORT = "PENSTOCK_GCP_ENDPOINT", "PENSTOCK_GCP_TPU_ENDPOINT", "PENSTOCK_GCP_HEALTH_PORT"
"""Where an emulator of both APIs is, and its hosts, for groups that do not say."""
_BY_ENVIRONMENT = {"endpoint": ENDPOINT, "tpu_endpoint": TPU_ENDPOINT, "health_port": HEALTH_PORT}


async def opener(
    kind: str,
    settings: Mapping[str, JsonValue],
    *,
    session: Callable[[], aiohttp.ClientSession],
    environ: Mapping[str, str],
) -> tuple[str, Callable[[], Provider]]:
    """What tells this provider from others of its kind, and how to open it; `Invalid` if it cannot be reached so.

    Google's packages are imported here. What is not about the connection is read with
    each order, so that a mistake in it keeps nobody from listing and deleting.
    """
    reached = connection_of(settings, environ)
    module, name = _CLASSES[kind]
    loaded = await load(module)
    return reached.model_dump_json(), lambda: getattr(loaded, name)(reached, session())


def connection_of(settings: Mapping[str, JsonValue], environ: Mapping[str, str]) -> Connection:
    """How the project is reached, as the group says or else the worker's environment; `Invalid` if that makes no sense."""
    told: dict[str, JsonValue] = {name: environ[variable] for name, variable in _BY_ENVIRONMENT.items() if environ.get(variable)}
    return read(Connection, told | {name: value for name, value in settings.items() if name in _CONNECTION})


_CONNECTION = {field.alias or name for name, field in Connection.model_fields.items()}
