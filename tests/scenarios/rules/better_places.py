"""Rules of returning home and of consolidation: work moves to a better group, or to slices that have room for it."""

from penstock.model.decision import Cause, Tier
from penstock.model.resources import Resources
from penstock.model.slices import Availability, HostState, HostUsage, SliceState
from tests.scenarios.builder import scenario

READY = SliceState.READY
GANG = HostUsage(state=HostState.BUSY, gangs=("pretrain",))
NOW_CLOSED = {"hours": "02:00-04:00"}
"""It is noon in these scenarios."""

HOME = {"settle": "30m"}
RETURNS = (
    scenario("a busy slice away from home gets a replacement there, once home has settled")
    .cluster(return_home=HOME)
    .group("home", priority=10, price=2)
    .group("away", priority=20, price=5)
    .slice("s", "away", READY, usage="busy", home="home")
    .setback("home", ago="31m")
    .expects(launches={"home": 1}, causes={Cause.RETURN_HOME: 1}, replaced=["s"], drains={}),
    scenario("home must have been quiet for the settle time, counted from its last failure or preemption")
    .cluster(return_home=HOME)
    .group("home", priority=10, price=2)
    .group("away", priority=20, price=5)
    .slice("s", "away", READY, usage="busy", home="home")
    .setback("home", ago="10m")
    .expects(launches={}, drains={}, changes_in="20m"),
    scenario("the settle time doubles with each failed return")
    .cluster(return_home=HOME)
    .group("home", priority=10, price=2)
    .group("away", priority=20, price=5)
    .slice("s", "away", READY, usage="busy", home="home")
    .setback("home", ago="31m", failed_returns=2)
    .expects(launches={}, drains={}, changes_in="1h 29m"),
    scenario("a slice drains once its replacement at home is READY")
    .cluster(return_home=HOME)
    .group("home", priority=10, price=2)
    .group("away", priority=20, price=5)
    .slice("s", "away", READY, usage="busy", home="home")
    .slice("new", "home", READY, usage="idle", idle="1s", replaces="s")
    .expects(launches={}, drains={"s": "return home"}),
    scenario("one slice returns at a time")
    .cluster(return_home=HOME, max_unavailable=5)
    .group("home", priority=10, price=2)
    .group("away", priority=20, price=5, max_unavailable=5)
    .slice("s", "away", READY, usage="busy", home="home", count=3)
    .expects(launches={"home": 1}, replaced=["s/0"]),
    scenario("a gang's slices return as one")
    .cluster(return_home=HOME)
    .group("home", priority=10, price=2)
    .group("away", priority=20, price=5)
    .slice("s", "away", READY, usage=GANG, home="home", count=2)
    .expects(launches={"home": 2}, replaced=["s/0", "s/1"]),
    scenario("a gang's slices drain together, once all their replacements are READY")
    .cluster(return_home=HOME)
    .group("home", priority=10, price=2)
    .group("away", priority=20, price=5)
    .slice("s", "away", READY, usage=GANG, home="home", count=2)
    .slice("n0", "home", READY, usage="idle", idle="1s", replaces="s/0")
    .slice("n1", "home", SliceState.BOOTING, replaces="s/1")
    .expects(launches={}, drains={}),
    scenario("a gang with a slice that is not away from home stays where it is")
    .cluster(return_home=HOME)
    .group("home", priority=10, price=2)
    .group("away", priority=20, price=5)
    .slice("s", "away", READY, usage=GANG, home="home")
    .slice("t", "away", READY, usage=GANG)
    .expects(launches={}, drains={}),
    scenario("nothing returns where a price is unknown")
    .cluster(return_home=HOME)
    .group("home", priority=10)
    .group("away", priority=20, price=5)
    .slice("s", "away", READY, usage="busy", home="home")
    .expects(launches={}, drains={}),
    scenario("nothing returns unless the configuration says so")
    .group("home", priority=10, price=2)
    .group("away", priority=20, price=5)
    .slice("s", "away", READY, usage="busy", home="home")
    .expects(launches={}, drains={}),
    scenario("nothing returns to a group that cannot add a slice")
    .cluster(return_home=HOME)
    .group("home", priority=10, price=2)
    .group("away", priority=20, price=5)
    .health("home", Availability.BACKOFF, until="10m")
    .slice("s", "away", READY, usage="busy", home="home")
    .expects(launches={}, drains={}),
    scenario("a gang whose replacements can no longer all be ordered stays, and those that came are like other slices")
    .cluster(return_home=HOME)
    .group("home", priority=10, price=2, cancel_after="0s")
    .group("away", priority=20, price=5)
    .health("home", Availability.BACKOFF, until="10m")
    .slice("s", "away", READY, usage=GANG, home="home", count=2)
    .slice("n0", "home", SliceState.BOOTING, replaces="s/0")
    .expects(launches={}, drains={"n0": "not needed"}),
)

