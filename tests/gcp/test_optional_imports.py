"""Google's client libraries are optional: only a group on Google's clouds needs them, and its error names the fix."""

import subprocess
import sys

WITHOUT_GOOGLE = """
import asyncio, sys

class Missing:
    def find_spec(self, name, *rest):
        if name in ("google.cloud", "google.auth", "google.api_core", "grpc", "opentelemetry"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import embedded.launcher, worker.assembly
from activities.providers.port import Invalid
from activities.providers.open_providers import Providers

async def main():
    providers = Providers()
    await providers.of("sim", {})
    for kind in ("gce", "gcp-tpu"):
        try:
            await providers.of(kind, {"project": "p"})
        except Invalid as error:
            print(error)
    await providers.close()

asyncio.run(main())
"""


def test_without_googles_libraries_other_providers_work_and_googles_name_the_fix() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_GOOGLE], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    fix = "provider.kind: Google's client libraries are not installed here; run `make install-google`, then restart the worker"
    assert done.stdout.splitlines() == [fix, fix]
