"""Google's libraries cost nothing to who does not use them."""

import json
import subprocess
import sys

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


def test_a_worker_without_a_google_provider_imports_nothing_of_googles() -> None:
    assert not [name for name in loaded("sim") if name.split(".")[0] == "grpc" or name.startswith(("google.cloud", "google.a"))]


def test_a_worker_imports_the_library_that_it_uses_and_not_the_other() -> None:
    with_tpus = loaded("gcp-tpu")
    assert "google.cloud.tpu_v2" in with_tpus
    assert "google.cloud.compute_v1" not in with_tpus
    with_machines = loaded("gce")
    assert "google.cloud.compute_v1" in with_machines
    assert "google.cloud.tpu_v2" not in with_machines
