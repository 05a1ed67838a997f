"""Rules of capacity: tiers, slice states, usage, spares."""

from penstock.model.constraints import Operator as Op
from penstock.model.decision import Cause, Code, Outcome, Pressure, Tier
from penstock.model.resources import Resources
from penstock.model.slices import Availability, HostState, HostUsage, SliceState
from tests.scenarios.builder import must, reserved, scenario, unmet
from tests.scenarios.cases import ExpectedPool

READY, IN_FLIGHT, NEW = Tier.READY, Tier.IN_FLIGHT, Tier.NEW


TIERS = (
    scenario("space on a READY slice is used before a slice in flight, regardless of priority")
    .group("first", priority=10, booting=1)
    .group("second", priority=20, idle=1)
    .wants(1, cpu=1)
    .expects(placed={"second": 1}, tiers={"second": {READY: 1}}),
    scenario("a booting slice holds its demand; nothing cascades to the sibling zone")
    .group("zone-a", max_slices=1, booting=1)
    .group("zone-b", max_slices=1)
    .wants(1, cpu=1)
    .expects(placed={"zone-a": 1}, launches={}),
    scenario("a slice in flight in any group comes before a new slice in any group")
    .group("first", priority=1)
    .group("last", priority=900, requesting=1)
    .wants(1, cpu=1)
    .expects(placed={"last": 1}, tiers={"last": {IN_FLIGHT: 1}}),
    scenario("REQUESTING, BOOTING and INITIALIZING slices all hold demand")
    .group("g", max_slices=3, requesting=1, booting=1, initializing=1)
    .wants(3, cpu=4)
    .expects(placed={"g": 3}, tiers={"g": {IN_FLIGHT: 3}}),
    scenario("a slice opened for one entry is in flight for the next")
    .group("g")
    .wants(1, cpu=3)
    .wants(1, cpu=1)
    .expects(placed={"g": 2}, tiers={"g": {NEW: 1, IN_FLIGHT: 1}}, launches={"g": 1}),
    scenario("slices in flight are filled in launch order, not by priority")
    .group("ordered-first", priority=90, booting=1)
    .group("ordered-second", priority=10, booting=1)
    .wants(1, cpu=1)
    .expects(placed={"ordered-first": 1}),
    scenario("a new slice comes from the first group that has headroom")
    .group("first", priority=10, max_slices=1, busy=1)
    .group("second", priority=20)
    .group("third", priority=30)
    .wants(1, cpu=1)
    .expects(placed={"second": 1}, tiers={"second": {NEW: 1}}, launches={"second": 1}),
    scenario("slices in flight of a blocked group still hold demand, and further demand goes to another group")
    .group("blocked", priority=10, booting=1)
    .group("other", priority=20)
    .health("blocked", Availability.BACKOFF)
    .wants(2, cpu=4)
    .expects(placed={"blocked": 1, "other": 1}, tiers={"blocked": {IN_FLIGHT: 1}, "other": {NEW: 1}}, launches={"other": 1}),
    scenario("READY slices of a blocked group still take demand")
    .group("g", idle=1)
    .health("g", Availability.DISABLED)
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {READY: 1}}),
)


