"""Rules of protection: slices that are kept, cordoned or hard to get back, and what a cluster may cost."""

from penstock.model.decision import Cause, Code, Tier
from penstock.model.slices import HostState, HostUsage, SliceState
from tests.scenarios.builder import deferred, scenario, unmet

READY, NEW = Tier.READY, Tier.NEW
UNDISTURBED = HostUsage(state=HostState.IDLE, do_not_disrupt=True)

KEPT = (
    scenario("an idle slice that an operator keeps does not drain, and the decision names the moment")
    .group("g", idle_timeout="10m")
    .slice("s", "g", SliceState.READY, usage="idle", idle="30m", kept="2h")
    .expects(drains=[], changes_in="2h"),
    scenario("a slice that was kept drains once that has ended")
    .group("g", idle_timeout="10m")
    .slice("s", "g", SliceState.READY, usage="idle", idle="30m", kept="0s")
    .expects(drains=["s"], changes_in="never"),
    scenario("a slice that is kept takes nobody's place: the next one goes instead")
    .group("g", idle_timeout="10m", min_slices=1)
    .slice("kept", "g", SliceState.READY, usage="idle", idle="40m", kept="2h")
    .slice("other", "g", SliceState.READY, usage="idle", idle="30m")
    .expects(drains=["other"]),
    scenario("a slice that is kept takes demand")
    .group("g")
    .slice("s", "g", SliceState.READY, usage="idle", idle="30m", kept="2h")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {READY: 1}}, drains=[]),
    scenario("a slice above a lowered maximum is kept, and another one goes")
    .group("g", max_slices=1)
    .slice("kept", "g", SliceState.READY, usage="idle", idle="40m", kept="2h")
    .slice("other", "g", SliceState.READY, usage="idle", idle="1s")
    .expects(drains=["other"]),
    scenario("a slice that is kept stays even above a maximum of zero")
    .group("g", max_slices=0)
    .slice("kept", "g", SliceState.READY, usage="idle", idle="40m", kept="2h")
    .expects(drains=[], changes_in="2h"),
    scenario("a slice of a removed group is kept")
    .group("g")
    .retired("old")
    .slice("s", "old", SliceState.READY, usage="idle", idle="1h", kept="2h")
    .expects(drains=[], changes_in="2h"),
    scenario("a slice on its way that is kept is not called off")
    .group("g", cancel_after="0s")
    .slice("kept", "g", SliceState.BOOTING, kept="2h")
    .slice("other", "g", SliceState.BOOTING)
    .expects(drains=["other"]),
    scenario("a slice that did not join is kept")
    .cluster(unclaimed_after="15m")
    .group("g")
    .slice("s", "g", SliceState.READY, age="20m", unclaimed="16m", kept="2h")
    .expects(drains=[]),
    scenario("a slice with a host that must not be disturbed does not drain, until usage says otherwise")
    .group("g", hosts=2, idle_timeout="10m")
    .slice("s", "g", SliceState.READY, usage=["idle", UNDISTURBED], idle="30m")
    .expects(drains=[], changes_in="never"),
)

CORDONED = (
    scenario("a cordoned slice takes no demand, which gets another one")
    .group("g", max_slices=2)
    .slice("s", "g", SliceState.READY, usage="idle", cordoned=True)
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {NEW: 1}}, launches={"g": 1}),
    scenario("a cordoned slice counts against the maximum")
    .group("g", max_slices=1)
    .slice("s", "g", SliceState.READY, usage="idle", cordoned=True)
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["g=at_max"])]),
    scenario("a cordoned slice is not drained, however long it is idle")
    .group("g", idle_timeout="10m")
    .slice("s", "g", SliceState.READY, usage="idle", idle="30m", cordoned=True)
    .expects(drains=[], changes_in="never"),
    scenario("a cordoned slice counts as had for the minimum")
    .group("g", min_slices=1)
    .slice("s", "g", SliceState.READY, usage="idle", cordoned=True)
    .expects(launches={}),
    scenario("a cordoned slice is no warm slice")
    .group("g", warm_slices=1)
    .slice("s", "g", SliceState.READY, usage="idle", cordoned=True)
    .expects(launches={"g": 1}, causes={Cause.WARM: 1}),
    scenario("a cordoned slice is no standing capacity")
    .group("g")
    .slice("s", "g", SliceState.READY, usage="idle", cordoned=True)
    .standing("team", 1, cpu=4)
    .expects(launches={"g": 1}, standing={"team": "met"}),
    scenario("a slice that is cordoned on its way takes no demand, and is not called off")
    .group("g", cancel_after="0s")
    .slice("s", "g", SliceState.BOOTING, cordoned=True)
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {NEW: 1}}, launches={"g": 1}, drains=[]),
    scenario("a cordoned slice that drains is not taken back, because nothing could be placed on it")
    .group("g")
    .slice("s", "g", SliceState.DRAINING, usage="idle", drain="idle", cordoned=True)
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {NEW: 1}}, launches={"g": 1}, cancelled=[]),
    scenario("a cordoned slice of a removed group goes like the others")
    .group("g")
    .retired("old")
    .slice("s", "old", SliceState.READY, usage="idle", idle="1h", cordoned=True)
    .expects(drains=["s"]),
)

