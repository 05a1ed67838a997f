"""The decision: placements, launches, drains, unmet demand, deferred slices, and the reason for each."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from pydantic import Field

from penstock.model.cluster import Placement
from penstock.model.slices import Availability
from penstock.model.units import Moment
from penstock.model.value import Value


class Tier(StrEnum):
    """The kind of capacity that an entry was placed on: READY slices, slices in flight, or new slices."""

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
    DRIVEN_BY_PRESSURE = "driven_by_pressure"
    AT_MAX = "at_max"
    CLUSTER_AT_MAX = "cluster_at_max"
    POOL_EXHAUSTED = "pool_exhausted"
    BACKOFF = "backoff"
    QUOTA_EXCEEDED = "quota_exceeded"
    RATE_LIMITED = "rate_limited"
    DISABLED = "disabled"
    EFFORT_SPENT = "effort_spent"


class Cause(StrEnum):
    """Why a slice is launched."""

    MINIMUM = "minimum"
    STANDING = "standing"
    DEMAND = "demand"
    WATERMARK = "watermark"
    WARM = "warm"
    PRESSURE = "pressure"
    REPLACEMENT = "replacement"
    RETURN_HOME = "return home"


class Outcome(StrEnum):
    """The result of a decision for one group."""

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
        """Number of unmet entries."""
        return sum(span.entries for span in self.spans)


class LaunchRequest(NamedTuple):
    """An order for slices of one group, and the source whose demand they are for; a gang's are ordered together or not at all.

    `replaces` is the slice that drains once the ordered one is READY; `home` the group that the demand prefers to this one.
    """

    group: str
    slices: int
    cause: Cause
    source: str = ""
    replaces: str = ""
    home: str = ""


class Deferred(Value):
    """Slices that a launch limit defers."""

    group: str
    slices: int
    limit: str
    message: str


class Drain(Value):
    """An order to stop using a slice, let it empty and delete it; with `force` at the deadline even if it is not empty.

    `idle_since` is the idleness that the order depends on: it is dropped if the slice is not idle since then any more. `deadline`
    is fixed by a notice of the cloud; otherwise the drain timeout of the group counts.
    """

    slice_id: str
    group: str = ""
    cause: str
    detail: str = ""
    """What the cause does not say: the money that is saved, the kind of a notice."""
    force: bool = False
    idle_since: Moment | None = None
    deadline: Moment | None = None
    receivers: tuple[str, ...] = ()
    """The ids of the slices on which its work fits, if it drains for consolidation."""


class KeptCode(StrEnum):
    """Why a slice is kept."""

    BUSY = "busy"
    DEMAND = "demand"
    MINIMUM = "minimum"
    WARM = "warm"
    STANDING = "standing"
    WATERMARK = "watermark"
    DESIRED = "desired"
    """Reports of pressure want that many slices."""
    NEVER_REPORTED = "never_reported"
    UNCLAIMED = "unclaimed"
    IDLE_TIMEOUT = "idle_timeout"
    """It is not idle for long enough yet."""
    CANCEL_AFTER = "cancel_after"
    """It is on its way, and not unneeded for long enough yet."""
    QUEUED = "queued"
    """It keeps its place in the cloud's queue."""
    STALE = "stale"
    RESYNC = "resync"
    UNTRIED = "untried"
    """Demand that may need it was not placed, because the evaluation's budget of work ran out."""
    HEAD = "head"
    """It is the oldest of a group with `protect_first`, or of one that pressure drives."""
    UNCONFIRMED = "unconfirmed"
    """Nobody confirmed its last drain for pressure, and no newer report has come."""
    PROTECTED = "protected"
    """An operator keeps it."""
    DO_NOT_DISRUPT = "do_not_disrupt"
    CORDONED = "cordoned"
    """An operator cordoned it: nothing is placed on it, and it counts as in use."""
    GANG = "gang"
    """It is held for an incomplete gang."""
    STOCKOUT = "stockout"
    """Its group was stocked out, so it is hard to get back."""
    REPLACEMENT = "replacement"
    """Its replacement is not READY yet."""
    NO_REPLACEMENT = "no_replacement"
    """It is to be replaced, and the group that would replace it cannot add a slice now."""
    REPLACES = "replaces"
    """It replaces a slice: it waits until that one drains, and then for the work that moves here."""
    BUDGET = "budget"
    WINDOW = "window"
    TAKEN_BACK = "taken_back"
    """Its drain is cancelled: something needs it again."""
    LAUNCHING = "launching"
    """Its group launches slices in this decision."""
    LATER = "later"
    """The decision orders as many drains as it may; the next one goes on."""
    OBSERVE = "observe"
    PAUSED = "paused"
    RECOVERING = "recovering"

    @property
    def words(self) -> str:
        """The reason in a few words, for tables."""
        return _WORDS.get(self, self.replace("_", " "))


