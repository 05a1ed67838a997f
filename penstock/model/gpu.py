"""Google's machine types with GPUs: how many of which a machine of each has."""

from typing import NamedTuple


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


def machines_with(variant: str) -> list[str]:
    """The machine types that have such GPUs, in the order of their names; none for a GPU under a name of somebody's own."""
    spelled = _SPELLINGS.get(variant.lower(), (variant.lower(),))
    return sorted(name for name, gpus in GPU_MACHINES.items() if gpus.variant in spelled)
