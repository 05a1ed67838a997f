"""Results of updates and queries: status, slices, decisions, explanations, verification, doctor."""

from enum import StrEnum
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from penstock.contract.capacity import PoolStatus, StandingStatus
from penstock.contract.cost import CostByUse
from penstock.contract.slice_answers import AboutSlice, DrainStatus, NoticeStatus
from penstock.model.cluster import Placement, ScaleDown
from penstock.model.decision import (
    Code,
    CostPerHour,
    Drain,
    GroupDecision,
    KeptCode,
    PoolDecision,
    Pressure,
    StandingOutcome,
    Tier,
)
from penstock.model.failures import Failure
from penstock.model.pressure import PressureReport
from penstock.model.slices import Availability, Slice, SliceState
from penstock.model.units import Moment
from penstock.model.value import Value
from penstock.wording import with_detail

TOO_LARGE = (
    "deciding takes too long for a query at the size of this cluster{seconds}, and the worker that answers did not keep the last"
    " decision; ask with AutoscalerClient or the penstock command, which query `dump` and decide on that state"
)
"""Error message of a query that would take longer than Temporal allows."""


CHEAPER = (
    "The demand is so varied that one evaluation's budget of work ran out."
    " Cheaper methods were used, which may buy more than is needed."
)
"""Said wherever a decision is shown that is not thorough."""


class Accepted(Value):
    """Result of `submit_demand`: the source's current epoch and revision, and whether this message is now its demand.

    `applied` is false if any part of the message was not applied: `problem` says what, why, and what to send instead.
    `resync_needed` is why the source must send a snapshot, if it must.
    """

    source: str
    applied: bool = True
    problem: str | None = None
    epoch: int
    revision: int
    config_revision: int
    resync_needed: str | None = None
    invalid: int = 0
    """Tasks that failed validation; each is unmet with the code `invalid`."""


class Done(Value):
    """Result of an operator's update."""

    message: str
    config_revision: int


class Rejection(Value):
    """A rejected message, and the reason."""

    at: Moment
    message: str
    problem: str


class RecentFailure(Value):
    """A recently reported failure of a slice."""

    at: Moment
    group: str
    slice_id: str
    failure: Failure


class ProblemKind(StrEnum):
    """What is wrong with a location."""

    NOT_WATCHED = "not_watched"
    """Its inventory could not be started."""
    NO_ANSWER = "no_answer"
    """The cloud does not answer, or not with a listing."""
    REFUSED = "refused"
    """The cloud refuses to list it until an operator fixes the permission or the configuration."""


_PROBLEMS = {
    ProblemKind.NOT_WATCHED: "is not watched",
    ProblemKind.NO_ANSWER: "does not answer",
    ProblemKind.REFUSED: "cannot be listed",
}


class LocationProblem(Value):
    """Why a location cannot be watched, and since when. Its groups buy nothing until it can."""

    kind: ProblemKind
    since: Moment
    message: str = ""

    def __str__(self) -> str:
        """`does not answer since 2026-01-31 12:05:00Z: connection refused`."""
        text = f"{_PROBLEMS[self.kind]} since {self.since:%Y-%m-%d %H:%M:%S}Z"
        return f"{text}: {self.message}" if self.message else text


class Undecided(Value):
    """Evaluations fail since this moment: the orders and figures are those of the decision before it."""

    since: Moment
    problem: str
    failures: int = 1
    """Evaluations that failed since then, each with its retries."""
    again_at: Moment | None = None
    """When the next one begins, unless a newer configuration is applied before."""


class DrivenStatus(Value):
    """A group that is driven by reports of pressure: the last one, and how many slices they want.

    `stale_since` is set once the report counts no more: its source is silent or restarted, or state was lost.
    """

    desired: int | None = None
    """None before the first decision on a report."""
    report: PressureReport | None = None
    at: Moment | None = None
    source: str = ""
    stale_since: Moment | None = None
    acted_at: Moment | None = None
    """When reports last changed `desired`."""


class GroupStatus(Value):
    """One group: its slices by state, what they cost, its availability, and the pressure on it by the last decision."""

    name: str
    slices: dict[SliceState, int] = Field(default_factory=dict)
    queued: int = 0
    max_slices: int = 0
    configured: bool = True
    availability: Availability = Availability.AVAILABLE
    until: Moment | None = None
    reason: str = ""
    unreported: int = 0
    """READY slices that no usage report has named."""
    unreported_since: Moment | None = None
    """When the first of them became READY."""
    unreported_cost_per_hour: float = 0.0
    unclaimed: int = 0
    """READY slices that no source has named though one should have: they did not join, and hold nothing."""
    unclaimed_since: Moment | None = None
    """Since when the first of them counts so."""
    unclaimed_cost_per_hour: float = 0.0
    not_started: tuple[str, ...] = ()
    """Some of the tasks that have been placed on its READY slices for `ready_grace` and do not run by any report."""
    not_started_since: Moment | None = None
    """Since when the first of them has been placed there."""
    cost: CostByUse = CostByUse()
    pressure: Pressure = Pressure()
    driven: DrivenStatus | None = None
    """Set if reports of pressure drive the group."""