STOCKOUTS = (
    scenario("idle slices of a group that was out of stock are kept for hold_after_stockout, and the decision names the moment")
    .group("g", idle_timeout="10m", hold_after_stockout="1h")
    .slice("s", "g", SliceState.READY, usage="idle", idle="30m")
    .stockout("g", ago="20m")
    .expects(drains=[], changes_in="40m"),
    scenario("an idle timeout that ends after hold_after_stockout still counts")
    .group("g", idle_timeout="10m", hold_after_stockout="1h")
    .slice("s", "g", SliceState.READY, usage="idle", idle="5m")
    .stockout("g", ago="1h")
    .expects(drains=[], changes_in="5m"),
    scenario("after hold_after_stockout an idle slice drains")
    .group("g", idle_timeout="10m", hold_after_stockout="1h")
    .slice("s", "g", SliceState.READY, usage="idle", idle="30m")
    .stockout("g", ago="1h")
    .expects(drains=["s"]),
    scenario("without hold_after_stockout, a stockout keeps nothing")
    .group("g", idle_timeout="10m")
    .slice("s", "g", SliceState.READY, usage="idle", idle="30m")
    .stockout("g", ago="1m")
    .expects(drains=["s"]),
    scenario("a stockout of one group keeps no slice of another")
    .group("g", idle_timeout="10m", hold_after_stockout="1h")
    .group("h")
    .slice("s", "g", SliceState.READY, usage="idle", idle="30m")
    .stockout("h", ago="1m")
    .expects(drains=["s"]),
    scenario("a stockout keeps no slice above a maximum")
    .group("g", max_slices=0, hold_after_stockout="1h")
    .slice("s", "g", SliceState.READY, usage="idle", idle="1s")
    .stockout("g", ago="1m")
    .expects(drains=["s"]),
)

COST = (
    scenario("launches beyond max_cost_per_hour are deferred, with the money in the reason")
    .cluster(max_cost_per_hour=10)
    .group("g", price=4, busy=1)
    .wants(3, cpu=4)
    .expects(
        placed={"g": 3},
        launches={"g": 1},
        deferred=[deferred("g", 2, "max_cost_per_hour", says=["cost per hour to 10.00", "cost 4.00 already"])],
        changes_in="10m",
    ),
    scenario("slices on their way and leaving count in the cost")
    .cluster(max_cost_per_hour=10)
    .group("g", price=4, requesting=1, deleting=1)
    .wants(2, cpu=4)
    .expects(placed={"g": 2}, deferred=[deferred("g", 1, "max_cost_per_hour", says=["cost 8.00 already"])]),
    scenario("a slice that costs exactly what is left is launched")
    .cluster(max_cost_per_hour=0.3)
    .group("g", price=0.1)
    .wants(4, cpu=4)
    .expects(placed={"g": 4}, launches={"g": 3}, deferred=[deferred("g", 1, "max_cost_per_hour")]),
    scenario("a gang is launched whole or not at all, and what costs less may still be launched")
    .cluster(max_cost_per_hour=10)
    .group("big", price=4, cpu=8)
    .group("small", price=1, cpu=2, priority=10)
    .wants(1, cpu=8, gang=3)
    .wants(1, cpu=2)
    .expects(placed={"big": 1, "small": 1}, launches={"small": 1}, deferred=[deferred("big", 3, "max_cost_per_hour")]),
    scenario("a slice that costs nothing is always launched")
    .cluster(max_cost_per_hour=0)
    .group("g", price=0)
    .wants(1, cpu=4)
    .expects(placed={"g": 1}, launches={"g": 1}),
    scenario("spares wait while demand is deferred for its cost")
    .cluster(max_cost_per_hour=5)
    .group("dear", price=6)
    .group("spare", price=1, warm_slices=1, cpu=1)
    .wants(1, cpu=4)
    .expects(
        placed={"dear": 1},
        deferred=[deferred("dear", 1, "max_cost_per_hour"), deferred("spare", 1, "max_cost_per_hour")],
    ),
)

RULES = (*KEPT, *CORDONED, *STOCKOUTS, *COST)
