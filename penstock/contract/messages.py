"""Messages of controllers and operators, in plain JSON, so that any SDK and the `temporal` command can send them."""

from typing import Annotated, Any

from pydantic import Field, model_validator
from pydantic_core import to_json

from penstock.model.demand import Demand, TaskId
from penstock.model.slices import StandingItem
from penstock.model.units import Count, Moment, Positive
from penstock.model.value import Value

DEFAULT_SOURCE = "default"
"""The source of demand messages that name none."""
LARGEST_MESSAGE = 1_500_000
"""Bytes of one message: Temporal rejects payloads over 2 MB, and needs some of that itself."""


def size_of(message: Any) -> int:
    """Bytes of a message as JSON in UTF-8: ids may contain any characters."""
    return len(to_json(message))


class DemandMessage(Value):
    """Demand of one source: a snapshot (`tasks` or `demand`), one part of a snapshot, or with `base` a delta.

    A snapshot without `revision` replaces the demand of the source. `tasks` are as in a demand file and are validated one by
    one, so that one invalid task does not reject the others. `demand` is the same in packed columns, for a hundred thousand
    tasks.

    `config_revision` is the newest configuration revision that the sender knows. An older revision is accepted: decisions
    always use the active configuration. A revision that does not exist is rejected, because the sender must have read it
    before the cluster was deleted and started again.
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
    def _accept_list_of_tasks(cls, data: Any) -> Any:
        return {"tasks": data} if isinstance(data, list) else data

    @model_validator(mode="after")
    def _parts_agree(self) -> "DemandMessage":
        if self.tasks is not None and self.demand is not None:
            raise ValueError("give tasks or demand, not both")
        if self.base is not None and (self.epoch is None or self.revision is None):
            raise ValueError("a delta needs epoch and revision; add them, or remove base")
        if self.base is None and self.tasks is None and self.demand is None:
            raise ValueError("there is no demand in this message; add tasks, which may be an empty list")
        if self.base is None and self.removed:
            raise ValueError("removed belongs to a delta; add base, the revision it builds on")
        if (self.epoch is None) != (self.revision is None):
            raise ValueError("epoch and revision go together; give both or neither")
        if self.parts > 1 and self.revision is None:
            raise ValueError("parts need epoch and revision, which identify the snapshot they belong to; add them")
        return self


class UsageMessage(Value):
    """Usage by slice: one usage per host, or one host state for the whole slice."""

    usage: dict[str, Any]


class ConfirmDrainMessage(Value):
    """Slices that the controller has emptied."""

    slices: tuple[str, ...]

    @model_validator(mode="before")
    @classmethod
    def _accept_list_or_one_id(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"slices": [data]}
        return {"slices": data} if isinstance(data, list) else data


class ReportMessage(Value):
    """Demand, usage and confirmed drains in one message, applied together."""

    demand: DemandMessage | None = None
    usage: dict[str, Any] | None = None
    confirmed: tuple[str, ...] = ()


class CapacityMessage(Value):
    """A standing request: minimum capacity for an owner. An empty `wants` withdraws it."""

    owner: Annotated[str, Field(min_length=1, max_length=200)]
    wants: tuple[StandingItem, ...] = ()
    expires: Moment | None = None


class DrainMessage(Value):
    """Drain a slice: take no new work, wait until it is empty, delete it."""

    slice_id: str
    cause: str = "operator"
    force: bool = False


class CancelDrainMessage(Value):
    """Cancel the drain of a slice, so that it takes work again."""

    slice_id: str


class ClearBlockMessage(Value):
    """Clear the block of one group, or of every group, so that create requests are sent again."""

    group: str | None = None


class PauseMessage(Value):
    """Stop launching and draining. Existing slices keep running."""

    reason: str = ""


class ResumeMessage(Value):
    """Launch and drain again after a pause."""


class CloseMessage(Value):
    """Delete the cluster: drain every slice, or with `force` delete every slice immediately."""

    force: bool = False


class StatusRequest(Value):
    """Query of the status. If `since` is the newest version, the answer is short and not `changed`."""

    since: int | None = None


class SlicesRequest(Value):
    """Query of one page of slices, filtered by group and state."""

    group: str | None = None
    state: str | None = None
    page: Positive = 1
    page_size: Annotated[int, Field(ge=1, le=1000)] = 200
