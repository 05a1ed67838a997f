"""`penstock demand` tells what the autoscaler answered, and nothing that it did not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import penstock.cli.demand
from penstock.cli.connect import Target, failures_in_words
from penstock.cli.failures import EXIT_REFUSED, CommandFailed
from penstock.client import AutoscalerClient
from penstock.contract.answers import Accepted

PROBLEM = "epoch: 7 is older, epoch 9 revision 2 is in force; send a snapshot with a newer one"


class AppliesNothing:
    """A workflow that takes demand and applies none of it."""

    async def execute_update(self, _name: str, message: Any, **_: Any) -> Accepted:
        stamp = {"epoch": message.epoch, "revision": message.revision}
        return Accepted(source=message.source, applied=False, problem=PROBLEM, config_revision=1, **stamp)


@asynccontextmanager
async def at_cluster(_target: Target, **_: Any) -> AsyncIterator[AutoscalerClient]:
    server = cast(Any, SimpleNamespace(get_workflow_handle=lambda _: AppliesNothing()))
    async with failures_in_words(server, None):
        yield AutoscalerClient(server, "demo", lease_seconds=None)


@pytest.mark.parametrize("command", ["submit", "clear"])
def test_demand_that_is_not_applied_is_an_error_and_not_accepted(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(penstock.cli.demand, "at_cluster", at_cluster)
    file = tmp_path / "demand.json"
    file.write_text('[{"id": "t"}]')
    work = {
        "submit": lambda: penstock.cli.demand._submit(Target("demo"), file, "ci", as_json=False),
        "clear": lambda: penstock.cli.demand._clear(Target("demo"), "ci", as_json=False),
    }
    with pytest.raises(CommandFailed, match=f"the demand of source ci was not applied: {PROBLEM}") as failed:
        asyncio.run(work[command]())
    assert failed.value.exit_code == EXIT_REFUSED
    assert capsys.readouterr().out == ""