STATES = (
    scenario("a slice queued for an unknown time holds no demand")
    .group("g", max_slices=2, queued=1)
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {NEW: 1}}, launches={"g": 1}),
    scenario("a slice queued at the provider counts against the maximum")
    .group("g", max_slices=1, queued=1)
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["g=at_max"])]),
    scenario("a slice queued at the provider holds its demand for patience, and the decision gives the end")
    .cluster(patience="10m")
    .group("g")
    .slice("s", "g", SliceState.REQUESTING, age="4m", queued=True)
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {IN_FLIGHT: 1}}, availability={"g": Availability.AVAILABLE}, changes_in="6m"),
    scenario("beyond patience, a queued slice holds no demand and blocks its group, and demand goes to another group")
    .cluster(patience="10m")
    .group("first", priority=1)
    .group("second", priority=2)
    .slice("s", "first", SliceState.REQUESTING, age="10m", queued=True)
    .wants(1, cpu=1)
    .expects(
        placed={"second": 1},
        launches={"second": 1},
        availability={"first": Availability.BACKOFF},
        why={"first": "1 of its slices waits in the cloud's queue"},
    ),
    scenario("a group with slices stuck in the queue gets no more orders, and unmet demand has that reason")
    .cluster(patience="10m")
    .group("g")
    .slice("s", "g", SliceState.REQUESTING, age="1h", queued=True)
    .slice("t", "g", SliceState.REQUESTING, age="1h", queued=True)
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["g=backoff", "2 of its slices wait in the cloud's queue"])]),
    scenario("a group blocked by its cloud keeps that reason while its slices wait in the queue")
    .cluster(patience="10m")
    .group("g")
    .slice("s", "g", SliceState.REQUESTING, age="1h", queued=True)
    .health("g", Availability.QUOTA_EXCEEDED, until="5m")
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["g=quota_exceeded"])], changes_in="5m"),
    scenario("a slice ordered to drain takes no demand even if it still reports READY, and counts against the maximum")
    .group("g", max_slices=2)
    .slice("s", "g", SliceState.READY, usage="idle", drain=True)
    .wants(2, cpu=4)
    .expects(placed={"g": 1}, launches={"g": 1}, unmet=[unmet(Code.NO_CAPACITY, says=["g=at_max"])]),
    scenario("a slice ordered to drain while in flight holds no demand and is replaced")
    .group("g", min_slices=1)
    .slice("s", "g", SliceState.BOOTING, drain=True)
    .wants(1, cpu=4)
    .expects(placed={"g": 1}, tiers={"g": {IN_FLIGHT: 1}}, launches={"g": 1}, causes={Cause.MINIMUM: 1}),
    scenario("a slice holds its demand until patience ends, and the decision gives the end")
    .cluster(patience="10m")
    .group("g")
    .slice("s", "g", SliceState.REQUESTING, age="4m")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {IN_FLIGHT: 1}}, changes_in="6m"),
    scenario("a slice REQUESTING for longer than patience holds no demand")
    .cluster(patience="10m")
    .group("g")
    .slice("s", "g", SliceState.REQUESTING, age="10m")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {NEW: 1}}, launches={"g": 1}, changes_in="10m"),
    scenario("a slice REQUESTING for longer than patience counts against the maximum")
    .cluster(patience="10m")
    .group("g", max_slices=1)
    .slice("s", "g", SliceState.REQUESTING, age="11m")
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["g=at_max"])]),
    scenario("a group's own patience overrides the cluster's")
    .cluster(patience="1m")
    .group("g", patience="1h")
    .slice("s", "g", SliceState.REQUESTING, age="30m")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {IN_FLIGHT: 1}}, changes_in="30m"),
    scenario("patience applies to REQUESTING and queued slices; a BOOTING slice holds its demand")
    .cluster(patience="10m")
    .group("g")
    .slice("s", "g", SliceState.BOOTING, age="1d")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {IN_FLIGHT: 1}}, changes_in="never"),
    scenario("DRAINING and DELETING slices take no demand, and count against the group's maximum")
    .group("g", max_slices=3, draining=1, deleting=1)
    .wants(2, cpu=4)
    .expects(placed={"g": 1}, launches={"g": 1}, unmet=[unmet(Code.NO_CAPACITY, says=["g=at_max"])]),
    scenario("DRAINING and DELETING slices count against the cluster's maximum")
    .cluster(max_slices=3)
    .group("g")
    .group("other", tpu=4, draining=1, deleting=1)
    .wants(2, cpu=4, constraints=[must("device", Op.EQ, "cpu")])
    .expects(placed={"g": 1}, launches={"g": 1}, unmet=[unmet(Code.NO_CAPACITY, says=["g=cluster_at_max"])]),
    scenario("DRAINING and DELETING slices are charged to their pool")
    .pool("res", 12)
    .group("g", tpu=4, pool="res", draining=1, deleting=1)
    .wants(2, tpu=4)
    .expects(
        placed={"g": 1},
        launches={"g": 1},
        unmet=[unmet(Code.NO_CAPACITY, says=["g=pool_exhausted"])],
        pools={"res": ExpectedPool(charged=8, launching=4, pressure=Pressure(capacity=4, accounted_for=12))},
    ),
    scenario("DRAINING slices do not count towards the minimum")
    .group("g", min_slices=1, draining=1)
    .expects(launches={"g": 1}, causes={Cause.MINIMUM: 1}),
    scenario("a slice of a group that is no longer configured counts against the cluster's maximum")
    .cluster(max_slices=2)
    .group("g")
    .retired("removed")
    .slice("old", "removed", SliceState.READY, usage="idle")
    .wants(2, cpu=4)
    .expects(placed={"g": 1}, launches={"g": 1}, unmet=[unmet(Code.NO_CAPACITY, says=["g=cluster_at_max"])]),
)


