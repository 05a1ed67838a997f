"""Table of the provider kinds: what configuration and workflows need to know of each cloud, without importing it.

A new cloud is a package under `activities/providers` and one entry in `KINDS`. This module imports no cloud client, so that
`penstock config` and `penstock plan` work without any.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from penstock.model.gpu import gpu_contradictions

if TYPE_CHECKING:
    from penstock.model.cluster import ScaleGroup

Contradiction = tuple[tuple[str, ...], str]
"""The path of a key inside its group, and the problem with its value."""


def no_contradictions(group: "ScaleGroup") -> Iterable[Contradiction]:  # noqa: ARG001 - the signature of every check
    """The check of a kind that has no rules beyond those of every group."""
    return ()


class ProviderKind(NamedTuple):
    """One `provider.kind` of a configuration."""

    name: str
    runtime: str = ""
    """`module:NAME` of its `ProviderRuntime` (activities/providers/runtime.py); only workers import it."""
    account_key: str = "project"
    """The setting that names the account: groups with the same value share quotas, rate limits and one inventory per location."""
    connection_keys: tuple[str, ...] = ()
    """Settings that choose the API server. Groups of one account and location must agree on them."""
    paced: bool = False
    """The cloud limits the calls of an account, so creates go through a rate-limited task queue."""
    sells_tpu_slices: bool = False
    """It sells Google's TPU variants: a group that contradicts their table is an error there, elsewhere a warning."""
    contradictions: Callable[["ScaleGroup"], Iterable[Contradiction]] = no_contradictions
    """Checks that `penstock config` makes of a group before anything is ordered."""


_GOOGLE_ENDPOINTS = ("endpoint", "tpu_endpoint")

KINDS: dict[str, ProviderKind] = {
    kind.name: kind
    for kind in (
        ProviderKind(
            "gce",
            "activities.providers.gcp.factory:COMPUTE",
            connection_keys=_GOOGLE_ENDPOINTS,
            paced=True,
            contradictions=gpu_contradictions,
        ),
        ProviderKind(
            "gcp-tpu",
            "activities.providers.gcp.factory:TPU",
            connection_keys=_GOOGLE_ENDPOINTS,
            paced=True,
            sells_tpu_slices=True,
        ),
        ProviderKind("local", "activities.providers.local:LOCAL", connection_keys=("url",)),
        ProviderKind("sim", "activities.providers.sim:SIM", connection_keys=("url",)),
    )
}
"""Every provider kind by name. A file with another kind is refused; a running cluster with one reports it in its status."""


def kind_of(name: str) -> ProviderKind:
    """The descriptor of a kind. An unknown kind, which a newer client may have configured, gets a descriptor with defaults."""
    return KINDS.get(name) or ProviderKind(name)