class SourceStatus(Value):
    """One source of demand: its revision, its number of tasks, and why it must send a snapshot, if it must."""

    epoch: int
    revision: int
    tasks: int
    resync_needed: str | None = None
    lease_ends: Moment | None = None
    """When its lease lapses, or lapsed: from then on its demand buys nothing new."""
    buys_nothing: str | None = None
    """Why nothing new is bought for its demand, if so."""


class UsageStatus(Value):
    """One source of usage: its last revision, when it last sent any message, and how many slices it has named.

    `stale_since` is set once it has been silent for `usage_stale_after`. Nothing drains on its word then: `kept_idle` slices stay
    only for that reason, at `cost_per_hour`. `resync_needed` is why it must report everything again.
    """

    epoch: int
    revision: int
    at: Moment
    age_seconds: float = 0.0
    stale_since: Moment | None = None
    slices: int
    kept_idle: int = 0
    cost_per_hour: float = 0.0
    resync_needed: str | None = None


class RecoveryStatus(Value):
    """A recovery in progress: its reason, and the reports it waits for. Nothing is ordered meanwhile.

    With `goes_on` it has waited long enough: only groups of the locations and slices it waits for, and what they share, are held.
    """

    reason: str
    since: Moment
    waiting_for: tuple[str, ...]
    goes_on: bool = False