FULL = HostUsage(tasks=("a",), reserved=Resources(cpu=3))
LIGHT = HostUsage(tasks=("b",), reserved=Resources(cpu=1))
CONSOLIDATED = (
    scenario("a busy slice is emptied if what runs on it fits on another, and that saves money")
    .cluster(consolidation={})
    .group("g", price=2)
    .slice("full", "g", READY, usage=FULL)
    .slice("light", "g", READY, usage=LIGHT)
    .expects(launches={}, drains={"light": "consolidation"}),
    scenario("nothing is consolidated unless the configuration says so")
    .group("g", price=2)
    .slice("full", "g", READY, usage=FULL)
    .slice("light", "g", READY, usage=LIGHT)
    .expects(launches={}, drains={}),
    scenario("consolidation comes last in the budget")
    .cluster(consolidation={})
    .group("g", price=2)
    .slice("full", "g", READY, usage=FULL)
    .slice("light", "g", READY, usage=LIGHT)
    .slice("old", "g", READY, usage="idle", idle="1s", made="before")
    .expects(launches={}, drains={"old": "drift"}),
    scenario("consolidation waits for the window")
    .cluster(consolidation={}, window=NOW_CLOSED)
    .group("g", price=2)
    .slice("full", "g", READY, usage=FULL)
    .slice("light", "g", READY, usage=LIGHT)
    .expects(launches={}, drains={}, changes_in="14h"),
    scenario("a slice that demand is placed on is not emptied")
    .cluster(consolidation={})
    .group("g", price=2)
    .slice("full", "g", READY, usage=FULL)
    .slice("light", "g", READY, usage=LIGHT)
    .wants(1, cpu=2)
    .expects(placed={"g": 1}, launches={}, drains={}),
    scenario("a slice that drains for consolidation is taken back for demand that fits beside its work, before one is launched")
    .cluster(consolidation={})
    .group("g", price=2)
    .slice("full", "g", READY, usage=HostUsage(tasks=("a",), reserved=Resources(cpu=2)))
    .slice("light", "g", SliceState.DRAINING, drain="consolidation", usage=LIGHT)
    .wants(1, cpu=3)
    .expects(placed={"g": 1}, tiers={"g": {Tier.READY: 1}}, launches={}, drains={}, cancelled=["light"]),
    scenario("a slice that drains for consolidation goes on if demand does not fit beside its work")
    .cluster(consolidation={})
    .group("g", price=2)
    .slice("full", "g", READY, usage=HostUsage(tasks=("a",), reserved=Resources(cpu=2)))
    .slice("light", "g", SliceState.DRAINING, drain="consolidation", usage=LIGHT)
    .wants(1, cpu=4)
    .expects(placed={"g": 1}, launches={"g": 1}, drains={}, cancelled=[]),
    scenario("a slice that drains for consolidation serves again if its work fits nowhere any more")
    .cluster(consolidation={})
    .group("g", price=2)
    .slice("full", "g", READY, usage=FULL)
    .slice("light", "g", SliceState.DRAINING, drain="consolidation", usage=LIGHT)
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, launches={}, drains={}, cancelled=["light"]),
)

RULES = (*RETURNS, *CONSOLIDATED)
