"""Every provider keeps the rules of the port."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager

import pytest

from tests.activities.clouds import Cloud
from tests.activities.port_rules import RULES
from tests.activities.sim_cloud import sim_cloud
from tests.emulators.running import RunningSim

OpenCloud = Callable[[], AbstractAsyncContextManager[Cloud]]


@pytest.fixture(scope="module")
def sim_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    sim = RunningSim(tmp_path_factory.mktemp("sim") / "sim.db")
    try:
        sim.start()
        yield sim.url
    finally:
        sim.kill()


@pytest.fixture(params=["sim"])
def open_cloud(request: pytest.FixtureRequest) -> OpenCloud:
    """A fresh cloud of each kind. A further provider is a further name here."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return {"sim": lambda: sim_cloud(url)}[request.param]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(open_cloud: OpenCloud, rule: Callable[[Cloud], Awaitable[None]]) -> None:
    async def kept() -> None:
        async with open_cloud() as cloud:
            await rule(cloud)

    asyncio.run(kept())
