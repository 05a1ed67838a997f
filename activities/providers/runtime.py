"""`ProviderRuntime`, the worker's side of a provider kind: open a provider, check orders, accounts and credentials."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import NamedTuple

import aiohttp
from pydantic import JsonValue

from activities.providers.port import Invalid, Order, Provider
from penstock.contract.answers import Finding
from penstock.model.provider_kinds import KINDS
from penstock.wording import did_you_mean

Settings = Mapping[str, JsonValue]
"""The keys of a group's `provider` other than `kind`."""


class ProcessContext(NamedTuple):
    """Shared by all providers of a process: the environment, and one HTTP session."""

    environ: Mapping[str, str]
    session: Callable[[], aiohttp.ClientSession]


class Opener(NamedTuple):
    """A provider that is ready to be opened. Settings with equal keys share one provider."""

    key: str
    open: Callable[[], Provider]


class SampleOrder(NamedTuple):
    """An order of one slice, for the doctor: checked and never sent. `max_slices` is that of its group."""

    order: Order
    max_slices: int


class ProviderRuntime(ABC):
    """One provider kind as workers use it. The defaults fit a cloud without credentials, quotas and rules for orders."""

    @abstractmethod
    async def opener(self, settings: Settings, context: ProcessContext) -> Opener:
        """The provider for the settings; raises `Invalid` if they cannot be used. A large client library is imported here."""

    async def check_order(self, order: Order) -> None:  # noqa: B027 - a default, not a gap
        """Raise `Invalid` for an order that would be refused before any call to the cloud."""

    async def check_account(
        self,
        account: str,  # noqa: ARG002 - the signature of every kind
        orders: Sequence[SampleOrder],  # noqa: ARG002
        environ: Mapping[str, str],  # noqa: ARG002
    ) -> list[Finding]:
        """The doctor's findings about an account: credentials, clock, quotas."""
        return []

    def needs_credentials(self, settings: Settings, environ: Mapping[str, str]) -> bool:  # noqa: ARG002
        """Whether calls with these settings need credentials of this process."""
        return False

    async def missing_credentials(self) -> str | None:
        """One sentence with the fix if this process lacks usable credentials; it may wait for the network."""
        return None


def runtime_of(kind: str) -> ProviderRuntime:
    """The runtime of a registered kind; raises `Invalid` for any other."""
    known = KINDS.get(kind)
    if known is None:
        raise Invalid(f"provider.kind: there is no provider {kind!r}; {did_you_mean(kind, sorted(KINDS))}")
    module, _, name = known.runtime.partition(":")
    runtime = getattr(import_module(module), name)
    assert isinstance(runtime, ProviderRuntime), known.runtime
    return runtime
