"""The way to a Temporal server: address, namespace, keys and certificates from the environment, as its own tools read them."""

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig

DEFAULT_ADDRESS = "127.0.0.1:7233"
"""Where a Temporal server listens unless told otherwise."""


async def connect(*, address: str | None = None, namespace: str | None = None) -> Client:
    """A client of the server that the environment names, or the one given."""
    settings = ClientConfig.load_client_connect_config()
    if address is not None:
        settings["target_host"] = address
    if namespace is not None:
        settings["namespace"] = namespace
    settings.setdefault("target_host", DEFAULT_ADDRESS)
    return await Client.connect(**settings, data_converter=pydantic_data_converter)
