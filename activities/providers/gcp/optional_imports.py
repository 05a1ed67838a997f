"""Import modules that need Google's client libraries, which are an optional dependency."""

import asyncio
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from activities.providers.port import Invalid

INSTALL = "make install-google"
"""The command that adds Google's client libraries to the worker's environment."""
MISSING = f"Google's client libraries are not installed here; run `{INSTALL}`"
_LIBRARIES = ("google.cloud.compute_v1", "google.cloud.tpu_v2")


def google_installed() -> bool:
    """Whether Google's client libraries are installed; imports none of them."""
    try:
        return all(find_spec(library) is not None for library in _LIBRARIES)
    except ModuleNotFoundError:  # A parent package is missing.
        return False


async def load(module: str) -> Any:
    """Import a module of this package, in a thread because it takes seconds; `Invalid` if Google's libraries are missing."""
    try:
        return await asyncio.to_thread(import_module, f"activities.providers.gcp.{module}")
    except ModuleNotFoundError:
        if google_installed():
            raise
        raise Invalid(f"provider.kind: {MISSING}, then restart the worker", fix=f"{INSTALL}, then restart the worker") from None
