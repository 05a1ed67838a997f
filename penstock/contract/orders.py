"""What a decision orders: the part of it that is recorded and carried out."""

from pydantic import Field

from penstock.model.decision import Code, Drain, Tier
from penstock.model.units import Count, Moment
from penstock.model.value import Value


class Launch(Value):
    """One slice to create. Its id holds random bits drawn when it was decided, and is recorded with it."""

    slice_id: str
    group: str
    cause: str


class Orders(Value):
    """One decision's orders, and the counts people ask for first. Everything else is decided again when asked.

    `input_version` is the state that was decided on. `recover` says why the ledger cannot be trusted, if it cannot: then nothing
    is ordered.
    """

    at: Moment
    run_id: str = ""
    input_version: Count = 0
    config_revision: Count = 0
    launches: tuple[Launch, ...] = ()
    drains: tuple[Drain, ...] = ()
    deferred: Count = 0
    placed: dict[Tier, int] = Field(default_factory=dict)
    unmet: dict[Code, int] = Field(default_factory=dict)
    next_change_at: Moment | None = None
    seconds: float = 0.0
    recover: str | None = None
