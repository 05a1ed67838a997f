"""The snapshot: the complete input of a decision."""

from pydantic import Field

from penstock.model.cluster import ClusterConfig
from penstock.model.demand import Workload
from penstock.model.slices import Health, RecentLaunch, Slice, SliceUsage, StandingRequest
from penstock.model.units import Moment
from penstock.model.value import Value


class Snapshot(Value):
    """Everything that a decision depends on. Slices are in launch order."""

    config: ClusterConfig
    now: Moment
    workload: Workload = Workload()
    slices: tuple[Slice, ...] = ()
    usage: dict[str, SliceUsage] = Field(default_factory=dict)
    health: dict[str, Health] = Field(default_factory=dict)
    standing: tuple[StandingRequest, ...] = ()
    launched: tuple[RecentLaunch, ...] = ()
