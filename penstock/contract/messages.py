"""Messages of controllers and operators, in plain JSON, so that any SDK and the `temporal` command can send them."""

from typing import Annotated, Any

from pydantic import Field, model_validator
from pydantic_core import to_json

from penstock.model.demand import Demand, TaskId
from penstock.model.slices import StateInAnyCase, Wants
from penstock.model.units import Count, Moment, Positive, Seconds
from penstock.model.value import JsonSchema, Value

DEFAULT_SOURCE = "default"
"""The source of demand messages that name none."""
LARGEST_MESSAGE = 1_500_000
"""Bytes of one message: Temporal rejects payloads over 2 MB, and needs some of that itself."""


def size_of(message: Any) -> int:
    """Bytes of a message as JSON in UTF-8: ids may contain any characters."""
    return len(to_json(message))


Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""The name of a source or owner: any text without control characters, because names are printed on terminals."""


class DemandMessage(Value):
    """Demand of one source: a snapshot (`tasks` or `demand`), one part of a snapshot, or with `base` a delta.

    A snapshot without `revision` replaces the demand of the source. `tasks` are as in a demand file and are validated one by
    one, so that one invalid task does not reject the others. `demand` is the same in packed columns, for a hundred thousand
    tasks.

    `config_revision` is the newest configuration revision that the sender knows. An older revision is accepted: decisions
    always use the active configuration. A revision that does not exist is rejected, because the sender must have read it
    before the cluster was deleted and started again.

    A delta adds its tasks at the end; or, with `positions`, each entry (a task, or a gang) at its position among all entries
    after the change, in ascending order.
    """

    source: Name = DEFAULT_SOURCE
    epoch: Count | None = None
    revision: Count | None = None
    base: Count | None = None
    part: Positive = 1
    parts: Positive = 1
    tasks: tuple[Any, ...] | None = None
    demand: Demand | None = None
    removed: tuple[TaskId, ...] = ()
    positions: tuple[Count, ...] = ()
    config_revision: Count | None = None
    lease_seconds: Annotated[Seconds, Field(gt=0)] | None = Field(default=None, alias="lease")
    """How long the demand buys new slices without another message of its source. A delta without it keeps the lease."""

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
        if self.base is None and self.positions:
            raise ValueError("positions belong to a delta; add base, the revision it builds on")
        if (self.epoch is None) != (self.revision is None):
            raise ValueError("epoch and revision go together; give both or neither")
        if self.parts > 1 and self.revision is None:
            raise ValueError("parts need epoch and revision, which identify the snapshot they belong to; add them")
        return self


class UsageMessage(Value):
    """Usage by slice: one usage per host, or one host state for the whole slice.

    The newest word of a source on a slice holds, by (epoch, revision) if the message has them, else by arrival. Slices that it
    does not name keep their last usage, unless it is `complete`: then the source says nothing about any other slice.
    """

    source: Name = DEFAULT_SOURCE
    epoch: Count | None = None
    revision: Count | None = None
    complete: bool = False
    usage: dict[str, Any]

    @model_validator(mode="after")
    def _numbered_or_not(self) -> "UsageMessage":
        if (self.epoch is None) != (self.revision is None):
            raise ValueError("epoch and revision go together; give both or neither")
        return self

    @property
    def stamp(self) -> tuple[int, int] | None:
        """(epoch, revision), if the message is numbered."""
        return None if self.epoch is None or self.revision is None else (self.epoch, self.revision)


class PressureMessage(Value):
    """Queue lengths by group, of groups that are driven by them: `queued`, `running`, `capacity` and `slices` of each.

    The newest report on a group holds, by (epoch, revision) if the messages of its source have them, else by arrival.

    `config_revision` is the newest configuration revision that the sender knows. An older revision is taken once, and refused
    from then on: what the sender makes of its queues may depend on the configuration.
    """

    source: Name = DEFAULT_SOURCE
    epoch: Count | None = None
    revision: Count | None = None
    config_revision: Count | None = None
    pressure: dict[str, Any]

    @model_validator(mode="after")
    def _numbered_or_not(self) -> "PressureMessage":
        if (self.epoch is None) != (self.revision is None):
            raise ValueError("epoch and revision go together; give both or neither")
        return self

    @property
    def stamp(self) -> tuple[int, int] | None:
        """(epoch, revision), if the message is numbered."""
        return None if self.epoch is None or self.revision is None else (self.epoch, self.revision)


class Confirmation(Value):
    """A slice that the controller has emptied, in the drain with this number, as the status shows it.

    A plain id stands for a confirmation without a number. It counts for whichever drain is under way when it is read: if that is
    a newer one than the controller meant, a slice on which work has begun again may be deleted.
    """

    slice_id: str
    number: Count | None = None

    @model_validator(mode="before")
    @classmethod
    def _accept_id_alone(cls, data: Any) -> Any:
        return {"slice_id": data} if isinstance(data, str) else data

    @classmethod
    def _shorthand(cls, described: JsonSchema) -> JsonSchema:
        return {"type": "string"}


class ConfirmDrainMessage(Value):
    """Slices that the controller has emptied."""

    slices: tuple[Confirmation, ...]

    @model_validator(mode="before")
    @classmethod
    def _accept_list_or_one(cls, data: Any) -> Any:
        if isinstance(data, str) or (isinstance(data, dict) and "slice_id" in data):
            return {"slices": [data]}
        return {"slices": data} if isinstance(data, list) else data


class ReportMessage(Value):
    """Demand, usage, pressure and confirmed drains in one message, applied together.

    `epoch` and `revision` are those of usage and pressure, `complete` that of the usage, and `config_revision` that of the
    pressure; demand has its own. Without `source` it is the demand's. A report without any part is a heartbeat: its source
    still means what it said last.
    """

    source: Name | None = None
    epoch: Count | None = None
    revision: Count | None = None
    complete: bool = False
    demand: DemandMessage | None = None
    usage: dict[str, Any] | None = None
    pressure: dict[str, Any] | None = None
    config_revision: Count | None = None
    confirmed: tuple[Confirmation, ...] = ()

    @model_validator(mode="after")
    def _numbered_or_not(self) -> "ReportMessage":
        if (self.epoch is None) != (self.revision is None):
            raise ValueError("epoch and revision go together; give both or neither")
        if self.config_revision is not None and self.pressure is None:
            raise ValueError("config_revision belongs to pressure; add pressure, or put it into demand")
        if self.complete and self.usage is None:
            raise ValueError("complete belongs to usage; add usage, which may be an empty object")
        return self

    @property
    def usage_message(self) -> UsageMessage:
        """The usage of the report, empty if it has none: any message of a source renews what it said."""
        return UsageMessage(**self._sender, complete=self.complete, usage=self.usage or {})

    @property
    def pressure_message(self) -> PressureMessage | None:
        """The pressure of the report, if it has any."""
        if self.pressure is None:
            return None
        return PressureMessage(**self._sender, config_revision=self.config_revision, pressure=self.pressure)

    @property
    def _sender(self) -> dict[str, Any]:
        source = self.source or (self.demand.source if self.demand is not None else DEFAULT_SOURCE)
        return {"source": source, "epoch": self.epoch, "revision": self.revision}


class ForgetSourceMessage(Value):
    """A source is gone: its demand ends, and what it reported about slices is withdrawn."""

    source: Annotated[str, Field(min_length=1, max_length=200)]


class CapacityMessage(Value):
    """A standing request: minimum capacity for an owner. An empty `wants` withdraws it.

    `config_revision` is the newest configuration revision that the sender knows. An older revision is taken once, and refused
    from then on.
    """

    owner: Name
    wants: Wants = ()
    expires: Moment | None = None
    config_revision: Count | None = None


class DrainMessage(Value):
    """Drain a slice: take no new work, wait until it is empty, delete it."""

    slice_id: str
    cause: str = "operator"
    force: bool = False


class CancelDrainMessage(Value):
    """Cancel the drain of a slice, so that it takes work again."""

    slice_id: str


class KeepMessage(Value):
    """Protect a slice from voluntary drains for a while, or with `off` no longer."""

    slice_id: str
    seconds: Annotated[Seconds, Field(gt=0)] | None = Field(default=None, alias="for")
    off: bool = False

    @model_validator(mode="after")
    def _for_a_while_or_off(self) -> "KeepMessage":
        if self.off == (self.seconds is not None):
            raise ValueError("give for, such as 2h, or off")
        return self


class CordonMessage(Value):
    """Place nothing more on a slice, or with `cordoned: false` place work there again."""

    slice_id: str
    cordoned: bool = True


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

    since: Count | None = None


LONGEST_ASKED = 512
"""Characters of the id of a task or slice that is asked about."""


class ExplainRequest(Value):
    """Query of why a task, a gang, or all tasks whose ids begin with a text wait; a plain text stands for `task_id`."""

    task_id: Annotated[str, Field(min_length=1, max_length=LONGEST_ASKED)]

    @model_validator(mode="before")
    @classmethod
    def _accept_plain_text(cls, data: Any) -> Any:
        return {"task_id": data} if isinstance(data, str) else data


class ExplainSliceRequest(Value):
    """Query of why a slice is kept, or why it goes; a plain text stands for `slice_id`."""

    slice_id: Annotated[str, Field(min_length=1, max_length=LONGEST_ASKED)]

    @model_validator(mode="before")
    @classmethod
    def _accept_plain_text(cls, data: Any) -> Any:
        return {"slice_id": data} if isinstance(data, str) else data


class DecisionRequest(Value):
    """Query of the decision; it has no options."""


class SlicesRequest(Value):
    """Query of one page of slices, filtered by group and state; with `about` also why each stays or goes, and its price."""

    group: str | None = None
    state: StateInAnyCase | None = None
    page: Positive = 1
    page_size: Annotated[Positive, Field(le=1000)] = 200
    about: Annotated[bool, Field(strict=True)] = False