_WORDS = {
    KeptCode.REPLACEMENT: "waiting for its replacement",
    KeptCode.NO_REPLACEMENT: "outdated, without a replacement",
    KeptCode.BUDGET: "waiting for max_unavailable",
    KeptCode.WINDOW: "waiting for the window",
    KeptCode.REPLACES: "replacing another",
}


class KeptReason(Value):
    """One reason why a slice is kept, and the reason as a clause."""

    code: KeptCode
    text: str


class Withheld(NamedTuple):
    """A slice that its group could spare and that something keeps, and until when, if time alone ends that."""

    slice_id: str
    code: KeptCode
    until: datetime | None = None


class Kept(Value):
    """A slice that stays, every reason for that, and when it goes if nothing changes."""

    slice_id: str
    group: str
    reasons: tuple[KeptReason, ...]
    until: Moment | None = None


class Pressure(Value):
    """Pressure on a group in slices, or on a pool in chips.

    `capacity` is unmet demand, `logical` is use above the watermark, `accounted_for` is launched, arriving or leaving already.
    """

    capacity: int = 0
    logical: int = 0
    accounted_for: int = 0


class GroupDecision(Value):
    """The decision for one group: slices by phase, slices required, slices to launch, and the reasons."""

    name: str
    have: int
    in_flight: int
    stalled: int
    leaving: int
    unclaimed: int = 0
    """READY slices that no source has named though it should have: no capacity, but counted against every maximum."""
    replacing: int = 0
    """Slices, READY or on their way, that replace others: no capacity before those drain."""
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
    """The decision for one pool, in chips: total, reserved for other users, charged before this decision, and launched by it."""

    name: str
    chips: int
    system: int
    charged: int
    launching: int
    pressure: Pressure = Pressure()


class StandingOutcome(Value):
    """Whether an owner's standing request is met; if not, the reason."""

    owner: str
    met: bool
    code: Code | None = None
    message: str = ""


class CostPerHour(Value):
    """Hourly cost of the existing slices, and with the requested and launched ones. `unpriced` groups are not included."""

    before: float
    after: float
    unpriced: tuple[str, ...] = ()


class Decision(Value):
    """The result of one evaluation: placements, launches and drains, with the reasons for each."""

    now: Moment
    placement: Placement
    placed: tuple[Placed, ...] = ()
    unmet: tuple[Unmet, ...] = ()
    launches: tuple[LaunchRequest, ...] = ()
    deferred: tuple[Deferred, ...] = ()
    drains: tuple[Drain, ...] = ()
    cancelled_drains: tuple[str, ...] = ()
    """Slices whose drains are cancelled, because something needs them: they serve again."""
    unneeded: tuple[str, ...] = ()
    """Slices on their way that nothing needs now. They are called off if that lasts."""
    withheld: tuple[Withheld, ...] = ()
    """Slices that their groups could spare and that something keeps."""
    holding: dict[str, int] = Field(default_factory=dict)
    """Tasks that are placed on existing slices, by slice id; 0 for a gang that takes whole slices."""
    standing_slices: dict[str, int] = Field(default_factory=dict)
    """Slices that standing requests need together, by group."""
    desired: dict[str, int] = Field(default_factory=dict)
    """Slices that reports of pressure want, by group."""
    waiting_since: dict[str, Moment] = Field(default_factory=dict)
    """Since when gangs of a shape have been unmet, by the digest of the shape: the next snapshot says so again."""
    groups: tuple[GroupDecision, ...] = ()
    pools: tuple[PoolDecision, ...] = ()
    standing: tuple[StandingOutcome, ...] = ()
    cost_per_hour: CostPerHour
    next_change_at: Moment | None = None
    thorough: bool = True
    """False if the budget of work ran out, so that slices were bought without comparing every group each time."""

    def launched(self) -> dict[str, int]:
        """Slices to launch per group, for groups that launch any."""
        counts: dict[str, int] = {}
        for launch in self.launches:
            counts[launch.group] = counts.get(launch.group, 0) + launch.slices
        return dict(sorted(counts.items()))
