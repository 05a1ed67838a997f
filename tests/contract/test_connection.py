"""Where to connect: arguments, then the environment as Temporal's own tools read it, then a running `make run`."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from temporalio.service import TLSConfig

from penstock.connection import connect_settings, read_note

CLOUD = "ns.a1b2c.tmprl.cloud:7233"


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("TEMPORAL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "temporal.toml"))
    monkeypatch.chdir(tmp_path)


def test_without_any_setting_it_is_the_server_of_this_machine() -> None:
    assert connect_settings() == {"target_host": "127.0.0.1:7233"}


def test_arguments_come_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", CLOUD)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "ns.a1b2c")

    assert connect_settings() == {"target_host": CLOUD, "namespace": "ns.a1b2c"}
    assert connect_settings(address="there:1", namespace="mine") == {"target_host": "there:1", "namespace": "mine"}


@pytest.mark.parametrize("data_dir", [".penstock", ".penstock/gcp-emulator"])
def test_a_service_of_this_directory_or_one_above_is_found_by_its_note(
    data_dir: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / data_dir).mkdir(parents=True)
    (tmp_path / data_dir / "address").write_text("127.0.0.1:4711\n")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")

    assert connect_settings() == {"target_host": "127.0.0.1:4711"}
    assert connect_settings(address="there:1") == {"target_host": "there:1"}
    assert read_note("sim") is None
    monkeypatch.setenv("TEMPORAL_ADDRESS", CLOUD)
    assert connect_settings() == {"target_host": CLOUD}


def test_the_note_of_a_service_that_was_killed_is_ignored(tmp_path: Path) -> None:
    data_dir = tmp_path / ".penstock"
    data_dir.mkdir()
    (data_dir / "address").write_text("127.0.0.1:4711\n")
    with (data_dir / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert read_note("address") == "127.0.0.1:4711"

    assert read_note("address") is None


def test_a_key_goes_over_tls_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", CLOUD)
    monkeypatch.setenv("TEMPORAL_API_KEY", "the-key")

    settings = connect_settings()

    assert settings["api_key"] == "the-key"
    assert settings["tls"]


def test_certificates_are_read_from_the_named_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    variables = {
        "TEMPORAL_TLS_CLIENT_CERT_PATH": "certificate",
        "TEMPORAL_TLS_CLIENT_KEY_PATH": "private key",
        "TEMPORAL_TLS_SERVER_CA_CERT_PATH": "authority",
    }
    for name, content in variables.items():
        file = tmp_path / name
        file.write_text(content)
        monkeypatch.setenv(name, str(file))
    monkeypatch.setenv("TEMPORAL_TLS_SERVER_NAME", "temporal.internal")

    assert connect_settings()["tls"] == TLSConfig(
        client_cert=b"certificate",
        client_private_key=b"private key",
        server_root_ca_cert=b"authority",
        domain="temporal.internal",
    )


def test_a_profile_of_temporals_configuration_file_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "temporal.toml").write_text(
        f'[profile.cloud]\naddress = "{CLOUD}"\nnamespace = "ns.a1b2c"\napi_key = "the-key"\n'
    )
    monkeypatch.setenv("TEMPORAL_PROFILE", "cloud")

    settings = connect_settings()

    assert (settings["target_host"], settings["namespace"], settings["api_key"]) == (CLOUD, "ns.a1b2c", "the-key")
    assert settings["tls"]


WITHOUT_PACKAGES = """
import asyncio, sys
sys.modules["opentelemetry"] = None
from penstock.connection import can_trace, flush_traces
assert not can_trace()
asyncio.run(flush_traces())
"""


def test_a_program_that_asks_for_traces_without_their_packages_works_and_gets_one_warning() -> None:
    wanted = os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317"}

    done = subprocess.run([sys.executable, "-c", WITHOUT_PACKAGES], env=wanted, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stderr.count("install penstock[traces]") == 1
