"""Google's libraries are imported only where they are used."""

import json
import subprocess
import sys
from collections.abc import Iterable

import pytest

LOADED = """
import asyncio, json, sys
from activities.providers.open_providers import Providers

async def use(kinds):
    providers = Providers()
    for kind in kinds:
        await providers.of(kind, {"project": "p"} if kind.startswith("g") else {})
    await providers.close()

asyncio.run(use(sys.argv[1:]))
print(json.dumps(sorted(sys.modules)))
"""


def loaded(*kinds: str) -> set[str]:
    """The modules that a process imports to open the providers of these kinds."""
    command = [sys.executable, "-c", LOADED, *kinds]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return set(json.loads(ran.stdout))


WITHOUT_GOOGLE = """
import asyncio, sys

class Missing:
    def find_spec(self, name, *rest):
        if name in ("google.cloud", "google.auth", "google.api_core"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from activities.doctor import _account, _accounts, _fix
from activities.providers.runtime import runtime_of
from activities.providers.port import Invalid
from activities.providers.open_providers import Providers
from penstock.core.state.specs import locations_of
from penstock.model.cluster import ClusterConfig

async def main():
    providers = Providers()
    for kind in ("gce", "gcp-tpu"):
        provider = {"kind": kind, "project": "p"}
        config = ClusterConfig.model_validate({"cluster": "c", "groups": [{"name": "g", "max_slices": 1, "provider": provider}]})
        try:
            await providers.of(kind, {"project": "p"})
        except Invalid as error:
            print(error)
            print(_fix(error, locations_of(config)[0]))
        print(await runtime_of(kind).missing_credentials())
        print(await _account(_accounts([config])[0]))
    await providers.close()

asyncio.run(main())
"""


def test_without_googles_libraries_its_groups_are_invalid_with_the_command_that_installs_them() -> None:
    command = [sys.executable, "-c", WITHOUT_GOOGLE]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert ran.returncode == 0, ran.stderr
    fix = "make install-google, then restart the worker"
    message = (
        "provider.kind: Google's client libraries are not installed here; run `make install-google`, then restart the worker"
    )
    no_more = "[]"  # The doctor reports it once, for the location.
    assert ran.stdout.splitlines() == [message, fix, message, no_more] * 2


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
