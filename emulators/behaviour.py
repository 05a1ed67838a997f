"""Settings of an emulated zone that every emulator shares: latencies, capacity, quota, permissions and faults."""

from enum import StrEnum

from pydantic import Field

from penstock.model.units import Count, Seconds
from penstock.model.value import Value


class Scope(StrEnum):
    """Scope of a quota or a permission."""

    ZONE = "zone"
    REGION = "region"
    PROJECT = "project"


class Quota(Value):
    """At most `limit` resources in the zone, its region or its project."""

    scope: Scope = Scope.ZONE
    limit: Count


class ZoneBehaviour(Value):
    """Behaviour of a zone. By default it grants every request immediately and never fails.

    A latency applies to requests made after it was set. Counters of next calls count down as calls use them.
    """

    create_latency_seconds: Seconds = Field(default=0.0, alias="create_latency")
    boot_latency_seconds: Seconds = Field(default=0.0, alias="boot_latency")
    init_latency_seconds: Seconds = Field(default=0.0, alias="init_latency")
    delete_latency_seconds: Seconds = Field(default=0.0, alias="delete_latency")
    reply_latency_seconds: Seconds = Field(default=0.0, alias="reply_latency")
    """From storing a create to replying to it."""
    capacity: Count | None = None
    """How many resources may exist at once. Beyond it, queued requests wait and others get a stockout."""
    hold_queue: bool = False
    """Queued requests wait until they are admitted by name, even if there is capacity."""
    stockout: bool = False
    stockout_after: Count | None = None
    """How many more creates succeed before the zone is out of capacity."""
    lost_replies: Count = 0
    """The next creates that are stored but whose connection is cut before the reply."""
    failing_deletes: Count = 0
    """The next deletes that are refused as unavailable and change nothing."""
    permission_denied: Scope | None = None
    invalid: bool = False
    """Refuse every create as invalid."""

    @property
    def out_of_capacity(self) -> bool:
        """Whether the zone grants nothing more."""
        return self.stockout or self.stockout_after == 0


def region_of(zone: str) -> str:
    """The region of a zone: its name without the last part."""
    return zone.rsplit("-", 1)[0]


def name_in_scope(scope: Scope, *, project: str, zone: str) -> str:
    """The name of the zone, of its region, or of the project."""
    return {Scope.ZONE: zone, Scope.REGION: region_of(zone), Scope.PROJECT: project}[scope]
