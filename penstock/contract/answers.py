"""What the autoscaler answers: to updates, and to those who ask how things are."""

from enum import StrEnum
from typing import Literal, NamedTuple

from pydantic import Field

from penstock.model.cluster import Placement
from penstock.model.decision import Code, CostPerHour, GroupDecision, PoolDecision, StandingOutcome, Tier
from penstock.model.failures import Failure
from penstock.model.slices import Availability, Slice, SliceState
from penstock.model.units import Moment
from penstock.model.value import Value

TOO_LARGE = "the cluster is too large to decide on in a query; decide on its dump, as AutoscalerClient does"
"""The error of a query that would take longer than Temporal allows."""


class Accepted(Value):
    """Demand was taken: what stands now. `resync_needed` says why a snapshot must come, if it must."""

    source: str
    epoch: int
    revision: int
    config_revision: int
    resync_needed: str | None = None
    invalid: int = 0
    """Tasks that could not be read; each is unmet with the code `invalid`."""


class Done(Value):
    """An operator's order was taken."""

    message: str
    config_revision: int


class Rejection(Value):
    """A message that could not be used, and why."""

    at: Moment
    message: str
    problem: str


class RecentFailure(Value):
    """A failure that was reported lately."""

    at: Moment
    group: str
    slice_id: str
    failure: Failure


class GroupStatus(Value):
    """One group: its slices by state, and whether it can be asked for more."""

    name: str
    slices: dict[SliceState, int] = Field(default_factory=dict)
    queued: int = 0
    max_slices: int = 0
    configured: bool = True
    availability: Availability = Availability.AVAILABLE
    until: Moment | None = None
    reason: str = ""


class SourceStatus(Value):
    """One source of demand: what stands, and whether it must send everything again."""

    epoch: int
    revision: int
    tasks: int
    resync_needed: str | None = None


class RecoveryStatus(Value):
    """Why nothing is ordered yet, and what is waited for."""

    reason: str
    since: Moment
    waiting_for: tuple[str, ...]


class DrainStatus(Value):
    """A slice that is being emptied, and why."""

    slice_id: str
    cause: str
    force: bool


class ClusterStatus(Value):
    """How a cluster is. `version` grows with every change; asked with it, an answer without `changed` has nothing new."""

    cluster: str
    version: int
    changed: bool = True
    now: Moment | None = None
    config_revision: int = 0
    slices: int = 0
    groups: tuple[GroupStatus, ...] = ()
    demand: dict[str, SourceStatus] = Field(default_factory=dict)
    resync_needed: dict[str, str] = Field(default_factory=dict)
    evaluations: int = 0
    evaluated_at: Moment | None = None
    decided_in_seconds: float = 0.0
    next_change_at: Moment | None = None
    placed: dict[Tier, int] = Field(default_factory=dict)
    unmet: dict[Code, int] = Field(default_factory=dict)
    deferred: int = 0
    drains: tuple[DrainStatus, ...] = ()
    standing: tuple[str, ...] = ()
    paused: str | None = None
    closing: bool = False
    recovery: RecoveryStatus | None = None
    recent_failures: tuple[RecentFailure, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    rejected_in_all: int = 0


class SlicePage(Value):
    """One page of slices, in the order in which they were ordered."""

    total: int
    page: int
    pages: int
    slices: tuple[Slice, ...]


class Difference(Value):
    """Something that ledger, workflows and cloud do not agree on."""

    slice_id: str
    group: str
    location: str
    kind: str
    message: str


class Verdict(Value):
    """What `penstock verify` found. It agrees if there are no differences and every location could be listed."""

    cluster: str
    at: Moment
    slices: int
    resources: int
    workflows: int
    locations: int
    differences: tuple[Difference, ...] = ()
    unlisted: tuple[str, ...] = ()
    """Locations that gave no complete list."""

    @property
    def agrees(self) -> bool:
        """Whether ledger, workflows and cloud tell the same story."""
        return not self.differences and not self.unlisted


class Finding(Value):
    """One thing `penstock doctor` looked at: whether it is well, and what to do if not."""

    subject: str
    ok: bool
    message: str
    fix: str = ""


class DoctorReport(Value):
    """What `penstock doctor` found."""

    at: Moment
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether everything is well."""
        return all(finding.ok for finding in self.findings)


class Setting(NamedTuple):
    """One number of the configuration: of the cluster (whose name is left out), a group or a pool."""

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
    """The state of a task in a decision."""

    RUNNING = "running"
    PLACED = "placed"
    WAITING = "waiting"
    UNMET = "unmet"
    UNKNOWN = "unknown"


class Explanation(Value):
    """The answer to "why is my task pending": a paragraph, and its facts as data."""

    task_id: str
    status: TaskStatus
    text: str
    group: str | None = None
    tier: Tier | None = None
    code: Code | None = None
    groups: dict[str, str] = Field(default_factory=dict)
    remedy: Remedy | None = None


class DeferredSummary(Value):
    """Slices of one group that launch limits defer, and the limits."""

    slices: int
    limits: dict[str, int]
    message: str


class UnmetSummary(Value):
    """Unmet entries of one shape. `task_ids` are the first hundred."""

    count: int
    tasks: int
    task_ids: tuple[str, ...]
    shape: str
    code: Code
    message: str
    groups: dict[str, Code] = Field(default_factory=dict)
    remedy: Remedy | None = None
    remedy_text: str | None = None


class DecisionSummary(Value):
    """One decision with counts by group and task ids of unmet demand."""

    now: Moment
    placement: Placement
    launches: dict[str, int]
    deferred: dict[str, DeferredSummary]
    placed: dict[str, dict[Tier, int]]
    unmet: tuple[UnmetSummary, ...]
    groups: dict[str, GroupDecision]
    pools: dict[str, PoolDecision]
    standing: tuple[StandingOutcome, ...]
    cost_per_hour: CostPerHour
    next_change_at: Moment | None
