"""The clients of the Compute API. They block, so they are opened and called in threads."""

from typing import NamedTuple

from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import compute_v1

from activities.providers.gcp.calls import keep_requests_out_of_logs
from activities.providers.gcp.credentials import find_credentials


class Clients(NamedTuple):
    """Clients of instances and operations. The operations client inside a future would ignore the endpoint."""

    instances: compute_v1.InstancesClient
    operations: compute_v1.ZoneOperationsClient


def open_clients(endpoint: str | None) -> Clients:
    """Clients of Google with the worker's credentials, or of an emulator without any."""
    keep_requests_out_of_logs()
    if endpoint is None:
        found = find_credentials()
        return Clients(compute_v1.InstancesClient(credentials=found), compute_v1.ZoneOperationsClient(credentials=found))
    anonymous, options = AnonymousCredentials(), ClientOptions(api_endpoint=endpoint)  # type: ignore[no-untyped-call]
    return Clients(
        compute_v1.InstancesClient(credentials=anonymous, client_options=options),
        compute_v1.ZoneOperationsClient(credentials=anonymous, client_options=options),
    )
