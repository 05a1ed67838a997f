"""The snapshot: the complete input of a decision."""

from pydantic import Field

from penstock.model.cluster import ClusterConfig
from penstock.model.demand import Workload
from penstock.model.elasticity import Setback
from penstock.model.pressure import PressureState
from penstock.model.slices import Health, RecentLaunch, Slice, SliceUsage, StandingRequest
from penstock.model.units import Count, Moment
from penstock.model.value import Value


class SourceTerms(Value):
    """How long the demand of a source may buy: what ends it, and what it waits for."""

    lease_ends: Moment | None = None
    """When its lease lapses, unless the source is heard of again. From then on it buys nothing new and keeps no slice."""
    usage_due: Moment | None = None
    """Set if the source began a new epoch and has not reported usage in it: until then it buys nothing new."""
    resync: str | None = None
    """Why its demand is lost, if it must send all of it again: slices that it may need are not known."""


class Snapshot(Value):
    """Everything that a decision depends on. Slices are in launch order."""

    config: ClusterConfig
    now: Moment
    workload: Workload = Workload()
    slices: tuple[Slice, ...] = ()
    usage: dict[str, SliceUsage] = Field(default_factory=dict)
    stale_at: dict[str, Moment] = Field(default_factory=dict)
    """From when the word of a silent source on a slice is stale, by slice id: the slice does not drain on it.

    Idle slices are named, and with consolidation all READY ones.
    """
    sources: dict[str, SourceTerms] = Field(default_factory=dict)
    """Terms of the sources of demand that have any, by the name that runs have."""
    waiting_since: dict[str, Moment] = Field(default_factory=dict)
    """Since when gangs of a shape have been unmet, by the digest of the shape: slices that they would use are held for them."""
    health: dict[str, Health] = Field(default_factory=dict)
    standing: tuple[StandingRequest, ...] = ()
    standing_in_doubt: tuple[StandingRequest, ...] = ()
    """Requests that slices which are not known yet may meet already: nothing is launched for them, and nothing given back."""
    stockouts: dict[str, Moment] = Field(default_factory=dict)
    """When each group was last out of stock."""
    setbacks: dict[str, Setback] = Field(default_factory=dict)
    """When each group last lost a slice or failed to create one: slices return to it once it has settled."""
    pressure: dict[str, PressureState] = Field(default_factory=dict)
    """What reports of pressure said of the groups that they drive."""
    launched: tuple[RecentLaunch, ...] = ()
    unseen_slices: Count = 0
    """The most slices that may exist beside `slices`, at locations not listed yet: they count against the cluster's maximum."""
