"""The client of the Cloud TPU API, and what is behind its word that no token could be had."""

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
    """A client and whom it speaks for; an emulator is spoken to by nobody."""

    client: tpu_v2.TpuAsyncClient
    credentials: Credentials | None = None


async def open_client(endpoint: str | None) -> Opened:
    """A client of Google with the worker's own credentials, or of an emulator without any.

    Credentials are looked for in a thread: on a machine that has none, that is a wait of seconds.
    """
    keep_requests_out_of_logs()
    if endpoint is None:
        found = await asyncio.to_thread(find_credentials)
        return Opened(tpu_v2.TpuAsyncClient(credentials=found), found)
    return Opened(tpu_v2.TpuAsyncClient(transport=TpuGrpcAsyncIOTransport(channel=grpc.aio.insecure_channel(endpoint))))


async def call_fault(error: BaseException, credentials: Credentials | None) -> Fault:
    """What an error of a call means. Where no token could be had, one is asked for again, and what that says counts."""
    if credentials is not None and lacks_token(error):
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await asyncio.to_thread(refresh, credentials)
        except (auth.GoogleAuthError, TimeoutError) as refused:
            return fault_of(refused)
    return fault_of(error)