USAGE = (
    scenario("a READY slice that no usage report has named takes demand, so that silence buys nothing")
    .group("g", max_slices=2, unreported=1)
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {READY: 1}}, launches={}),
    scenario("a READY slice that no usage report has named counts as warm")
    .group("g", warm_slices=1, unreported=1)
    .expects(launches={}, target={"g": 1}),
    scenario("time alone changes nothing about a READY slice that no usage report has named")
    .cluster(ready_grace="2m")
    .group("g")
    .slice("s", "g", SliceState.READY, age="2m")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {READY: 1}}, launches={}, changes_in="never"),
    scenario("a slice that a report names takes a gang before an older one that no report has named")
    .group("g", max_slices=3)
    .slice("silent", "g", SliceState.READY, age="1h")
    .slice("named", "g", SliceState.READY, age="1m", usage=reserved(cpu=1))
    .wants(1, cpu=3)
    .wants(1, cpu=4)
    .expects(placed={"g": 2}, tiers={"g": {READY: 2}}, launches={}),
    scenario("a report that names a new slice as busy leaves it nothing to take")
    .group("g")
    .slice("s", "g", SliceState.READY, age="1s", usage="busy")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {NEW: 1}}, launches={"g": 1}, changes_in="10m"),
    scenario("a usage report with the wrong number of hosts makes the slice count as busy")
    .group("g", hosts=4, max_slices=1)
    .slice("s", "g", SliceState.READY, usage=["idle", "idle"])
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["g=at_max"])]),
    scenario("a single host state applies to every host of a slice")
    .group("g", hosts=4)
    .slice("s", "g", SliceState.READY, usage="idle")
    .wants(4, cpu=4)
    .expects(placed={"g": 4}, tiers={"g": {READY: 4}}),
    scenario("the unreserved part of a host is free")
    .group("g", max_slices=1)
    .slice("s", "g", SliceState.READY, usage=reserved(cpu=3))
    .wants(2, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {READY: 1}}, unmet=[unmet(Code.NO_CAPACITY)], required={}),
    scenario("a slice with a degraded host takes no new work, on its other hosts neither")
    .group("g", hosts=2, max_slices=1)
    .slice("s", "g", SliceState.READY, usage=[HostUsage(state=HostState.DEGRADED, reserved=Resources()), "idle"])
    .wants(2, cpu=4)
    .expects(unmet=[unmet(Code.NO_CAPACITY, 2)]),
)


SPARES = (
    scenario("READY idle slices count as warm").group("g", warm_slices=2, idle=2).expects(launches={}, target={"g": 2}),
    scenario("slices in flight count as warm").group("g", warm_slices=2, booting=1, queued=1).expects(launches={}),
    scenario("a warm slice that demand uses is replaced")
    .group("g", warm_slices=1, idle=1)
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, launches={"g": 1}, causes={Cause.WARM: 1}, required={"g": 1}, target={"g": 2}),
    scenario("warm slices stop at the maximum")
    .group("g", warm_slices=5, max_slices=3, busy=2)
    .expects(launches={"g": 1}, target={"g": 3}),
    scenario("busy slices without demand launch nothing")
    .group("g", busy=3)
    .expects(launches={}, target={"g": 3}, outcomes={"g": Outcome.IDLE}),
    scenario("the minimum is opened first and holds demand, in any group")
    .group("first", priority=1)
    .group("kept", priority=50, min_slices=1)
    .wants(1, cpu=1)
    .expects(placed={"kept": 1}, tiers={"kept": {IN_FLIGHT: 1}}, launches={"kept": 1}, causes={Cause.MINIMUM: 1}),
    scenario("READY, in flight and queued slices count towards the minimum")
    .group("g", min_slices=4, idle=1, booting=1, queued=1)
    .expects(launches={"g": 1}, causes={Cause.MINIMUM: 1}),
    scenario("a blocked group does not open its minimum")
    .group("g", min_slices=2)
    .health("g", Availability.QUOTA_EXCEEDED)
    .expects(launches={}, outcomes={"g": Outcome.BLOCKED}, target={"g": 2}),
    scenario("the minimum stops at the cluster's maximum, and the preferred group comes first")
    .cluster(max_slices=4)
    .group("second", priority=20, min_slices=2)
    .group("first", priority=10, min_slices=1)
    .group("full", priority=1, max_slices=2, busy=2)
    .expects(launches={"first": 1, "second": 1}),
    scenario("slices in flight that hold demand count as busy for the watermark")
    .group("g", watermark=50, booting=1)
    .wants(1, cpu=4)
    .expects(placed={"g": 1}, launches={"g": 1}, causes={Cause.WATERMARK: 1}, target={"g": 2}),
    scenario("a watermark adds spares in whole slices, rounded up")
    .group("g", watermark=70, busy=5)
    .expects(launches={"g": 3}, causes={Cause.WATERMARK: 3}, target={"g": 8}),
    scenario("warm slices and a watermark are one set of spares, not two")
    .group("g", watermark=50, warm_slices=2, busy=2)
    .expects(launches={"g": 2}, causes={Cause.WATERMARK: 2}, target={"g": 4}),
)

RULES = (*TIERS, *STATES, *USAGE, *SPARES)
