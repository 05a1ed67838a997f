"""Compute Engine's machine types with GPUs, and the check of groups against them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from penstock.model.units import MILLI

if TYPE_CHECKING:
    from penstock.model.cluster import ScaleGroup


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
"""Machine types with built-in GPUs: none are attached, and host maintenance terminates the machine."""

_SPELLINGS = {"a100": ("a100-40gb", "a100-80gb"), "nvidia-l4": ("l4",)}
"""Other names that groups use for a GPU."""


def machines_with(variant: str) -> list[str]:
    """The machine types with these GPUs, sorted by name; empty for a variant that is not in the table."""
    spelled = _SPELLINGS.get(variant.lower(), (variant.lower(),))
    return sorted(name for name, gpus in GPU_MACHINES.items() if gpus.variant in spelled)


def gpu_contradictions(group: "ScaleGroup") -> Iterator[tuple[tuple[str, ...], str]]:
    """The check of a Compute Engine group: `host.gpu` is the number of GPUs of its machine type."""
    machine_type, gpus = _machine_type(group), group.host.gpu_milli // MILLI
    known = GPU_MACHINES.get(machine_type) if machine_type else None
    if known is not None and gpus != known.number:
        yield (
            ("host", "gpu"),
            f"{gpus} contradicts {machine_type}, which has {known.number} {known.variant}; set it to {known.number}",
        )


def _machine_type(group: "ScaleGroup") -> str | None:
    """The machine type that the group names; else the only one with its GPUs, if there is just one."""
    fitting = machines_with(group.device.variant or "")
    chosen = group.provider.settings.get("machine_type", fitting[0] if len(fitting) == 1 else None)
    return chosen if isinstance(chosen, str) else None
