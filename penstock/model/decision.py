"""The output of a decision: where demand goes, what to launch, what is unmet, and why."""

from enum import StrEnum
from typing import NamedTuple

from pydantic import Field

from penstock.model.cluster import Placement
from penstock.model.slices import Availability
from penstock.model.units import Moment
from penstock.model.value import Value


class Tier(StrEnum):
    """What kind of capacity an entry was placed on."""

    READY = "ready"
    IN_FLIGHT = "in_flight"
    NEW = "new"


class Code(StrEnum):
    """Why an entry is unmet, or why one group cannot take it."""

    NO_MATCHING_GROUP = "no_matching_group"
    GANG_SIZE_MISMATCH = "gang_size_mismatch"
    INCONSISTENT_GANG = "inconsistent_gang"
    INSUFFICIENT_RESOURCES = "insufficient_resources"
    NO_CAPACITY = "no_capacity"
    TIER_BLOCKED = "tier_blocked"
    INVALID = "invalid"
    DEVICE_MISMATCH = "device_mismatch"
    VARIANT_MISMATCH = "variant_mismatch"
    CONSTRAINT_MISMATCH = "constraint_mismatch"
    AT_MAX = "at_max"
    CLUSTER_AT_MAX = "cluster_at_max"
    POOL_EXHAUSTED = "pool_exhausted"
    BACKOFF = "backoff"
    QUOTA_EXCEEDED = "quota_exceeded"
    RATE_LIMITED = "rate_limited"
    DISABLED = "disabled"


class Cause(StrEnum):
    """Why a slice is launched."""

    MINIMUM = "minimum"
    STANDING = "standing"
    DEMAND = "demand"
    WATERMARK = "watermark"
    WARM = "warm"


class Outcome(StrEnum):
    """What became of a group in this decision."""

    SELECTED = "selected"
    KEPT = "kept"
    BLOCKED = "blocked"
    IDLE = "idle"


class Span(NamedTuple):
    """Entries `first` to `first + entries` of one run."""

    run: int
    first: int
    entries: int


class Placed(NamedTuple):
    """A span of entries, and the group and tier that take it; `opened` if on slices that this decision opens."""

    span: Span
    group: str
    tier: Tier
    opened: bool


class Unmet(Value):
    """Entries of one shape that no group can take now."""

    shape: int
    spans: tuple[Span, ...]
    code: Code
    message: str
    groups: dict[str, Code] = Field(default_factory=dict)

    @property
    def entries(self) -> int:
        """How many entries share this fate."""
        return sum(span.entries for span in self.spans)


class LaunchRequest(NamedTuple):
    """An order for slices of one group; a gang's slices are ordered together or not at all."""

    group: str
    slices: int
    cause: Cause


class Deferred(Value):
    """Slices that a launch limit holds back for now."""

    group: str
    slices: int
    limit: str
    message: str


class Drain(Value):
    """An order to stop using a slice, let it empty and delete it."""

    slice_id: str
    cause: str


class Pressure(Value):
    """Demand on a group in slices, or on a pool in chips: denied, above the watermark, and already answered."""

    capacity: int = 0
    logical: int = 0
    accounted_for: int = 0


class GroupDecision(Value):
    """One group: what it has, what it needs, and what is done about it."""

    name: str
    have: int
    in_flight: int
    stalled: int
    leaving: int
    busy: int
    required: int
    target: int
    launch: int
    deferred: int
    availability: Availability
    until: Moment | None = None
    reason: str = ""
    outcome: Outcome
    why: str
    pressure: Pressure = Pressure()


class PoolDecision(Value):
    """One pool: chips in all, others', charged before this decision, and charged by it."""

    name: str
    chips: int
    system: int
    charged: int
    launching: int
    pressure: Pressure = Pressure()


class StandingOutcome(Value):
    """Whether an owner's standing request is met, and if not why not."""

    owner: str
    met: bool
    code: Code | None = None
    message: str = ""


class CostPerHour(Value):
    """What slices that exist cost an hour, and what it will be with those requested and launched; some prices are unknown."""

    before: float
    after: float
    unpriced: tuple[str, ...] = ()


class Decision(Value):
    """Everything one evaluation found and orders, in a form that explains itself."""

    now: Moment
    placement: Placement
    placed: tuple[Placed, ...] = ()
    unmet: tuple[Unmet, ...] = ()
    launches: tuple[LaunchRequest, ...] = ()
    deferred: tuple[Deferred, ...] = ()
    drains: tuple[Drain, ...] = ()
    groups: tuple[GroupDecision, ...] = ()
    pools: tuple[PoolDecision, ...] = ()
    standing: tuple[StandingOutcome, ...] = ()
    cost_per_hour: CostPerHour
    next_change_at: Moment | None = None

    def launched(self) -> dict[str, int]:
        """Slices to launch per group, for groups that launch any."""
        counts: dict[str, int] = {}
        for launch in self.launches:
            counts[launch.group] = counts.get(launch.group, 0) + launch.slices
        return dict(sorted(counts.items()))
