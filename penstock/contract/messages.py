"""What controllers and operators send, as plain JSON: any SDK and the `temporal` command can send it."""

from typing import Annotated, Any

from pydantic import Field, model_validator
from pydantic_core import to_json

from penstock.model.demand import Demand, TaskId
from penstock.model.slices import StandingItem
from penstock.model.units import Count, Moment, Positive
from penstock.model.value import Value

DEFAULT_SOURCE = "default"
"""The source of demand that names none."""
LARGEST_MESSAGE = 1_500_000
"""Bytes of one message: Temporal refuses payloads over 2 MB, and some of that is its own."""


def size_of(message: Any) -> int:
    """Bytes of a message as it travels: ids may be in any script."""
    return len(to_json(message))


class DemandMessage(Value):
    """A source's demand: all of it (`tasks` or `demand`), one part of all of it, or with `base` what changed since then.

    Without `revision` a snapshot simply replaces what the source had. `tasks` are as in a demand file and are checked one by one,
    so that one bad task does not cost the others; `demand` is the same in packed columns, for a hundred thousand tasks.

    `config_revision` is the configuration that the sender believes to be in force. Demand is decided on by the one that is: a
    sender that has not heard of the latest is served all the same, and one that names a revision that never was is refused,
    because it speaks of another lifecycle of the cluster.
    """

    source: Annotated[str, Field(min_length=1, max_length=200)] = DEFAULT_SOURCE
    epoch: Count | None = None
    revision: Count | None = None
    base: Count | None = None
    part: Positive = 1
    parts: Positive = 1
    tasks: tuple[Any, ...] | None = None
    demand: Demand | None = None
    removed: tuple[TaskId, ...] = ()
    config_revision: Count | None = None

    @model_validator(mode="before")
    @classmethod
    def _a_list_of_tasks_alone_will_do(cls, data: Any) -> Any:
        return {"tasks": data} if isinstance(data, list) else data

    @model_validator(mode="after")
    def _parts_agree(self) -> "DemandMessage":
        if self.tasks is not None and self.demand is not None:
            raise ValueError("give tasks or demand, not both")
        if self.base is not None and (self.epoch is None or self.revision is None):
            raise ValueError("base says that this is a delta, and a delta needs epoch and revision; add them")
        if self.base is None and self.tasks is None and self.demand is None:
            raise ValueError("there is no demand here; add tasks, which may be empty")
        if self.base is None and self.removed:
            raise ValueError("removed belongs to a delta; add base, the revision it builds on")
        if (self.epoch is None) != (self.revision is None):
            raise ValueError("epoch and revision go together; give both or neither")
        if self.parts > 1 and self.revision is None:
            raise ValueError("parts need epoch and revision, to tell which belong together; add them")
        return self


class UsageMessage(Value):
    """What runs where, per slice: one usage per host, or one word for the whole slice."""

    usage: dict[str, Any]


class ConfirmDrainMessage(Value):
    """Slices that the controller has emptied."""

    slices: tuple[str, ...]

    @model_validator(mode="before")
    @classmethod
    def _a_list_or_one_id_will_do(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"slices": [data]}
        return {"slices": data} if isinstance(data, list) else data


class ReportMessage(Value):
    """Demand, usage and confirmed drains of one moment, applied together."""

    demand: DemandMessage | None = None
    usage: dict[str, Any] | None = None
    confirmed: tuple[str, ...] = ()


class CapacityMessage(Value):
    """A standing request: an owner's floor of capacity. No wants withdraw it."""

    owner: Annotated[str, Field(min_length=1, max_length=200)]
    wants: tuple[StandingItem, ...] = ()
    expires: Moment | None = None


class DrainMessage(Value):
    """An operator's order to empty a slice and give it back."""

    slice_id: str
    cause: str = "operator"
    force: bool = False


class CancelDrainMessage(Value):
    """Let a draining slice serve again."""

    slice_id: str


class ClearBlockMessage(Value):
    """Ask the cloud again: forget what blocks a group, or every group."""

    group: str | None = None


class PauseMessage(Value):
    """Stop launching and draining; slices live on."""

    reason: str = ""


class ResumeMessage(Value):
    """Go on deciding."""


class CloseMessage(Value):
    """Give the cluster up: empty every slice and delete it, or with `force` delete at once."""

    force: bool = False


class StatusRequest(Value):
    """`since` the version the caller has: nothing newer is answered in one line."""

    since: int | None = None


class SlicesRequest(Value):
    """Which slices to list, and which page of them."""

    group: str | None = None
    state: str | None = None
    page: Positive = 1
    page_size: Annotated[int, Field(ge=1, le=1000)] = 200
