"""Missing or wrong Google credentials give one sentence with the fix."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from activities.providers.gcp import doctor
from activities.providers.gcp.credentials import check_credentials
from activities.providers.gcp.settings import Connection
from activities.providers.open_providers import Providers
from activities.providers.port import PermissionDenied, Scope


class _Tokens(BaseHTTPRequestHandler):
    """A token server; the path selects the answer."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        known = self.path == "/known"
        answer = (
            {"access_token": "t", "expires_in": 3600} if known else {"error": "invalid_grant", "error_description": "unknown"}
        )
        body = json.dumps(answer).encode()
        self.send_response(200 if known else 400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def token_server() -> Iterator[str]:
    """The address of a running token server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Tokens)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def tokens() -> Iterator[str]:
    with token_server() as url:
        yield url


def key_file(path: Path, token_uri: str) -> Path:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    about = {"type": "service_account", "project_id": "p", "private_key_id": "1", "client_email": "w@p.iam.gserviceaccount.com"}
    path.write_text(json.dumps(about | {"private_key": key.decode(), "token_uri": token_uri}))
    return path


def one_sentence(sentence: str | None, *expected: str) -> None:
    assert sentence is not None
    assert "\n" not in sentence
    assert "gcloud auth application-default login" in sentence
    for words in expected:
        assert words in sentence


def test_missing_credentials_are_reported_with_how_to_log_in(no_login: Path) -> None:
    one_sentence(check_credentials(), "No usable Google credentials")


def test_a_key_file_that_is_not_there_is_named(no_login: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(no_login / "nothing.json"))
    one_sentence(check_credentials(), "nothing.json")


def test_a_key_file_that_is_no_key_is_reported(no_login: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (no_login / "key.json").write_text("not a key")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(no_login / "key.json"))
    one_sentence(check_credentials(), "No usable Google credentials", "key.json")


UNREADABLE = ("[]", '"x"', "null", '{"type": "impersonated_service_account"}', '{"type": "authorized_user"}', "")


def unreadable(folder: Path) -> list[Path]:
    """Unusable key files, one for each way in which Google's library fails on them."""
    (folder / "directory").mkdir()
    files = [folder / f"key-{number}.json" for number in range(len(UNREADABLE))]
    for file, text in zip(files, UNREADABLE, strict=True):
        file.write_text(text)
    return [folder / "directory", *files]


def test_a_key_file_that_cannot_be_read_is_named_and_denies_every_call(no_login: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in unreadable(no_login):
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        one_sentence(check_credentials(), "No usable Google credentials", file.name)
        for kind in ("gcp-tpu", "gce"):
            assert file.name in asyncio.run(denied(kind))


def test_a_file_of_gclouds_that_cannot_be_read_is_reported(no_login: Path) -> None:
    (no_login / "gcloud").mkdir()
    (no_login / "gcloud" / "application_default_credentials.json").write_text("[]")
    one_sentence(check_credentials(), "the file written by gcloud cannot be read as credentials")


def test_the_doctor_tells_what_is_wrong_apart_from_what_to_do(no_login: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(no_login))
    found = asyncio.run(doctor.credentials("gce:my-project", Connection(project="my-project")))
    assert not found.ok
    assert found.message.endswith("IsADirectoryError: Is a directory")
    assert found.fix.startswith("Run `gcloud auth application-default login`")


def test_a_key_that_google_refuses_is_reported(no_login: Path, tokens: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key_file(no_login / "key.json", f"{tokens}/unknown")))
    one_sentence(check_credentials(), "Google refuses the credentials of this worker", "invalid_grant")


def test_a_key_that_google_takes_is_fine(no_login: Path, tokens: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key_file(no_login / "key.json", f"{tokens}/known")))
    assert check_credentials() is None


def test_a_token_server_that_cannot_be_reached_is_no_fault_of_the_key(no_login: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key_file(no_login / "key.json", "http://127.0.0.1:9/token")))
    sentence = check_credentials()
    assert sentence is not None
    assert "cannot be reached" in sentence


async def denied(kind: str) -> str:
    """The error of a denied call."""
    providers = Providers()
    provider = await providers.of(kind, {"project": "my-project"})
    with pytest.raises(PermissionDenied) as raised:
        await provider.list("us-central1-a", cluster="prod")
    await providers.close()
    assert (raised.value.scope, raised.value.subject) == (Scope.PROJECT, "my-project")
    return str(raised.value)


@pytest.mark.parametrize("kind", ["gcp-tpu", "gce"])
def test_a_call_without_credentials_is_denied_with_what_to_do(no_login: Path, kind: str) -> None:
    assert "gcloud auth application-default login" in asyncio.run(denied(kind))
