"""Secrets reach the machines that need them, and no log, message or history."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from activities.providers.gcp.compute import ComputeProvider
from activities.providers.gcp.machine_metadata import machine_metadata
from activities.providers.gcp.redaction import redact, redact_metadata
from activities.providers.gcp.settings import ComputeSettings, Connection, TpuSettings, read
from activities.providers.gcp.tpu import TpuProvider
from activities.providers.port import FailureKind, Invalid, Order, ProviderError
from penstock.model.cluster import ClusterConfig
from tests.activities.clouds import listed, observed, order_of
from tests.gcp.clouds import ComputeCloud, Endpoints, TpuCloud, compute_cloud, tpu_cloud
from tests.gcp.machine import GcpMachine, running_gcp_machine
from tests.gcp.machine_stage import gangs, staged, tpu, vm
from tests.workflows.ledgers import state_of
from tests.workflows.test_demand import tasks

PLANTED = "hunter2-planted-in-the-environment"
SCRIPT = "#!/bin/bash\ndocker login --password tiger7-planted-in-a-file\n"
WORDS = (PLANTED, "hunter2", "tiger7", "lemon9")
CONNECTION = Connection(project="p")
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
def test_an_error_that_quotes_the_request_is_reported_without_its_secrets(
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


QUOTED = "o'hunter2-planted'with-quotes"


@pytest.fixture
def quotable(planted: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The settings with a secret that shells quote, and with creates that do not wait."""
    monkeypatch.setenv("PENSTOCK_TEST_PLANTED", QUOTED)
    return planted | {"create_wait": 0}


def quote_of(order: Order) -> str:
    """A refusal that quotes all metadata of the order's machines, and one secret cut off."""
    model: Any = TpuSettings if order.variant else ComputeSettings
    settings = read(model, order.settings)
    metadata = machine_metadata(order, settings, settings.connection).metadata
    return (
        f"Invalid value for field 'metadata': {metadata}, {json.dumps(metadata)}, {metadata['startup-script']} or {QUOTED[:14]}…"
    )


def anew(cloud: TpuCloud | ComputeCloud) -> TpuProvider | ComputeProvider:
    """The provider of another worker, which did not send the order."""
    return type(cloud.provider)(cloud.provider._connection, cloud._session)


@pytest.mark.parametrize("kind", CREATES)
def test_a_failure_that_comes_late_is_reported_without_secrets_by_whoever_sees_it(
    endpoints: Endpoints, kind: str, quotable: dict[str, Any]
) -> None:
    async def story() -> None:
        method, fresh = CREATES[kind]
        async with fresh(endpoints) as cloud:
            order = secretive(cloud, quotable)
            code = 3 if kind == "gcp-tpu" else "INVALID_FIELD_VALUE"
            await cloud.fault(method, operation=[{"code": code, "message": quote_of(order)}])
            await cloud.provider.create(order)
            seen = await observed(cloud, order.ref, lambda seen: seen.failure is not None)
            other = anew(cloud)
            by_another = await other.observe(order.ref)
            await other.close()
        assert seen.failure is not None
        assert by_another.failure is not None
        assert "Invalid value for field" in seen.failure.message
        assert (seen.failure.kind, by_another.failure.kind) == (FailureKind.INVALID, FailureKind.INVALID)
        assert clean(repr(seen) + repr(by_another))

    asyncio.run(story())


def test_a_queued_order_that_the_cloud_gave_up_is_reported_without_secrets(
    endpoints: Endpoints, quotable: dict[str, Any]
) -> None:
    async def story() -> None:
        async with tpu_cloud(endpoints) as cloud:
            order = secretive(cloud, quotable).model_copy(update={"queued": True})
            await cloud.hold_queue()
            await cloud.provider.create(order)
            why = {"code": 3, "message": quote_of(order)}
            await cloud.call("POST", cloud.resource(order.name, "queued").format("fail"), why)
            other = anew(cloud)
            seen, listing = await other.observe(order.ref), await other.list(cloud.location, cluster=cloud.cluster)
            await other.close()
        assert seen.failure is not None
        assert "Invalid value for field" in seen.failure.message
        assert listing.items[0].failure == seen.failure
        assert clean(repr(seen))

    asyncio.run(story())


