"""Orders: the part of a decision that the workflow records and carries out."""

from pydantic import Field

from penstock.model.decision import Code, Drain, Tier
from penstock.model.units import Count, Moment
from penstock.model.value import Value


class Launch(Value):
    """One slice to create. Its id has random digits, so the evaluate activity draws it and its result records it."""

    slice_id: str
    group: str
    cause: str


class Orders(Value):
    """Orders of one decision, and the counts that the status shows. Queries for more repeat the decision.

    `input_version` is the version of the inputs that the decision used. `recover` is why the ledger cannot be trusted, if it
    cannot; then nothing is ordered.
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
