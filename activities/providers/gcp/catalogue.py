"""Google's offer: TPU accelerator types with runtime versions, and machine types with GPUs."""

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
"""The runtime version that Google recommends for each family; a group may set another."""

_COMPUTE_ONLY = ("tpu7x", "v7")
"""Families that only Compute Engine and GKE sell, not the Cloud TPU API."""


class TpuKind(NamedTuple):
    """One TPU variant as the API orders it."""

    accelerator_type: str
    size: TpuVariant
    runtime_version: str


def tpu_kind(variant: str | None, *, hosts: int) -> TpuKind:
    """The accelerator type and runtime version of a group's variant; raises `Invalid` if Google does not sell it."""
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
    """The number of hosts of a node, if the type is known."""
    size = tpu_variant(accelerator_type)
    return None if size is None else size.hosts


def machine_type(chosen: str | None, *, variant: str | None) -> str:
    """The machine type to order: the chosen one, or the only one with these GPUs; raises `Invalid` on a contradiction."""
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
