"""What Google sells: TPU variants with their runtimes, and machine types with their GPUs."""

from typing import NamedTuple

from activities.providers.port import Invalid
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


class Gpus(NamedTuple):
    """The GPUs of one machine."""

    variant: str
    number: int


def _shapes() -> dict[str, Gpus]:
    shapes = {f"g2-standard-{cpus}": Gpus("l4", 1) for cpus in (4, 8, 12, 16, 32)}
    shapes |= {"g2-standard-24": Gpus("l4", 2), "g2-standard-48": Gpus("l4", 4), "g2-standard-96": Gpus("l4", 8)}
    shapes |= {f"a2-highgpu-{count}g": Gpus("a100-40gb", count) for count in (1, 2, 4, 8)}
    shapes |= {"a2-megagpu-16g": Gpus("a100-40gb", 16)}
    shapes |= {f"a2-ultragpu-{count}g": Gpus("a100-80gb", count) for count in (1, 2, 4, 8)}
    shapes |= {f"a3-highgpu-{count}g": Gpus("h100", count) for count in (1, 2, 4, 8)}
    shapes |= {"a3-megagpu-8g": Gpus("h100", 8), "a3-edgegpu-8g": Gpus("h100", 8)}
    return shapes | {"a3-ultragpu-8g": Gpus("h200", 8), "a4-highgpu-8g": Gpus("b200", 8)}


GPU_MACHINES = _shapes()
"""Machine types whose GPUs come with them: nothing is attached, and host maintenance ends the machine."""

_SPELLINGS = {"a100": ("a100-40gb", "a100-80gb"), "nvidia-l4": ("l4",)}
"""Other names under which groups know a GPU."""


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
        fitting = sorted(name for name, gpus in GPU_MACHINES.items() if variant and gpus.variant in _spelled(variant))
        if len(fitting) == 1:
            return fitting[0]
        offer = f"; {variant} comes with {', '.join(fitting)}" if fitting else ", such as n2-standard-8"
        raise Invalid(f"gce needs provider.machine_type{offer}")
    gpus = GPU_MACHINES.get(chosen)
    known = {shape.variant for shape in GPU_MACHINES.values()} | set(_SPELLINGS)
    if gpus and variant and variant.lower() in known and gpus.variant not in _spelled(variant):
        raise Invalid(f"machine_type {chosen} has {gpus.number} × {gpus.variant}, but the group's device.variant is {variant}")
    return chosen


def _spelled(variant: str) -> tuple[str, ...]:
    return _SPELLINGS.get(variant.lower(), (variant.lower(),))
