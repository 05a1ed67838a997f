"""`python -m tests.replay.record [STORY…]`: record the golden histories anew, all of them or those of some stories.

Only after a change that old histories need not survive, such as a new path: histories that were released are kept, or a worker
that is upgraded could not go on with the workflows that run.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.replay.golden import HISTORIES
from tests.replay.stories import STORIES
from tests.workflows.machine import Machine, running_machine
from tests.workflows.stage import staged

SHORT_RUNS = {"limit.historyCount.suggestContinueAsNew": "20"}


async def _record(machine: Machine, name: str) -> None:
    story = STORIES[name]
    async with staged(machine, *story.groups) as stage:
        await story.play(stage)
    print(f"{name}: recorded")  # noqa: T201 - this is a command


def main() -> None:
    wanted = sys.argv[1:] or list(STORIES)
    for short_runs, dynamic in ((False, {}), (True, SHORT_RUNS)):
        names = [name for name in wanted if STORIES[name].short_runs is short_runs]
        if names:
            with tempfile.TemporaryDirectory() as folder, running_machine(Path(folder), dynamic=dynamic) as machine:
                for name in names:
                    asyncio.run(_record(machine, name))
    for path in sorted(HISTORIES.glob("*.json")):
        print(f"{path.name}: {path.stat().st_size // 1024} KiB")  # noqa: T201


if __name__ == "__main__":
    main()
