"""Results of updates and queries: status, slices, decisions, explanations, verification, doctor."""

from enum import StrEnum
from typing import Literal, NamedTuple

from pydantic import Field

from penstock.model.cluster import Placement
from penstock.model.decision import Code, CostPerHour, GroupDecision, PoolDecision, StandingOutcome, Tier
from penstock.model.failures import Failure
from penstock.model.slices import Availability, Slice, SliceState
from penstock.model.units import Moment
from penstock.model.value import Value

TOO_LARGE = "the cluster is too large for this query; query `dump` and decide on that state, as AutoscalerClient does"
"""Error message of a query that would take longer than Temporal allows."""


class Accepted(Value):
    """Result of `submit_demand`: the source's current epoch and revision, and why it must send a snapshot, if it must."""

    source: str
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


class GroupStatus(Value):
    """One group: its slices by state, and its availability."""

    name: str
    slices: dict[SliceState, int] = Field(default_factory=dict)
    queued: int = 0
    max_slices: int = 0
    configured: bool = True
    availability: Availability = Availability.AVAILABLE
    until: Moment | None = None
    reason: str = ""


class SourceStatus(Value):
    """One source of demand: its revision, its number of tasks, and why it must send a snapshot, if it must."""

    epoch: int
    revision: int
    tasks: int
    resync_needed: str | None = None


class RecoveryStatus(Value):
    """A recovery in progress: its reason, and the reports it waits for. Nothing is ordered meanwhile."""

    reason: str
    since: Moment
    waiting_for: tuple[str, ...]


class DrainStatus(Value):
    """A draining slice, and the reason."""

    slice_id: str
    cause: str
    force: bool


class ClusterStatus(Value):
    """The status of a cluster. `version` grows with every change; `changed` is false if the caller has the newest version."""

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
    """One page of slices, in launch order."""

    total: int
    page: int
    pages: int
    slices: tuple[Slice, ...]
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
