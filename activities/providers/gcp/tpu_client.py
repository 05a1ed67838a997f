"""The client of the Cloud TPU API, and the real cause of calls that failed without a token."""

import asyncio
from typing import NamedTuple

import grpc
from google.auth import exceptions as auth
from google.auth.credentials import Credentials
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcAsyncIOTransport

from activities.providers.gcp.calls import CALL_SECONDS, keep_requests_out_of_logs
from activities.providers.gcp.credentials import find_credentials, refresh
from activities.providers.gcp.errors import Fault, fault_of, lacks_token


class Opened(NamedTuple):
    """A client and its credentials; a client of an emulator has none."""

    client: tpu_v2.TpuAsyncClient
    credentials: Credentials | None = None


async def open_client(endpoint: str | None) -> Opened:
    """A client of Google with the worker's credentials, or of an emulator without any.

    A thread looks for the credentials, because on a machine without any that takes seconds.
    """
    keep_requests_out_of_logs()
    if endpoint is None:
        found = await asyncio.to_thread(find_credentials)
        return Opened(tpu_v2.TpuAsyncClient(credentials=found), found)
    return Opened(tpu_v2.TpuAsyncClient(transport=TpuGrpcAsyncIOTransport(channel=grpc.aio.insecure_channel(endpoint))))


async def call_fault(error: BaseException, credentials: Credentials | None) -> Fault:
    """The fault of a failed call. If it got no token, request one again: that error has the real cause."""
    if credentials is not None and lacks_token(error):
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await asyncio.to_thread(refresh, credentials)
        except (auth.GoogleAuthError, TimeoutError) as refused:
            return fault_of(refused)
    return fault_of(error)
