"""The provider that settings select."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from activities.providers.gcp.compute import ComputeProvider
from activities.providers.local import LocalProvider
from activities.providers.open_providers import Providers
from activities.providers.port import Invalid
from activities.providers.sim import SimProvider
from activities.wakeups import Wakeups
from penstock.model.provider_kinds import KINDS


def opened(kind: str, *settings: dict[str, Any], environ: Mapping[str, str] | None = None) -> list[Any]:
    """The providers of one registry for each of the settings."""

    async def open_all() -> list[Any]:
        providers = Providers(environ=environ or {})
        try:
            return [await providers.of(kind, each) for each in settings]
        finally:
            await providers.close()

    return asyncio.run(open_all())


def test_groups_that_mean_the_same_cloud_share_a_provider() -> None:
    url = "http://127.0.0.1:1"
    first, second, third = opened("sim", {}, {"url": url}, {"size": 2}, environ={"PENSTOCK_SIM_URL": url})
    assert isinstance(first, SimProvider)
    assert first is second is third


def test_groups_that_mean_another_cloud_do_not() -> None:
    first, second = opened("sim", {}, {"url": "http://127.0.0.1:1"})
    assert first is not second


def test_an_unknown_kind_names_those_that_are_known() -> None:
    with pytest.raises(Invalid, match=f"no provider 'nimbus'; known: {', '.join(sorted(KINDS))}"):
        opened("nimbus", {})


def test_settings_of_the_wrong_kind_are_invalid() -> None:
    with pytest.raises(Invalid, match=r"provider\.url: must be text"):
        opened("sim", {"url": 7})


def test_the_daemon_of_local_hosts_is_found_by_settings_or_environment(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    environ = {"PENSTOCK_LOCAL_URL": "http://127.0.0.1:1", "PENSTOCK_LOCAL_TOKEN_FILE": str(token)}
    by_environment, by_settings, another = opened(
        "local",
        {},
        {"url": "http://127.0.0.1:1", "token": {"secret": f"file:{token}"}, "command": "true"},
        {"token": "another"},
        environ=environ,
    )
    assert isinstance(by_environment, LocalProvider)
    assert by_environment is by_settings
    assert by_environment is not another


@pytest.mark.parametrize(
    ("settings", "environ", "said"),
    [
        ({}, {}, "PENSTOCK_LOCAL_URL"),
        ({"url": "http://127.0.0.1:1"}, {}, "PENSTOCK_LOCAL_TOKEN_FILE"),
        ({"url": "http://127.0.0.1:1", "token": {"secret": "env:NOT_SET"}}, {}, "provider.token.*NOT_SET"),
        ({"url": "http://127.0.0.1:1"}, {"PENSTOCK_LOCAL_TOKEN_FILE": "/nowhere/token"}, "/nowhere/token cannot be read"),
    ],
)
def test_a_daemon_that_cannot_be_reached_says_what_is_missing(
    settings: dict[str, Any], environ: dict[str, str], said: str
) -> None:
    with pytest.raises(Invalid, match=said):
        opened("local", settings, environ=environ)


def test_groups_of_one_google_project_share_a_provider() -> None:
    settings = {"project": "p", "endpoint": "http://127.0.0.1:1"}
    first, second, another = opened("gce", settings, settings | {"machine_type": "n2-standard-4"}, settings | {"project": "q"})
    assert isinstance(first, ComputeProvider)
    assert first is second
    assert first is not another


def test_a_google_provider_without_a_project_is_invalid() -> None:
    with pytest.raises(Invalid, match="project"):
        opened("gcp-tpu", {})


def test_a_wakeup_wakes_a_waiter_and_is_kept_for_the_next_one() -> None:
    async def story() -> None:
        wakeups = Wakeups()
        waiting = asyncio.create_task(wakeups.wait("c", "sim/a", 60))
        await asyncio.sleep(0)
        wakeups.wake("c", "sim/a")
        assert await waiting
        wakeups.wake("c", "sim/a")
        assert await wakeups.wait("c", "sim/a", 60)
        assert not await wakeups.wait("c", "sim/a", 0.01)
        wakeups.wake("c", "sim/b")
        assert not await wakeups.wait("c", "sim/a", 0.01)

    asyncio.run(story())
