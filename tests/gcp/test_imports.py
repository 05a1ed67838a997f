"""Google's libraries are imported only where they are used."""

import json
import subprocess
import sys
from collections.abc import Iterable

import pytest

LOADED = """
import asyncio, json, sys
from activities.providers.registry import Providers

async def use(kinds):
    providers = Providers()
    for kind in kinds:
        await providers.of(kind, {"project": "p"} if kind.startswith("g") else {})
    await providers.close()

asyncio.run(use(sys.argv[1:]))
print(json.dumps(sorted(sys.modules)))
"""


def loaded(*kinds: str) -> set[str]:
    """What a process imports that opens the providers of these kinds."""
    command = [sys.executable, "-c", LOADED, *kinds]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return set(json.loads(ran.stdout))


def of_googles(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(("google.cloud", "google.a"))]


def test_a_worker_without_a_google_provider_imports_nothing_of_googles() -> None:
    names = loaded("sim")

    assert not of_googles(names)
    assert "grpc" not in names


@pytest.mark.parametrize("module", ["worker.assembly", "worker.__main__"])
def test_a_worker_starts_without_anything_of_googles(module: str) -> None:
    command = [sys.executable, "-c", f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    assert not of_googles(json.loads(ran.stdout))  # gRPC and protobuf are Temporal's client's too.


def test_a_worker_imports_the_library_that_it_uses_and_not_the_other() -> None:
    with_tpus = loaded("gcp-tpu")
    assert "google.cloud.tpu_v2" in with_tpus
    assert "google.cloud.compute_v1" not in with_tpus
    with_machines = loaded("gce")
    assert "google.cloud.compute_v1" in with_machines
    assert "google.cloud.tpu_v2" not in with_machines
