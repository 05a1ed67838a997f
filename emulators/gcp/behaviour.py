"""Behaviour of a zone of the Google emulator: latencies, capacity, quota, rate limit, permissions."""

from pydantic import Field

from emulators import behaviour
from penstock.model.units import Positive, Seconds
from penstock.model.value import Value


class Quota(behaviour.Quota):
    """At most `limit` nodes, or instances, in the zone, region or project.

    The TPU API refuses the call. Compute accepts it and fails the operation. `in_operation` overrides either.
    """

    metric: str | None = None
    in_operation: bool | None = None


class Rate(Value):
    """A number of creates per period; Google's limits are per minute."""

    creates: Positive
    seconds: Seconds = Field(default=60.0, alias="per")


class Behaviour(behaviour.ZoneBehaviour):
    """The shared settings, and those of Google's APIs alone.

    - `create_latency`: from the call to addresses, or to the failure of a create that gets a stockout.
    - `boot_latency`: from addresses to READY or RUNNING, when the operation is done.
    - `init_latency`: from the end of the boot to hosts that answer health checks.
    - `delete_latency`: from the call to being gone; also from a preemption to its end.
    - `capacity`: nodes, and instances, that may exist at once; queued resources and flex-start instances wait for it.
    - `hold_queue`: queued resources and flex-start instances wait until they are admitted by name.
    """

    ready_lag_seconds: Seconds = Field(default=0.0, alias="ready_lag")
    """From the end of the boot to READY or RUNNING in the API; hosts may answer before."""
    suspend_latency_seconds: Seconds = Field(default=0.0, alias="suspend_latency")
    """From the suspension of a queued resource to its node showing that it is preempted."""
    queue_latency_seconds: Seconds = Field(default=0.0, alias="queue_latency")
    """Minimum wait of a queued resource."""
    accept_queue: bool = False
    """Waiting queued resources show ACCEPTED, as the API once did, instead of WAITING_FOR_RESOURCES."""
    quota: Quota | None = None
    rate: Rate | None = None
    unreachable: bool = False
    """Lists omit the zone and name it as unreachable."""
    offers: tuple[str, ...] | None = None
    """Accelerator and machine types of the zone; unset, all of Google's."""
    page_size: Positive = 500
    """Largest page of a list. Lists over all zones use that of the defaults."""
