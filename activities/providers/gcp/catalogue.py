"""What Google sells: TPU variants with their runtimes, and machine types for GPUs."""

from typing import NamedTuple

from activities.providers.port import Invalid
from penstock.model.gpu import GPU_MACHINES, machines_with
from penstock.model.tpu import TpuVariant, tpu_variant

RUNTIME_VERSIONS = {
    "v4": "tpu-ubuntu2204-base",
    "v5litepod": "v2-alpha-tpuv5-lite",
    "v5p": "v2-alpha-tpuv5",
    "v6e": "v2-alpha-tpuv6e",
}
"""The runtime that Google names for each family; a group may name another."""

_COMPUTE_ONLY = ("tpu7x", "v7")
"""Families that the Cloud TPU API does not have: Compute Engine and GKE alone sell them."""


class TpuKind(NamedTuple):
    """One TPU variant as it is ordered."""

    accelerator_type: str
    size: TpuVariant
    runtime_version: str


def tpu_kind(variant: str | None, *, hosts: int) -> TpuKind:
    """The accelerator type of a group's variant and the runtime for it; `Invalid` if Google does not sell it like that."""
    if not variant:
        raise Invalid("gcp-tpu needs the group's device.variant, such as v5litepod-16")
    family = variant.rsplit("-", 1)[0]
    if family in _COMPUTE_ONLY:
        raise Invalid(
            f"{variant} is not sold through the Cloud TPU API, only on Compute Engine and GKE; choose v4, v5e, v5p or v6e"
        )
    size = tpu_variant(variant)
    if size is None:
        raise Invalid(f"{variant} is not a TPU variant that Google lists; write it like v4-16, v5litepod-16, v5p-8 or v6e-8")
    if size.hosts != hosts:
        raise Invalid(f"{variant} has {size.hosts} hosts, not {hosts}; set hosts_per_slice to {size.hosts} or leave it out")
    return TpuKind(variant, size, RUNTIME_VERSIONS[family])


def hosts_of(accelerator_type: str) -> int | None:
    """How many hosts a node of the type has, if the type is known."""
    size = tpu_variant(accelerator_type)
    return None if size is None else size.hosts


def machine_type(chosen: str | None, *, variant: str | None) -> str:
    """The machine type to order: the one chosen, or the only one that has these GPUs; `Invalid` if they contradict."""
    if chosen is None:
        fitting = machines_with(variant) if variant else []
        if len(fitting) == 1:
            return fitting[0]
        offer = f"; {variant} comes with {', '.join(fitting)}" if fitting else ", such as n2-standard-8"
        raise Invalid(f"gce needs provider.machine_type{offer}")
    gpus = GPU_MACHINES.get(chosen)
    if gpus and variant and (sold := machines_with(variant)) and chosen not in sold:
        raise Invalid(f"machine_type {chosen} has {gpus.number} × {gpus.variant}, but the group's device.variant is {variant}")
    return chosen