class ClusterStatus(Value):
    """The status of a cluster. `version` grows with every change; `changed` is false if the caller has the newest version.

    `held` is why nothing is launched or drained now, if so. `placed` and `unmet` are tasks of the last evaluation, at
    `evaluated_at`; `outdated` if something that may change a decision arrived since, and `behind` says what.
    """

    cluster: str
    version: int
    changed: bool = True
    held: str | None = None
    outdated: bool = False
    behind: str | None = None
    """On what the last decision was made, and what waits for the next one, if anything does."""
    thorough: bool = True
    """False if the last evaluation ran out of its budget of work, so that cheaper methods were used."""
    now: Moment | None = None
    config_revision: int = 0
    ready_grace_seconds: float = 0.0
    """How long a slice may be READY before it is an alert that no usage report has named it."""
    usage_stale_after_seconds: float = 0.0
    """How long the word of a silent source of usage counts as fresh; a client sends a heartbeat every third of it."""
    slices: int = 0
    cost: CostByUse = CostByUse()
    idle_cost_of_day: float = 0.0
    """What idle slices have cost in the 24 hours before `now`."""
    unpriced: tuple[str, ...] = ()
    """Groups whose slices no amount includes, because their price is not known."""
    groups: tuple[GroupStatus, ...] = ()
    pools: tuple[PoolStatus, ...] = ()
    demand: dict[str, SourceStatus] = Field(default_factory=dict)
    usage: dict[str, UsageStatus] = Field(default_factory=dict)
    resync_needed: dict[str, str] = Field(default_factory=dict)
    evaluations: int = 0
    evaluated_at: Moment | None = None
    decided_in_seconds: float = 0.0
    undecided: Undecided | None = None
    next_change_at: Moment | None = None
    placed: dict[Tier, int] = Field(default_factory=dict)
    unmet: dict[Code, int] = Field(default_factory=dict)
    deferred: int = 0
    drains: tuple[DrainStatus, ...] = ()
    notices: tuple[NoticeStatus, ...] = ()
    """What clouds announce for slices, the soonest first: the first of them, if there are very many."""
    notices_in_all: int = 0
    scale_down: ScaleDown = ScaleDown.ON
    observed_drains: int = 0
    """Drains that the last decision would have ordered, if `scale_down` is `observe`."""
    standing: tuple[StandingStatus, ...] = ()
    paused: str | None = None
    closing: bool = False
    recovery: RecoveryStatus | None = None
    locations: dict[str, LocationProblem] = Field(default_factory=dict)
    """Locations that cannot be watched, by key."""
    recent_failures: tuple[RecentFailure, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    rejected_in_all: int = 0
    unread: int = 0
    """Messages that have arrived and are not read yet, after an outage of the workers: what they say is not in the status."""


class SlicePage(Value):
    """One page of slices, in launch order."""

    total: int
    page: int
    pages: int
    slices: tuple[Slice, ...]
    about: dict[str, AboutSlice] = Field(default_factory=dict)
    """By slice id, if the request has `about`."""
    without_addresses: int = 0
    """Slices at the end of the page whose hosts are left out to keep the answer small; smaller pages have them."""


class Difference(Value):
    """One difference between ledger, slice workflows and cloud."""

    slice_id: str
    group: str
    location: str
    kind: str
    message: str


class Verdict(Value):
    """Result of `penstock verify`."""

    cluster: str
    at: Moment
    slices: int
    resources: int
    workflows: int
    locations: int
    differences: tuple[Difference, ...] = ()
    unlisted: tuple[str, ...] = ()
    """Locations without a complete listing."""

    @property
    def agrees(self) -> bool:
        """Whether there are no differences and every location was listed."""
        return not self.differences and not self.unlisted


class Finding(Value):
    """One check of `penstock doctor`: its subject, its result, and the fix if it failed."""

    subject: str
    ok: bool
    message: str
    fix: str = ""


class DoctorReport(Value):
    """Result of `penstock doctor`."""

    at: Moment
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether every check passed."""
        return all(finding.ok for finding in self.findings)


class Setting(NamedTuple):
    """One number of the configuration: of the cluster (with an empty name), of a group, or of a pool."""

    kind: Literal["cluster", "group", "pool"]
    name: str
    field: str

    def __str__(self) -> str:
        return self.field if self.kind == "cluster" else f"{self.kind}s.{self.name}.{self.field}"


class Remedy(Value):
    """One change to one number of the configuration that meets unmet demand."""

    setting: Setting
    before: int
    after: int

    @property
    def message(self) -> str:
        """The change as an instruction."""
        kind, name, field = self.setting
        whose = {"cluster": "of the cluster", "group": f"of {name}", "pool": f"of pool {name}"}[kind]
        return f"raise {field} {whose} from {self.before} to {self.after}"


class TaskStatus(StrEnum):
    """The state of a task in a decision; of several tasks, the state of the one that is worst off."""

    RUNNING = "running"
    PLACED = "placed"
    WAITING = "waiting"
    UNMET = "unmet"
    UNKNOWN = "unknown"


class Explanation(Value):
    """The answer to "why is my task pending": a paragraph, and its facts as data.

    `task_id` is what was asked for: a task, a gang, or a prefix of task ids, of which there are `tasks`. `held` is why nothing is
    launched now, if so; the text begins with it. `as_of` is the time of the last evaluation if the answer is of that moment,
    because deciding anew takes too long; the text says so too.
    """

    task_id: str
    status: TaskStatus
    text: str
    held: str | None = None
    as_of: Moment | None = None
    tasks: int = 1
    group: str | None = None
    tier: Tier | None = None
    code: Code | None = None
    groups: dict[str, str] = Field(default_factory=dict)
    remedy: Remedy | None = None
    not_tried: str = ""
    """What the search for a remedy did not cover, if its effort was used up."""


class DeferredSummary(Value):
    """Slices of one group that launch limits defer, and the limits."""

    slices: int
    limits: dict[str, int]
    message: str


class UnmetSummary(Value):
    """Unmet tasks of one shape, in so many `gangs`, if any. `count` is entries: single tasks or gangs.

    `task_ids` are the first hundred.
    """

    count: int
    tasks: int
    gangs: int = 0
    task_ids: tuple[str, ...]
    shape: str
    code: Code
    message: str
    groups: dict[str, Code] = Field(default_factory=dict)
    remedy: Remedy | None = None
    remedy_text: str | None = None
    not_tried: str = ""


def _is_empty(text: str) -> bool:
    return not text


class DrainSummary(Value):
    """A slice that drains, or is called off before it is READY, and why."""

    slice: str
    group: str
    cause: str
    detail: Annotated[str, Field(exclude_if=_is_empty)] = ""
    """What the cause does not say: the kind of a notice and its moment, the money that is saved, the group to return to."""

    @classmethod
    def of(cls, drain: Drain) -> "DrainSummary":
        """A drain that a decision orders."""
        return cls(slice=drain.slice_id, group=drain.group, cause=drain.cause, detail=drain.detail)

    @property
    def why(self) -> str:
        """The cause with its detail."""
        return with_detail(self.cause, self.detail)


class DecisionSummary(Value):
    """One decision with counts of tasks by group, and task ids of unmet demand. `held` is why it is not carried out, if so.

    `as_of` is set if this is the last evaluation's decision, because deciding anew takes too long; `changed_since` if something
    that may change it came after it.
    """

    now: Moment
    held: str | None = None
    as_of: Moment | None = None
    changed_since: bool = False
    placement: Placement
    launches: dict[str, int]
    deferred: dict[str, DeferredSummary]
    placed: dict[str, dict[Tier, int]]
    unmet: tuple[UnmetSummary, ...]
    drains: tuple[DrainSummary, ...] = ()
    cancelled_drains: tuple[str, ...] = ()
    """Slices that are needed again: they stop draining."""
    desired: dict[str, int] = Field(default_factory=dict)
    """Slices that reports of pressure want, by group."""
    kept: dict[str, dict[KeptCode, int]] = Field(default_factory=dict)
    """Slices that stay, by group and by reason; one with several reasons counts for each."""
    groups: dict[str, GroupDecision]
    pools: dict[str, PoolDecision]
    standing: tuple[StandingOutcome, ...]
    cost_per_hour: CostPerHour
    next_change_at: Moment | None
    thorough: bool = True
    """False if the decision's budget of work ran out, so that cheaper methods were used."""
