"""A secret reaches the host that needs it, and no history, visibility record, label or log: planted, and searched for."""

import asyncio
import base64
import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from temporalio.client import Client

from penstock.contract import names
from tests.activities.local_cloud import RunningLocal, local_cloud
from tests.workflows.ledgers import verified
from tests.workflows.machine import Machine
from tests.workflows.stage import group, staged

PLANTED = "hunter2-planted-for-a-host"
XZ = b"\xfd7zXZ\x00"


def test_a_planted_secret_is_in_the_host_that_needs_it_and_nowhere_else(machine: Machine, tmp_path: Path) -> None:
    secret, got = tmp_path / "planted", tmp_path / "got"
    secret.write_text(PLANTED)
    daemon = RunningLocal(tmp_path / "hosts")
    daemon.start()
    provider = {
        "kind": "local",
        "url": daemon.url,
        "token": {"secret": f"file:{daemon.state / 'token'}"},
        "command": f'printf %s "$PLANTED" > {got}; exec sleep infinity',
        "env": {"PLANTED": {"secret": f"file:{secret}"}},
    }

    async def received() -> str:
        return got.read_text() if got.exists() else ""

    async def story() -> None:
        async with staged(machine, group(min_slices=1, provider=provider)) as stage, local_cloud(daemon) as hosts:
            look = stage.autoscaler.slices
            await stage.eventually(lambda: look(state="READY"), lambda page: page.total == 1)
            await stage.eventually(received, lambda text: text == PLANTED)
            assert (await verified(stage)).agrees
            (made,) = (await hosts.call("GET", "/resources"))["items"]
            assert made["labels"]["penstock-cluster"] == stage.cluster
            await stage.autoscaler.delete(force=True)
            await stage.autoscaler.deleted()

            kinds = {names.AUTOSCALER, names.SLICE, names.INVENTORY, names.VERIFY}
            recorded = await stage.eventually(lambda: _recorded(stage.client, stage.cluster), lambda found: found.keys() >= kinds)
            # The search finds the reference to the secret where it must be, so it would find the secret too.
            assert all(str(secret) in recorded[kind] for kind in (names.AUTOSCALER, names.SLICE))
            everything = [*recorded.values(), json.dumps(made["labels"]), *_logs(machine)]
            assert not [text for text in everything if PLANTED in text or daemon.token in text]

    try:
        asyncio.run(story())
    finally:
        daemon.shut_down()


async def _recorded(client: Client, cluster: str) -> dict[str, str]:
    """By type of workflow, all that Temporal holds of the cluster's workflows."""
    texts: dict[str, list[str]] = {}
    query = f"WorkflowId STARTS_WITH 'penstock/{cluster}' OR WorkflowId STARTS_WITH 'verify-{cluster}'"
    async for run in client.list_workflows(query):
        handle = client.get_workflow_handle(run.id, run_id=run.run_id)
        shown = MessageToDict((await handle.describe()).raw_description)
        history = (await handle.fetch_history()).to_json_dict()
        texts.setdefault(run.workflow_type, []).extend(_texts([shown, history]))
    return {kind: "\n".join(found) for kind, found in texts.items()}


def _texts(value: Any) -> Iterator[str]:
    """Every text in a document, as it stands and decoded as often as it can be: payloads hold JSON, and that packed columns."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value
        yield from _decoded(value)


def _decoded(text: str) -> Iterator[str]:
    try:
        data = base64.b64decode(text, validate=True)
        inner = (lzma.decompress(data) if data.startswith(XZ) else data).decode()
    except ValueError:
        return
    yield inner
    try:
        yield from _texts(json.loads(inner))
    except json.JSONDecodeError:
        return


def _logs(machine: Machine) -> list[str]:
    assert machine.worker is not None
    return [child.log.read_text(errors="replace") for child in (machine.worker, machine.server)]