def test_what_is_hidden_of_a_message_is_the_secrets_alone() -> None:
    said = "Invalid value for field 'metadata' in zone us-central1-a: it's, 'it'\"'\"'s', tiger7-planted and tiger7-pla…"
    assert redact(said, ("it's", "tiger7-planted\nshort")) == (
        "Invalid value for field 'metadata' in zone us-central1-a: (secret), '(secret)', (secret) and (secret)…"
    )
    metadata = {
        "penstock-slice": "us-central1",
        "k": "1",
        "startup-script": "#!/bin/sh\nexport PENSTOCK_GROUP=zone\nexport A=it1s",
    }
    assert redact_metadata("zone us-central1, it1s", metadata) == "zone us-central1, (secret)"
    assert redact("(secret) stays", ("(secret) stays as it is",)) == "(secret)"
    assert redact("export TOKEN=hunter2-planted", ("export TOKEN=hurry", "hunter2-planted")) == "(secret)(secret)"
    assert redact("export T=o'hunter2-pla…", ("export T=o'hunter2-planted", 'export T=o"x')) == "(secret)…"


def test_no_history_holds_a_secret_that_a_late_failure_quotes(tmp_path: Path, planted: dict[str, Any]) -> None:
    """Through the whole service: sightings, recent failures, blocks, and the states that workflows carry over."""
    quoted = f"Invalid value for field 'metadata': '{SCRIPT}', {shlex.quote(QUOTED)} and lemon9-planted-as-metadata"
    groups = [
        tpu("v5e", "west-a", provider={"kind": "gcp-tpu", **planted}),
        vm("vm", "west-a"),
    ]
    groups[1]["provider"] |= planted

    async def play(machine: GcpMachine) -> None:
        async with staged(machine, *groups, start=False) as stage:
            zone = stage.cloud.zone("west-a")
            for method, code in (("CreateNode", 3), ("instances.insert", "INVALID_FIELD_VALUE")):
                await stage.cloud.admin.fault(method, zone=zone, operation=[{"code": code, "message": quoted}])
            config = stage.config.model_dump(mode="json")
            for group in config["groups"]:
                group["provider"] |= {"create_wait": 0}
            await stage.autoscaler.start(ClusterConfig.model_validate(config))
            await stage.autoscaler.submit_demand([*gangs(1), *tasks(1, cpu=4)])
            state = await stage.eventually(lambda: state_of(stage), lambda state: len(state.blocks) == 2)
            assert all("Invalid value for field" in block.health.reason for block in state.blocks)
            query = f"WorkflowId STARTS_WITH 'penstock/{stage.cluster}'"
            found = [run async for run in stage.client.list_workflows(query)]
            assert len(found) >= 3
            for run in found:
                history = await stage.client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
                assert clean(b"".join(event.SerializeToString() for event in history.events).decode(errors="replace"))

    with running_gcp_machine(tmp_path, {"PENSTOCK_TEST_PLANTED": QUOTED}) as machine:
        asyncio.run(play(machine))
        assert machine.worker is not None
        assert clean(machine.worker.log.read_text())


CREATE_ALOUD = """
import asyncio, json, logging, sys
logging.basicConfig(level=logging.DEBUG)
import aiohttp
from activities.providers.port import Order
from activities.providers.open_providers import Providers

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


def test_a_secret_that_is_not_there_is_reported_by_its_field() -> None:
    order = Order(cluster="c", group="g", slice="s", location="z")
    missing: dict[str, Any] = {"startup_script": {"secret": "env:PENSTOCK_TEST_NO_SUCH_VARIABLE"}}
    with pytest.raises(
        Invalid, match=r"provider.startup_script: there is no environment variable PENSTOCK_TEST_NO_SUCH_VARIABLE"
    ):
        machine_metadata(order, read(TpuSettings, {"project": "p", **missing}), CONNECTION)


def test_a_secret_that_is_not_text_is_reported_by_its_field() -> None:
    order = Order(cluster="c", group="g", slice="s", location="z")
    os.environb[b"PENSTOCK_TEST_NO_TEXT"] = b"hunter2\xff"
    try:
        with pytest.raises(Invalid, match=r"provider.metadata.key: the content of env:PENSTOCK_TEST_NO_TEXT is not text"):
            machine_metadata(
                order,
                read(TpuSettings, {"project": "p", "metadata": {"key": {"secret": "env:PENSTOCK_TEST_NO_TEXT"}}}),
                CONNECTION,
            )
    finally:
        del os.environ["PENSTOCK_TEST_NO_TEXT"]


def test_a_startup_script_is_for_a_shell() -> None:
    order = Order(cluster="c", group="g", slice="s", location="z")

    def script(text: str) -> str:
        return machine_metadata(
            order, read(ComputeSettings, {"project": "p", "image": "i", "startup_script": text}), CONNECTION
        ).metadata["startup-script"]

    assert script("echo hello").startswith("#!/bin/bash\nexport PENSTOCK_CLUSTER=c\n")
    assert script("#!/bin/sh -e\necho hello").endswith("\necho hello")
    assert script("#!/usr/bin/env bash\necho hello").startswith("#!/usr/bin/env bash\nexport ")
    with pytest.raises(Invalid, match="write a shell script"):
        script("#!/usr/bin/python3\nprint()")
