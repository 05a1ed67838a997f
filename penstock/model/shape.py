"""Shapes: what one task or one gang requires of the slices it runs on."""

from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from penstock.model.constraints import Constraint
from penstock.model.resources import GPU, TPU, Resources, Vector
from penstock.model.units import MILLI
from penstock.model.value import Value


class DeviceType(StrEnum):
    """What kind of hardware does the work."""

    CPU = "cpu"
    GPU = "gpu"
    TPU = "tpu"


class Device(Value):
    """The device a task needs: a type, and the variants that will do (none named: any)."""

    type: DeviceType = DeviceType.CPU
    variants: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _a_type_alone_will_do(cls, data: Any) -> Any:
        return {"type": data} if isinstance(data, str) else data


class GangPlacement(StrEnum):
    """How the tasks of a gang lie on hosts; each is all or nothing."""

    WHOLE_SLICES = "whole_slices"
    SPREAD = "spread"
    PACK = "pack"


class Gang(Value):
    """Tasks that must start together: how many, and how they lie on hosts."""

    size: Annotated[int, Field(ge=1)]
    placement: GangPlacement = GangPlacement.WHOLE_SLICES
    tasks_per_host: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _spread_is_one_task_a_host(self) -> Self:
        if self.placement is GangPlacement.SPREAD and self.tasks_per_host not in (None, 1):
            raise ValueError("tasks_per_host is 1 for a spread gang; leave it out or use placement pack")
        return self

    @property
    def hosts(self) -> int:
        """Hosts a `whole_slices` gang takes."""
        return -(-self.size // (self.tasks_per_host or 1))


class Shape(Value):
    """Requirements shared by every entry of a run."""

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
                raise ValueError(f"resources ask for {accelerator}, but device.type is {self.device.type}")
        if self.device.type is DeviceType.CPU and self.device.variants:
            raise ValueError("device.variants need device.type gpu or tpu")
        return self

    @cached_property
    def need(self) -> Vector:
        """One task's resources; GPU work that names no number of GPUs needs one."""
        cpu, memory, disk, gpu, tpu = self.resources.vector
        return (cpu, memory, disk, gpu or (MILLI if self.device.type is DeviceType.GPU else 0), tpu)

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Equal for equal shapes, and far cheaper to hash than they are."""
        gang = self.gang and (self.gang.size, self.gang.placement, self.gang.tasks_per_host)
        device = (self.device.type, self.device.variants)
        return (device, self.resources.vector, self.constraints, self.preemptible, gang)

    def alone(self) -> "Shape":
        """The shape without what tasks, files or requests say beside it."""
        if type(self) is Shape:
            return self
        fields = {name: getattr(self, name) for name in Shape.model_fields}
        gang = self.gang and Gang.model_construct(**{name: getattr(self.gang, name) for name in Gang.model_fields})
        return Shape.model_construct(**fields | {"gang": gang})

    @property
    def accelerated(self) -> bool:
        """Whether the work needs an accelerator."""
        return self.device.type is not DeviceType.CPU

    @property
    def exclusive(self) -> bool:
        """Whether a task takes its host alone: work on TPU chips does, unless the group shares its hosts."""
        return self.device.type is DeviceType.TPU

    def __str__(self) -> str:
        parts = [str(self.device.type) if self.accelerated and not (self.need[GPU] or self.need[TPU]) else ""]
        parts += [str(self.resources) if self.resources != Resources() else ""]
        parts += ["/".join(self.device.variants)]
        parts += [str(constraint) + (" (soft)" if constraint.soft else "") for constraint in self.constraints]
        parts += [] if self.preemptible is None else ["preemptible" if self.preemptible else "not preemptible"]
        parts += [f"gang of {self.gang.size}, {self.gang.placement}"] if self.gang else []
        return ", ".join(part for part in parts if part) or "anything"
