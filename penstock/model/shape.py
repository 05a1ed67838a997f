"""Shapes: the device, resources, constraints and gang settings that a task or gang requires."""

from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from penstock.model.constraints import AttributeName, Constraint
from penstock.model.resources import Resources, Vector
from penstock.model.units import MILLI, Positive, format_milli
from penstock.model.value import JsonSchema, Value

MOST_TASKS = 200_000
"""Tasks in one message or gang, sum of all counts: twice the designed size of a cluster. A mistyped count is not unfolded."""


class DeviceType(StrEnum):
    """The kind of hardware."""

    CPU = "cpu"
    GPU = "gpu"
    TPU = "tpu"


class Device(Value):
    """The device that a task needs: a type, and the accepted variants (none listed: any variant)."""

    type: DeviceType = DeviceType.CPU
    variants: tuple[AttributeName, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _accept_type_alone(cls, data: Any) -> Any:
        return {"type": data} if isinstance(data, str) else data

    @classmethod
    def _shorthand(cls, described: JsonSchema) -> JsonSchema:
        return {"enum": list(DeviceType)}


class GangPlacement(StrEnum):
    """How the tasks of a gang are placed on hosts. A gang is always placed whole or not at all."""

    WHOLE_SLICES = "whole_slices"
    SPREAD = "spread"
    PACK = "pack"


def gpu_taken(gpu_milli: int) -> int:
    """Milli-GPUs that a task takes. A share above one half takes a GPU of its own, because no GPU holds two of them."""
    return MILLI if MILLI // 2 < gpu_milli < MILLI else gpu_milli


class Gang(Value):
    """Tasks that must start together: how many, and how they are placed on hosts."""

    size: Annotated[Positive, Field(le=MOST_TASKS)]
    placement: GangPlacement = GangPlacement.WHOLE_SLICES
    tasks_per_host: Positive | None = None

    @model_validator(mode="after")
    def _spread_is_one_task_a_host(self) -> Self:
        if self.placement is GangPlacement.SPREAD and self.tasks_per_host not in (None, 1):
            raise ValueError("tasks_per_host is 1 for a spread gang; leave it out or use placement pack")
        return self

    def __str__(self) -> str:
        per_host = f", {self.tasks_per_host} a host" if self.tasks_per_host else ""
        return f"gang of {self.size}, {self.placement}{per_host}"

    @property
    def hosts(self) -> int:
        """Number of hosts that a `whole_slices` gang uses."""
        return -(-self.size // (self.tasks_per_host or 1))


class Shape(Value):
    """The requirements of a task or gang; entries of one run have the same shape."""

    device: Device = Device()
    resources: Resources = Resources()
    constraints: tuple[Constraint, ...] = ()
    preemptible: bool | None = None
    gang: Gang | None = None

    @model_validator(mode="before")
    @classmethod
    def _device_follows_from_resources(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("device") is None and isinstance(data.get("resources"), dict):
            needs = [name for name in ("tpu", "gpu") if data["resources"].get(name)]
            return data | {"device": {"type": needs[0] if needs else "cpu"}}
        return data

    @model_validator(mode="after")
    def _device_and_resources_agree(self) -> Self:
        for accelerator, amount in ((DeviceType.GPU, self.resources.gpu_milli), (DeviceType.TPU, self.resources.tpu_chips)):
            if amount and self.device.type is not accelerator:
                raise ValueError(f"resources include {accelerator}, but device.type is {self.device.type}")
        if self.resources.gpu_milli > MILLI and self.resources.gpu_milli % MILLI:
            gpus = format_milli(self.resources.gpu_milli)
            raise ValueError(f"resources.gpu: {gpus} is neither a share of one GPU nor a whole number of GPUs")
        if self.device.type is DeviceType.CPU and self.device.variants:
            raise ValueError("device.variants need device.type gpu or tpu")
        return self

    @cached_property
    def need(self) -> Vector:
        """The resources that one task takes from a host. A GPU task without a number of GPUs needs one GPU."""
        cpu, memory, disk, gpu, tpu = self.resources.vector
        return (cpu, memory, disk, gpu_taken(gpu) or (MILLI if self.device.type is DeviceType.GPU else 0), tpu)

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Hashable key, equal for equal shapes, and much cheaper to hash than the shape."""
        gang = self.gang and (self.gang.size, self.gang.placement, self.gang.tasks_per_host)
        return (self.requirement, self.resources.vector, gang)

    @cached_property
    def requirement(self) -> tuple[object, ...]:
        """Hashable key of the requirements that a group must match, apart from sizes."""
        constraints = tuple(constraint.key for constraint in self.constraints)
        return (self.device.type, self.device.variants, constraints, self.preemptible)

    def alone(self) -> "Shape":
        """The plain shape of a subclass instance, without the fields that the subclass adds."""
        if type(self) is Shape:
            return self
        fields = {name: getattr(self, name) for name in Shape.model_fields}
        gang = self.gang and Gang.model_construct(**{name: getattr(self.gang, name) for name in Gang.model_fields})
        return Shape.model_construct(**fields | {"gang": gang})

    @property
    def accelerated(self) -> bool:
        """Whether the task needs an accelerator."""
        return self.device.type is not DeviceType.CPU

    @property
    def exclusive(self) -> bool:
        """Whether a task uses a host exclusively: TPU tasks do, unless the group has `shared_tpu`."""
        return self.device.type is DeviceType.TPU

    def __str__(self) -> str:
        named = self.resources.gpu_milli or self.resources.tpu_chips
        parts = [str(self.device.type) if self.accelerated and not named else ""]
        parts += [str(self.resources) if self.resources != Resources() else ""]
        parts += ["/".join(self.device.variants)]
        parts += [str(constraint) + (" (soft)" if constraint.soft else "") for constraint in self.constraints]
        parts += [] if self.preemptible is None else ["preemptible" if self.preemptible else "not preemptible"]
        parts += [str(self.gang)] if self.gang else []
        return ", ".join(part for part in parts if part) or "anything"
