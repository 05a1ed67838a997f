"""A provider kind is one entry of the registry: configuration, pacing, opening and doctor all follow from it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from activities.doctor import _account, _accounts
from activities.providers.open_providers import Providers
from activities.providers.port import Invalid, Listing, Order, Provider
from activities.providers.runtime import Opener, ProcessContext, ProviderRuntime, SampleOrder, Settings, runtime_of
from penstock.config.cluster import load_cluster
from penstock.config.problems import BadInput
from penstock.contract.answers import Finding
from penstock.contract.inventories import WatchedLocation
from penstock.contract.pacing import paced_accounts, queue_for
from penstock.core.state.specs import locations_of, spec_of
from penstock.model.cluster import ClusterConfig, ScaleGroup
from penstock.model.provider_kinds import KINDS, ProviderKind
from worker.credentials import missing_credentials


class NimbusProvider(Provider):
    """A cloud that can only list, which is all that this test needs."""

    closed = False

    async def list(self, location: str, *, cluster: str) -> Listing:
        return Listing(items=(), complete=True)

    async def close(self) -> None:
        self.closed = True


class NimbusRuntime(ProviderRuntime):
    """The kind's runtime: providers by subscription."""

    async def opener(self, settings: Settings, context: ProcessContext) -> Opener:
        return Opener(str(settings.get("subscription")), NimbusProvider)

    async def check_order(self, order: Order) -> None:
        if "flavour" not in order.settings:
            raise Invalid("provider.flavour: is missing; add it")

    async def check_account(self, account: str, orders: Sequence[SampleOrder], environ: Mapping[str, str]) -> list[Finding]:
        return [Finding(subject=f"{account}: quotas", ok=True, message=f"{sum(each.max_slices for each in orders)} slices fit")]

    def needs_credentials(self, settings: Settings, environ: Mapping[str, str]) -> bool:
        return "NIMBUS_KEY" not in environ

    async def missing_credentials(self) -> str | None:
        return "No Nimbus key. Set NIMBUS_KEY."


NIMBUS = NimbusRuntime()


def contradictions(group: ScaleGroup) -> Iterator[tuple[tuple[str, ...], str]]:
    if group.hosts_per_slice > 1:
        yield ("hosts_per_slice",), f"{group.hosts_per_slice} is more than the one host of a Nimbus slice; set it to 1"


@pytest.fixture(autouse=True)
def nimbus(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line that a new cloud adds to the registry."""
    monkeypatch.setitem(
        KINDS,
        "nimbus",
        ProviderKind("nimbus", f"{__name__}:NIMBUS", "subscription", ("gateway",), paced=True, contradictions=contradictions),
    )


def group(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "max_slices": 2, "zone": "z-1"} | fields


def config(*groups: dict[str, Any]) -> ClusterConfig:
    return ClusterConfig.model_validate({"cluster": "c", "groups": groups})


PROVIDER = {"kind": "nimbus", "subscription": "s1", "gateway": "g1", "flavour": "large"}


def test_its_configuration_is_checked_by_its_own_rules(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    lines = ["cluster: c", "groups:", "- {name: a, max_slices: 1, hosts_per_slice: 2, provider: {kind: nimbus}}"]
    file.write_text("\n".join(lines))
    with pytest.raises(BadInput, match="more than the one host of a Nimbus slice"):
        load_cluster(file)
    file.write_text("\n".join(lines).replace("hosts_per_slice: 2, ", ""))
    assert load_cluster(file).config.groups[0].provider.kind == "nimbus"
    file.write_text("\n".join(lines).replace("nimbus", "nimbos"))
    with pytest.raises(BadInput, match=r"did you mean nimbus\?"):
        load_cluster(file)


def test_its_groups_of_one_account_and_location_use_one_gateway() -> None:
    with pytest.raises(ValueError, match=r"groups\.1\.provider\.gateway"):
        config(group("a", provider=PROVIDER), group("b", provider=PROVIDER | {"gateway": "g2"}))
    config(group("a", provider=PROVIDER), group("b", provider=PROVIDER | {"gateway": "g2", "subscription": "s2"}))


def test_its_creates_are_paced_by_account() -> None:
    cluster = config(group("a", provider=PROVIDER))
    assert paced_accounts(locations_of(cluster)) == ("nimbus:s1",)
    assert queue_for("penstock", spec_of(cluster, cluster.groups[0], "s", "demand")) == "penstock/creates/nimbus:s1"


def test_its_provider_is_opened_once_for_an_account_and_closed() -> None:
    async def story() -> None:
        providers = Providers(environ={})
        first, second = [await providers.of("nimbus", PROVIDER | {"flavour": flavour}) for flavour in ("large", "small")]
        other = await providers.of("nimbus", PROVIDER | {"subscription": "s2"})
        assert first is second
        assert first is not other
        assert await first.mislabelled("z-1", cluster="c") == ()
        await providers.close()
        assert isinstance(first, NimbusProvider)
        assert first.closed

    asyncio.run(story())


def test_the_doctor_checks_its_orders_and_accounts() -> None:
    cluster = config(
        group("a", provider=PROVIDER), group("b", provider={"kind": "nimbus", "subscription": "s1", "gateway": "g1"})
    )
    (account,) = _accounts([cluster])
    refused, quotas = asyncio.run(_account(account, {}))
    assert (refused.subject, refused.ok, refused.message) == ("c: b", False, "provider.flavour: is missing; add it")
    assert (quotas.subject, quotas.message) == ("nimbus:s1: quotas", "4 slices fit")


def test_its_missing_credentials_are_one_sentence() -> None:
    locations: tuple[WatchedLocation, ...] = locations_of(config(group("a", provider=PROVIDER)))
    assert asyncio.run(missing_credentials(locations, {})) == ["No Nimbus key. Set NIMBUS_KEY."]
    assert asyncio.run(missing_credentials(locations, {"NIMBUS_KEY": "k"})) == []


@pytest.mark.parametrize("name", ["gce", "gcp-tpu", "local", "sim"])
def test_every_registered_kind_has_a_runtime(name: str) -> None:
    assert isinstance(runtime_of(name), ProviderRuntime)
    assert set(KINDS) == {"gce", "gcp-tpu", "local", "sim", "nimbus"}
