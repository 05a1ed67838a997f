"""Secrets reach the machines that need them and nothing else: planted, and searched for."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from activities.providers.gcp.settings import ComputeSettings, TpuSettings, read
from activities.providers.gcp.startup import told
from activities.providers.port import Invalid, Order, ProviderError
from tests.activities.clouds import listed, order_of
from tests.gcp.clouds import ComputeCloud, Endpoints, TpuCloud, compute_cloud, tpu_cloud

PLANTED = "hunter2-planted-in-the-environment"
SCRIPT = "#!/bin/bash\ndocker login --password tiger7-planted-in-a-file\n"
WORDS = (PLANTED, "tiger7-planted-in-a-file", "lemon9-planted-as-metadata")
CREATES: dict[str, tuple[str, Any]] = {"gcp-tpu": ("CreateNode", tpu_cloud), "gce": ("instances.bulkInsert", compute_cloud)}


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    (tmp_path / "script").write_text(SCRIPT)
    (tmp_path / "key").write_text("lemon9-planted-as-metadata")
    monkeypatch.setenv("PENSTOCK_TEST_PLANTED", PLANTED)
    return {
        "startup_script": {"secret": f"file:{tmp_path / 'script'}"},
        "env": {"TOKEN": {"secret": "env:PENSTOCK_TEST_PLANTED"}},
        "metadata": {"pull-key": {"secret": f"file:{tmp_path / 'key'}"}},
    }


def secretive(cloud: TpuCloud | ComputeCloud, planted: dict[str, Any]) -> Order:
    order = order_of(cloud)
    return order.model_copy(update={"settings": order.settings | planted})


def clean(text: str) -> bool:
    return not any(word in text for word in WORDS)


@pytest.mark.parametrize("kind", CREATES)
def test_a_secret_reaches_the_machine_and_no_label_or_answer(endpoints: Endpoints, kind: str, planted: dict[str, Any]) -> None:
    async def story() -> None:
        async with CREATES[kind][1](endpoints) as cloud:
            order = secretive(cloud, planted)
            outcome = await cloud.provider.create(order)
            metadata = await cloud.metadata(order.name)
            assert f"export TOKEN={PLANTED}\n" in metadata["startup-script"]
            assert "tiger7-planted-in-a-file" in metadata["startup-script"]
            assert metadata["pull-key"] == "lemon9-planted-as-metadata"
            labels = [made["labels"] for made in await cloud.ever()]
            seen = await cloud.provider.observe(order.ref)
            assert clean(json.dumps(labels) + repr((order, outcome, seen, await listed(cloud))))

    asyncio.run(story())


@pytest.mark.parametrize("where", ["on the reply", "in the operation"])
@pytest.mark.parametrize("kind", CREATES)
def test_an_error_that_quotes_the_request_is_told_without_its_secrets(
    endpoints: Endpoints, kind: str, where: str, planted: dict[str, Any]
) -> None:
    quoted = f"Invalid value for field 'metadata': '{SCRIPT}', {PLANTED} and lemon9-planted-as-metadata"
    fault: dict[str, Any] = {"code": "INVALID_ARGUMENT", "message": quoted}
    if where == "in the operation":
        code = 3 if kind == "gcp-tpu" else "INVALID_FIELD_VALUE"
        fault = {"operation": [{"code": code, "message": quoted}]}

    async def story() -> None:
        method, fresh = CREATES[kind]
        async with fresh(endpoints) as cloud:
            await cloud.fault(method, **fault)
            with pytest.raises(ProviderError) as raised:
                await cloud.provider.create(secretive(cloud, planted))
        assert "Invalid value for field" in str(raised.value)
        assert clean(str(raised.value) + repr(raised.value))
        assert raised.value.__cause__ is None

    asyncio.run(story())


CREATE_ALOUD = """
import asyncio, json, logging, sys
logging.basicConfig(level=logging.DEBUG)
import aiohttp
from activities.providers.port import Order
from activities.providers.registry import Providers

async def create(kind, order):
    providers = Providers()
    provider = await providers.of(kind, order.settings)
    print(type(await provider.create(order)).__name__)
    await providers.close()

asyncio.run(create(sys.argv[1], Order.model_validate_json(sys.argv[2])))
"""


@pytest.mark.parametrize("kind", CREATES)
def test_no_log_holds_a_secret_however_loud(endpoints: Endpoints, kind: str, planted: dict[str, Any]) -> None:
    async def order() -> Order:
        async with CREATES[kind][1](endpoints) as cloud:
            return secretive(cloud, planted)

    loud = {**os.environ, "GOOGLE_SDK_PYTHON_LOGGING_SCOPE": "google", "GRPC_VERBOSITY": "DEBUG"}
    command = [sys.executable, "-c", CREATE_ALOUD, kind, asyncio.run(order()).model_dump_json()]
    ran = subprocess.run(command, capture_output=True, text=True, env=loud, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "Created"
    assert clean(ran.stdout + ran.stderr)


def test_a_secret_that_is_not_there_is_told_by_its_field() -> None:
    order = Order(cluster="c", group="g", slice="s", location="z")
    missing: dict[str, Any] = {"startup_script": {"secret": "env:PENSTOCK_TEST_NO_SUCH_VARIABLE"}}
    with pytest.raises(
        Invalid, match=r"provider.startup_script: there is no environment variable PENSTOCK_TEST_NO_SUCH_VARIABLE"
    ):
        told(order, read(TpuSettings, {"project": "p", **missing}))


def test_a_startup_script_is_for_a_shell() -> None:
    order = Order(cluster="c", group="g", slice="s", location="z")

    def script(text: str) -> str:
        return told(order, read(ComputeSettings, {"project": "p", "image": "i", "startup_script": text})).metadata[
            "startup-script"
        ]

    assert script("echo hello").startswith("#!/bin/bash\nexport PENSTOCK_CLUSTER=c\n")
    assert script("#!/bin/sh -e\necho hello").endswith("\necho hello")
    assert script("#!/usr/bin/env bash\necho hello").startswith("#!/usr/bin/env bash\nexport ")
    with pytest.raises(Invalid, match="write a shell script"):
        script("#!/usr/bin/python3\nprint()")
