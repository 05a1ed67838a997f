"""Orders: the part of a decision that the workflow records and carries out."""

from pydantic import Field

from penstock.contract.capacity import GroupFigures
from penstock.model.decision import Code, Drain, StandingOutcome, Tier
from penstock.model.units import Count, Moment
from penstock.model.value import Value

MOST_SOURCES = 100
"""Sources whose revisions are recorded with the orders, for the status."""


class Launch(Value):
    """One slice to create. Its id has random digits, so the evaluate activity draws it and its result records it."""

    slice_id: str
    group: str
    cause: str
    source: str = ""
    """The source whose demand it is for, if it is for demand."""
    replaces: str = ""
    """The slice that drains once this one is READY."""
    home: str = ""
    """The group that its demand prefers."""


class OnReady(Value):
    """One of the tasks that are placed on READY slices of a group, since when; it waits for its controller."""

    task_id: str
    group: str
    since: Moment


class Orders(Value):
    """Orders of one decision, and the counts of tasks that the status shows. Queries for more repeat the decision.

    `input_version` is the version of the inputs that the decision used. `recover` is why the ledger cannot be trusted, if it
    cannot; then nothing is ordered.
    """

    at: Moment
    run_id: str = ""
    input_version: Count = 0
    config_revision: Count = 0
    launches: tuple[Launch, ...] = ()
    drains: tuple[Drain, ...] = ()
    observed_drains: Count = 0
    """Drains that the decision asks for and that are only shown, with `scale_down: observe`."""
    cancelled_drains: tuple[str, ...] = ()
    unneeded: tuple[str, ...] = ()
    """Slices on their way that nothing needs now."""
    desired: dict[str, int] = Field(default_factory=dict)
    """Slices that reports of pressure want, by group."""
    deferred: Count = 0
    placed: dict[Tier, int] = Field(default_factory=dict)
    unmet: dict[Code, int] = Field(default_factory=dict)
    demand: dict[str, tuple[int, int]] = Field(default_factory=dict)
    """Epoch and revision of each source's demand that the decision used."""
    thorough: bool = True
    """False if the evaluation's budget of work ran out, so that cheaper methods were used."""
    on_ready: tuple[OnReady, ...] = ()
    """Some of the tasks that are placed on READY slices, of each group the ones that have been there longest."""
    waiting_since: dict[str, Moment] = Field(default_factory=dict)
    """Since when gangs of a shape have been unmet, by the digest of the shape, for the first such shapes."""
    figures: dict[str, GroupFigures] = Field(default_factory=dict)
    """Figures of groups that have any: of the first in rank order, if there are very many."""
    standing_met: tuple[str, ...] = ()
    """Owners whose standing requests are met: of the first, if there are very many."""
    standing_unmet: tuple[StandingOutcome, ...] = ()
    """The first of the standing requests that are not met, with short reasons."""
    next_change_at: Moment | None = None
    seconds: float = 0.0
    decided_on: Count = 0
    """Runs and slices of the decision that took so long."""
    recover: str | None = None
