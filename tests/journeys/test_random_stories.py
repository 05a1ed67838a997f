"""Random faults, many at once: at every step nothing is doubled, and in the end ledger, workflows and cloud agree."""

import asyncio
from contextlib import AsyncExitStack

from tests.journeys.random_story import RandomStory
from tests.workflows.machine import Machine
from tests.workflows.stage import group, staged

SEEDS = (1, 2, 3, 4)
STEPS = 8
KILLS = (2, 5)
"""Steps before which the worker is killed, for all stories at once: to miss a worker takes longer than a step."""
TIMEOUTS = {"requesting": "10s", "boot": "10s", "init": "3s", "drain": "300ms"}
GROUPS = (
    group("first", zone="a", max_slices=3, priority=1, timeouts=TIMEOUTS),
    group("second", zone="b", max_slices=5, priority=2, timeouts=TIMEOUTS),
)
BACKOFF = {"first": "500ms", "longest": "1s"}


def test_stories_of_random_faults_end_in_agreement(hurt: Machine) -> None:
    async def play() -> None:
        async with AsyncExitStack() as stages:
            stories = [
                RandomStory(await stages.enter_async_context(staged(hurt, *GROUPS, backoff=BACKOFF)), seed) for seed in SEEDS
            ]
            try:
                for step in range(STEPS):
                    if step in KILLS:
                        await _worker_killed(hurt, stories)
                    await asyncio.gather(*(story.step() for story in stories))
                await asyncio.gather(*(story.end() for story in stories))
            except BaseException as error:
                for seed, story in zip(SEEDS, stories, strict=True):
                    error.add_note(f"story {seed} on {story.stage.cluster}: " + "; ".join(story.steps))
                raise

    asyncio.run(play())


async def _worker_killed(machine: Machine, stories: list[RandomStory]) -> None:
    assert machine.worker is not None
    machine.worker.kill()
    await machine.revive_worker()
    for story in stories:
        story.steps.append("kill the worker")
