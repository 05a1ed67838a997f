"""A cluster on a running service, and a directory in which commands run."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from penstock.cli.render_config import config_text
from tests.cli.running import Commands
from tests.workflows.machine import Machine
from tests.workflows.stage import Stage, group, staged

DEMAND = [{"id": "work", "count": 4, "resources": {"cpu": 2}}, {"id": "huge", "resources": {"cpu": 999}}]


class Scene:
    """A cluster, and a directory with its files, in which commands run."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage = stage
        self.folder = folder
        self.cluster = stage.cluster
        self.commands = Commands(stage.machine.environment | {"PENSTOCK_CLUSTER": stage.cluster}, folder=folder)
        (folder / "cluster.yaml").write_text(config_text(stage.config))
        (folder / "demand.json").write_text(json.dumps(DEMAND))

    async def penstock(self, *arguments: str, given: str = "") -> CompletedProcess[str]:
        return await asyncio.to_thread(self.commands, *arguments, given=given)

    async def output(self, *arguments: str, code: int = 0) -> str:
        """The command's output; it must end with this exit status."""
        done = await self.penstock(*arguments)
        assert done.returncode == code, done.stderr + done.stdout
        return done.stdout + done.stderr

    async def json(self, *arguments: str) -> Any:
        return await asyncio.to_thread(self.commands.json, *arguments)

    async def ready(self, count: int) -> None:
        """Wait until so many slices are READY; they stay so."""
        await self.stage.eventually(lambda: self.stage.autoscaler.slices(state="READY"), lambda page: page.total == count)


def played(
    machine: Machine, folder: Path, story: Callable[[Scene], Awaitable[None]], *, start: bool = True, **first: Any
) -> None:
    """Play a story on a cluster of its own, with one group in zone a."""

    async def play() -> None:
        async with staged(machine, group(**first), start=start) as stage:
            if start:  # Commands are quicker than the recovery of a new cluster, which they would tell of.
                await stage.eventually(stage.autoscaler.status, lambda status: status.recovery is None)
            await story(Scene(stage, folder))

    asyncio.run(play())
