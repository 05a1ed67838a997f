"""Every provider keeps the rules of the port."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.activities.clouds import Cloud
from tests.activities.local_cloud import local_clouds
from tests.activities.port_rules import RULES
from tests.activities.sim_cloud import sim_cloud
from tests.emulators.running import RunningSim
from tests.gcp.clouds import compute_cloud, gcp_clouds, tpu_cloud

OpenCloud = Callable[[], AbstractAsyncContextManager[Cloud]]


@contextmanager
def sim_clouds(directory: Path) -> Iterator[OpenCloud]:
    sim = RunningSim(directory / "sim.db")
    try:
        sim.start()
        yield lambda: sim_cloud(sim.url)
    finally:
        sim.kill()


CLOUDS: Mapping[str, Callable[[Path], AbstractContextManager[OpenCloud]]] = {
    "sim": sim_clouds,
    "local": local_clouds,
    "gcp-tpu": gcp_clouds(tpu_cloud),
    "gce": gcp_clouds(compute_cloud),
}
"""For each provider, how to open fresh clouds of its kind in a directory. A new provider adds an entry."""


@pytest.fixture(scope="module", params=list(CLOUDS))
def open_cloud(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenCloud]:
    """A way to a fresh cloud of each kind."""
    with CLOUDS[request.param](tmp_path_factory.mktemp(request.param)) as opened:
        yield opened


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(open_cloud: OpenCloud, rule: Callable[[Cloud], Awaitable[None]]) -> None:
    async def kept() -> None:
        async with open_cloud() as cloud:
            await rule(cloud)

    asyncio.run(kept())
