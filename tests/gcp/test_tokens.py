"""Calls to Cloud TPU that get no token, over real sockets: a refusal is final, an outage is retried."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from google.auth import credentials as auth_credentials
from google.auth import exceptions as auth_exceptions
from google.auth.transport.grpc import AuthMetadataPlugin
from google.auth.transport.requests import Request
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcAsyncIOTransport
from google.oauth2 import service_account

from activities.providers.gcp.settings import Connection
from activities.providers.gcp.tpu import TpuProvider
from activities.providers.gcp.tpu_api import OpenClient, TpuApi
from activities.providers.port import PermissionDenied, ProviderError, Scope, Transient
from tests.gcp.test_credentials import key_file, token_server

auth: Any = auth_exceptions
LOGIN = "gcloud auth application-default login"
METADATA = "Failed to retrieve http://metadata.google.internal/token from the Google Compute Engine metadata service."
DOWN = f"{METADATA} Compute Engine Metadata server unavailable. Response status: 503"


class Failing(auth_credentials.Credentials):
    """Credentials that cannot be refreshed, either ever or the first few times."""

    def __init__(self, error: Exception, *, times: int | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.error = error
        self.times = times

    @property
    def valid(self) -> bool:
        return False

    def refresh(self, _: object) -> None:
        if self.times == 0:
            return
        if self.times is not None:
            self.times -= 1
        raise self.error


class Certificate(NamedTuple):
    """A server's own, for localhost."""

    key: bytes
    certificate: bytes


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Certificate(private, made.public_bytes(serialization.Encoding.PEM))


@pytest.fixture
def tokens() -> Iterator[str]:
    with token_server() as url:
        yield url


@asynccontextmanager
async def provider_with(credentials: Any, certificate: Certificate) -> AsyncIterator[TpuProvider]:
    """A provider whose client is Google's own, with these credentials, and a server that would answer its calls."""
    server = grpc.aio.server()
    port = server.add_secure_port("localhost:0", grpc.ssl_server_credentials([certificate]))
    await server.start()
    plugin = AuthMetadataPlugin(credentials, Request())  # type: ignore[no-untyped-call]
    trusting = grpc.ssl_channel_credentials(certificate.certificate)
    channel = grpc.aio.secure_channel(
        f"localhost:{port}", grpc.composite_channel_credentials(trusting, grpc.metadata_call_credentials(plugin))
    )
    client = tpu_v2.TpuAsyncClient(transport=TpuGrpcAsyncIOTransport(channel=channel))
    async with aiohttp.ClientSession() as session:
        connection = Connection(project="my-project")
        provider = TpuProvider(connection, session, api=TpuApi(connection, OpenClient(client, credentials)))
        try:
            yield provider
        finally:
            await provider.close()
            await server.stop(None)


def refused(credentials: Any, certificate: Certificate) -> ProviderError:
    """The error of a call."""

    async def called() -> ProviderError:
        async with provider_with(credentials, certificate) as provider:
            with pytest.raises(ProviderError) as raised:
                await provider.list("us-central1-a", cluster="prod")
            return raised.value

    return asyncio.run(called())


REFUSED: dict[str, Exception] = {
    "key revoked": auth.RefreshError("invalid_grant: Invalid JWT Signature.", {"error": "invalid_grant"}),
    "login too old": auth.ReauthFailError("Reauthentication is needed."),
    "impersonation refused": auth.RefreshError("Unable to acquire impersonated credentials", '{"error": {"code": 403}}'),
    "machine without service account": auth.RefreshError(auth.TransportError(f"{METADATA} Status: 404 Response: b''")),
    "workload identity refused": auth.OAuthError("Error code invalid_target: The audience is invalid."),
    "file of another kind": KeyError("refresh_token"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_token_is_reported_with_how_to_log_in(certificate: Certificate, name: str) -> None:
    error = refused(Failing(REFUSED[name]), certificate)
    assert isinstance(error, PermissionDenied)
    assert (error.scope, error.subject) == (Scope.PROJECT, "my-project")
    assert LOGIN in str(error)


RETRYABLE: dict[str, Exception] = {
    "no route": auth.TransportError("HTTPSConnectionPool: Max retries exceeded"),
    "try again": auth.RefreshError("internal_failure", retryable=True),
    "metadata server down": auth.RefreshError(auth.TransportError(DOWN)),
}


@pytest.mark.parametrize("name", RETRYABLE)
def test_a_token_server_out_of_reach_is_no_refusal(certificate: Certificate, name: str) -> None:
    assert isinstance(refused(Failing(RETRYABLE[name]), certificate), Transient)


def test_a_token_that_can_be_had_after_all_is_no_refusal(certificate: Certificate) -> None:
    assert isinstance(refused(Failing(REFUSED["key revoked"], times=1), certificate), Transient)


def test_a_key_that_the_token_server_refuses_is_reported(certificate: Certificate, tokens: str, tmp_path: Path) -> None:
    error = refused(key_of(tmp_path, f"{tokens}/unknown"), certificate)
    assert isinstance(error, PermissionDenied)
    assert "invalid_grant" in str(error)


def test_a_token_server_that_refuses_connections_is_no_fault_of_the_key(certificate: Certificate, tmp_path: Path) -> None:
    assert isinstance(refused(key_of(tmp_path, "http://127.0.0.1:9/token"), certificate), Transient)


def key_of(folder: Path, token_uri: str) -> Any:
    scopes = ["https://www.googleapis.com/auth/cloud-platform"]
    read: Any = service_account.Credentials.from_service_account_file
    return read(str(key_file(folder / "key.json", token_uri)), scopes=scopes)
