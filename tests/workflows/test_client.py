"""What the client does by itself, so that a controller only submits its demand."""

import pytest
from temporalio.api.enums.v1 import ResetReapplyExcludeType

import penstock.client.reporter
from penstock.contract import names
from tests.workflows.histories import recorded
from tests.workflows.ledgers import reset, run_of
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage
from tests.workflows.test_demand import played, ready, tasks


def test_demand_that_a_reset_took_away_is_sent_again_though_it_did_not_change(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(penstock.client.reporter, "CHECKED_AFTER_SECONDS", 0.0)
    forgotten = (
        ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL,
        ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE,
    )

    async def story(stage: Stage) -> None:
        await stage.autoscaler.report(tasks(1, cpu=4))
        await ready(stage, "small", 1)
        await stage.autoscaler.report(tasks(2, cpu=4))
        await ready(stage, "small", 2)
        before = await run_of(stage.workflow)
        first = (await recorded(stage.workflow)).signals(names.REPORT)[0]
        await reset(stage, after=first, forgotten=forgotten)
        await stage.eventually(lambda: run_of(stage.workflow), lambda run: run not in (None, before))

        async def reported() -> int:
            await stage.autoscaler.report(tasks(2, cpu=4))
            return (await stage.autoscaler.status()).demand["default"].tasks

        await stage.eventually(reported, lambda count: count == 2)

    played(machine, story)
