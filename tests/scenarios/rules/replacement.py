"""Rules of replacement: drift, age, degraded hosts, notices, the disruption budget, windows, returning home, consolidation."""

from penstock.model.decision import Cause, KeptCode, Tier
from penstock.model.resources import Resources
from penstock.model.slices import Availability, HostState, HostUsage, SliceState
from tests.scenarios.builder import scenario

READY = SliceState.READY
DEGRADED = HostUsage(state=HostState.DEGRADED)
GANG = HostUsage(state=HostState.BUSY, gangs=("pretrain",))
NOW_OPEN, NOW_CLOSED = {"hours": "11:00-13:00"}, {"hours": "02:00-04:00"}
"""It is noon in these scenarios."""

DRIFT = (
    scenario("an idle slice that drifted drains at once, without waiting for the idle timeout, and takes no demand")
    .group("g")
    .slice("old", "g", READY, usage="idle", idle="1s", made="before")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {Tier.NEW: 1}}, launches={"g": 1}, drains={"old": "drift"}),
    scenario("a busy slice that drifted gets a replacement, and stays until that is READY")
    .group("g")
    .slice("old", "g", READY, usage="busy", made="before")
    .expects(
        launches={"g": 1}, causes={Cause.REPLACEMENT: 1}, replaced=["old"], drains={}, withheld={"old": KeptCode.REPLACEMENT}
    ),
    scenario("a replacement on its way takes no demand, which gets a slice of its own")
    .group("g")
    .slice("old", "g", READY, usage="busy", made="before")
    .slice("new", "g", SliceState.BOOTING, replaces="old", made="now")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {Tier.NEW: 1}}, launches={"g": 1}, replaced=[], drains={}),
    scenario("a busy slice drains once its replacement is READY, which takes demand from then on")
    .group("g")
    .slice("old", "g", READY, usage="busy", made="before")
    .slice("new", "g", READY, usage="idle", idle="1s", replaces="old", made="now")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {Tier.READY: 1}}, launches={}, drains={"old": "drift"}),
    scenario("a replacement waits for the work of the slice that drains, however long it is idle")
    .group("g", idle_timeout="10m")
    .slice("old", "g", SliceState.DRAINING, drain="drift", usage="busy", made="before")
    .slice("new", "g", READY, usage="idle", idle="1h", replaces="old", made="now")
    .expects(launches={}, drains={}, required={"g": 1}),
    scenario("a replacement whose slice is gone is like any other: idle, it drains")
    .group("g", idle_timeout="10m")
    .slice("new", "g", READY, usage="idle", idle="1h", replaces="old", made="now")
    .expects(launches={}, drains={"new": "idle"}),
    scenario("a replacement is no longer needed once its slice is as its group makes slices again")
    .group("g", cancel_after="0s")
    .slice("old", "g", READY, usage="busy", made="now")
    .slice("new", "g", SliceState.BOOTING, replaces="old", made="now")
    .expects(launches={}, drains={"new": "not needed"}),
    scenario("a busy slice that became idle drains without waiting for its replacement, which then counts for the minimum")
    .group("g", min_slices=1)
    .slice("old", "g", READY, usage="idle", idle="1s", made="before")
    .slice("new", "g", SliceState.BOOTING, replaces="old", made="now")
    .expects(launches={}, drains={"old": "drift"}),
    scenario("a slice of which it is not known how it was made is not replaced")
    .group("g")
    .slice("s", "g", READY, usage="busy", made="")
    .expects(launches={}, drains={}),
    scenario("a slice that no report has named counts as busy, so that its replacement comes first")
    .group("g", min_slices=1)
    .slice("old", "g", READY, made="before")
    .expects(launches={"g": 1}, replaced=["old"], drains={}),
    scenario("a busy slice of a group at its maximum waits until it is idle")
    .group("g", max_slices=1)
    .slice("old", "g", READY, usage="busy", made="before")
    .expects(launches={}, drains={}, withheld={"old": KeptCode.NO_REPLACEMENT}),
    scenario("a busy slice of a group that is out of stock waits")
    .group("g")
    .health("g", Availability.BACKOFF, until="10m")
    .slice("old", "g", READY, usage="busy", made="before")
    .expects(launches={}, drains={}, withheld={"old": KeptCode.NO_REPLACEMENT}, changes_in="10m"),
    scenario("demand has the headroom before replacements")
    .group("g", max_slices=2)
    .slice("old", "g", READY, usage="busy", made="before")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, launches={"g": 1}, replaced=[], drains={}, withheld={"old": KeptCode.NO_REPLACEMENT}),
    scenario("replacing neither buys spares for a watermark nor gives any back")
    .group("g", watermark=80)
    .slice("old", "g", READY, usage="busy", made="before")
    .slice("other", "g", READY, usage="idle", idle="1h", made="now")
    .slice("new", "g", SliceState.BOOTING, replaces="old", made="now")
    .expects(launches={}, drains={}, target={"g": 2}),
    scenario("a slice whose drain nobody confirmed is not drained again before it is idle, and gets no second replacement")
    .group("g", idle_timeout="10m")
    .slice("old", "g", READY, usage="busy", unconfirmed="5m", made="before")
    .slice("new", "g", READY, usage="idle", idle="1s", replaces="old", made="now")
    .expects(launches={}, drains={}, withheld={"old": KeptCode.UNCONFIRMED}),
    scenario("a slice whose drain nobody confirmed drains once newer news say that it is idle")
    .group("g")
    .slice("old", "g", READY, usage="idle", idle="1m", unconfirmed="5m", made="before")
    .expects(launches={}, drains={"old": "drift"}),
    scenario("a slice whose drain nobody confirmed is not drained again on a word from before that drain")
    .group("g")
    .slice("old", "g", READY, usage="idle", unconfirmed="5m", made="before")
    .expects(launches={}, drains={}, withheld={"old": KeptCode.UNCONFIRMED}),
    scenario("a slice whose replacement leaves in the same decision stays, and gets another one")
    .cluster(max_unavailable=3)
    .group("g", max_unavailable=3)
    .slice("old", "g", READY, usage="busy", made="before")
    .slice("new", "g", READY, usage="idle", idle="1s", replaces="old", made="now", notice="preemption 30s")
    .expects(launches={"g": 1}, replaced=["old"], drains={"new": "notice"}, withheld={"old": KeptCode.REPLACEMENT}),
    scenario("a replacement that drifted itself is left alone until the work of the slice that it replaces is there")
    .cluster(max_unavailable=3)
    .group("g", max_unavailable=3)
    .slice("old", "g", SliceState.DRAINING, drain="drift", usage="busy", made="before")
    .slice("new", "g", READY, usage="idle", idle="1s", replaces="old", made="since")
    .expects(launches={}, drains={}, withheld={"new": KeptCode.REPLACES}),
    scenario("a slice drains onto a replacement that drifted meanwhile, which goes next")
    .cluster(max_unavailable=3)
    .group("g", max_unavailable=3)
    .slice("old", "g", READY, usage="busy", made="before")
    .slice("new", "g", READY, usage="idle", idle="1s", replaces="old", made="since")
    .expects(launches={}, drains={"old": "drift"}, withheld={"new": KeptCode.REPLACES}),
    scenario("a group that has more slices than reports of pressure want replaces none: it gives slices back first")
    .group("g", drive="pressure", slots=2, max_age="7d")
    .slice("old", "g", READY, made_ago="8d")
    .reports("g", queued=0, running=0, capacity=2, slices=1, desired=0)
    .expects(launches={}, drains={"old": "pressure"}, withheld={}),
    scenario("a slice that an operator keeps is not replaced")
    .group("g")
    .slice("old", "g", READY, usage="idle", idle="1s", kept="2h", made="before")
    .expects(launches={}, drains={}, changes_in="2h"),
    scenario("with scale_down observe the drain of an idle slice is shown, and no replacement is ordered for a busy one")
    .cluster(scale_down="observe", max_unavailable=2)
    .group("g", max_unavailable=2)
    .slice("idle", "g", READY, usage="idle", idle="1s", made="before")
    .slice("busy", "g", READY, usage="busy", made="before")
    .expects(launches={}, drains={"idle": "drift"}, withheld={"busy": KeptCode.OBSERVE}),
)

AGE = (
    scenario("a slice that is too old is replaced like one that drifted")
    .group("g", max_age="7d")
    .slice("old", "g", READY, usage="busy", made_ago="8d")
    .expects(launches={"g": 1}, replaced=["old"], drains={}),
    scenario("an idle slice that is too old drains, and the decision names the moment at which the next one will be")
    .group("g", max_age="7d", idle_timeout="1d")
    .slice("old", "g", READY, usage="idle", idle="1h", made_ago="8d")
    .slice("young", "g", READY, usage="idle", idle="1h", made_ago="6d 12h")
    .expects(launches={}, drains={"old": "expiry"}, changes_in="12h"),
    scenario("a slice with a degraded host gets time to recover")
    .group("g", degraded_after="30m")
    .slice("s", "g", READY, usage=DEGRADED, degraded="10m")
    .expects(launches={}, drains={}, changes_in="20m"),
    scenario("a slice with a degraded host is replaced after that time")
    .group("g", degraded_after="30m")
    .slice("s", "g", READY, usage=DEGRADED, degraded="31m")
    .expects(launches={"g": 1}, replaced=["s"], drains={}),
)

NOTICES = (
    scenario("a slice for which the cloud gives notice drains at once, with work on it, and its replacement is ordered")
    .group("g")
    .slice("s", "g", READY, usage="busy", notice="maintenance 10m")
    .expects(launches={"g": 1}, replaced=["s"], drains={"s": "notice"}),
    scenario("what the minimum opens for a busy slice that a notice takes is its replacement")
    .group("g", min_slices=2)
    .slice("s", "g", READY, usage="busy", notice="maintenance 10m")
    .slice("other", "g", READY, usage="busy")
    .expects(launches={"g": 1}, causes={Cause.REPLACEMENT: 1}, replaced=["s"], drains={"s": "notice"}),
    scenario("what a standing request lacks once a notice takes a busy slice is its replacement")
    .group("g")
    .standing("team", 1, cpu=1)
    .slice("s", "g", READY, usage="busy", notice="maintenance 10m")
    .expects(launches={"g": 1}, causes={Cause.REPLACEMENT: 1}, replaced=["s"], drains={"s": "notice"}, standing={"team": "met"}),
    scenario("demand on what the minimum opens leaves the work of a slice that a notice takes without a slice: it gets another")
    .group("g", min_slices=1)
    .slice("s", "g", READY, usage="busy", notice="maintenance 10m")
    .wants(1, cpu=4)
    .expects(
        placed={"g": 1},
        launches={"g": 2},
        causes={Cause.MINIMUM: 1, Cause.REPLACEMENT: 1},
        replaced=["s"],
        drains={"s": "notice"},
    ),
    scenario("a warm slice is kept beside the replacement of a slice that a notice takes")
    .group("g", min_slices=1, warm_slices=1)
    .slice("s", "g", READY, usage="busy", notice="maintenance 10m")
    .expects(launches={"g": 2}, causes={Cause.MINIMUM: 1, Cause.REPLACEMENT: 1}, replaced=["s"], drains={"s": "notice"}),
    scenario("an idle slice for which the cloud gives notice drains without a replacement")
    .group("g")
    .slice("s", "g", READY, usage="idle", idle="1s", notice="preemption 30s")
    .expects(launches={}, drains={"s": "notice"}),
    scenario("a notice waits neither for the budget nor for the window nor for an operator")
    .cluster(max_unavailable=0, window=NOW_CLOSED)
    .group("g")
    .slice("s", "g", READY, usage="idle", idle="1s", kept="2h", notice="preemption 30s")
    .expects(launches={}, drains={"s": "notice"}),
    scenario("a slice that drains for a notice counts in the budget")
    .group("g")
    .slice("s", "g", READY, usage="idle", idle="1s", notice="preemption 30s")
    .slice("old", "g", READY, usage="idle", idle="1s", made="before")
    .expects(launches={}, drains={"s": "notice"}, withheld={"old": KeptCode.BUDGET}),
    scenario("a slice that drains because it is idle drains for the notice from then on, and is not taken back")
    .group("g", min_slices=1)
    .slice("s", "g", SliceState.DRAINING, drain="idle", usage="idle", notice="preemption 30s")
    .expects(launches={"g": 1}, drains={"s": "notice"}, cancelled=[]),
    scenario("a slice on its way for which the cloud gives notice is given up, and demand gets another one")
    .group("g")
    .slice("s", "g", SliceState.BOOTING, notice="preemption 30s")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, launches={"g": 1}, drains={"s": "notice"}),
    scenario("a slice serves again if the cloud takes its notice back before it is gone")
    .group("g")
    .slice("s", "g", SliceState.DRAINING, drain="notice", usage="busy")
    .expects(launches={}, drains={}, cancelled=["s"]),
    scenario("a slice of a removed group drains for a notice")
    .group("g")
    .retired("old")
    .slice("s", "old", READY, usage="busy", notice="reservation_end 1h")
    .expects(launches={}, drains={"s": "notice"}),
)

BUDGET = (
    scenario("one slice is replaced at a time, the oldest first")
    .group("g")
    .slice("a", "g", READY, usage="busy", made="before")
    .slice("b", "g", READY, usage="busy", made="before")
    .expects(launches={"g": 1}, replaced=["a"], withheld={"a": KeptCode.REPLACEMENT, "b": KeptCode.BUDGET}),
    scenario("a replacement that is under way counts in the budget, and so does the drain that follows it")
    .group("g")
    .slice("a", "g", SliceState.DRAINING, drain="drift", usage="busy", made="before")
    .slice("new", "g", READY, usage="busy", replaces="a", made="now")
    .slice("b", "g", READY, usage="busy", made="before")
    .expects(launches={}, drains={}, withheld={"b": KeptCode.BUDGET}),
    scenario("drains of idle slices are exempt from the budget")
    .group("g", idle_timeout="10m")
    .slice("a", "g", SliceState.DRAINING, drain="idle", usage="idle")
    .slice("b", "g", READY, usage="idle", idle="1h", made="now")
    .slice("c", "g", READY, usage="idle", idle="1s", made="before")
    .expects(launches={}, drains={"c": "drift", "b": "idle"}),
    scenario("a slice that was lost to the cloud counts in the budget until it is gone")
    .group("g")
    .slice("lost", "g", SliceState.DELETING, joined=True)
    .slice("old", "g", READY, usage="idle", idle="1s", made="before")
    .expects(launches={}, drains={}, withheld={"old": KeptCode.BUDGET}),
    scenario("the cluster's budget counts first, then the group's")
    .cluster(max_unavailable=2)
    .group("g", max_unavailable=3)
    .group("h", priority=200, max_unavailable=3)
    .slice("g1", "g", READY, usage="idle", idle="1s", made="before")
    .slice("g2", "g", READY, usage="idle", idle="1s", made="before")
    .slice("h1", "h", READY, usage="idle", idle="1s", made="before")
    .expects(drains={"g1": "drift", "g2": "drift"}, withheld={"h1": KeptCode.BUDGET}),
    scenario("a slice whose replacement is READY waits while another drains, if the budget is no larger: it was lowered since")
    .group("g")
    .slice("leaving", "g", SliceState.DRAINING, drain="drift", usage="busy", made="before")
    .slice("old", "g", READY, usage="busy", made="before")
    .slice("new", "g", READY, usage="idle", idle="1s", replaces="old", made="now")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {Tier.NEW: 1}}, launches={"g": 1}, drains={}, withheld={"old": KeptCode.BUDGET}),
    scenario("of two slices whose replacements a slow cloud made READY together, one drains at a time")
    .group("g")
    .slice("first", "g", READY, usage="busy", made="before")
    .slice("second", "g", READY, usage="idle", idle="1s", made="before")
    .slice("new-1", "g", READY, usage="idle", idle="1s", replaces="first", made="now")
    .slice("new-2", "g", READY, usage="idle", idle="1s", replaces="second", made="now")
    .expects(launches={}, drains={"first": "drift"}, withheld={"second": KeptCode.BUDGET}),
    scenario("once no slice may be disrupted any more, none drains, and a replacement that is there is like any other slice")
    .cluster(max_unavailable=0)
    .group("g", idle_timeout="10m")
    .slice("old", "g", READY, usage="busy", made="before")
    .slice("new", "g", READY, usage="idle", idle="1h", replaces="old", made="now")
    .expects(launches={}, drains={"new": "idle"}, withheld={"old": KeptCode.BUDGET}),
    scenario("a group whose budget is spent holds up no other group")
    .cluster(max_unavailable=5)
    .group("g", max_unavailable=0)
    .group("h", priority=200)
    .slice("g1", "g", READY, usage="idle", idle="1s", made="before")
    .slice("h1", "h", READY, usage="idle", idle="1s", made="before")
    .expects(drains={"h1": "drift"}, withheld={"g1": KeptCode.BUDGET}),
    scenario("a percentage of slices that are READY or drain is rounded up")
    .cluster(max_unavailable="100%")
    .group("g", max_unavailable="25%")
    .slice("s", "g", READY, usage="idle", idle="1s", count=5, made="before")
    .expects(drains={"s/0": "drift", "s/1": "drift"}),
    scenario("degraded slices go before those that are too old, and these before those that drifted")
    .cluster(max_unavailable=2)
    .group("g", max_unavailable=2, max_age="7d")
    .slice("drifted", "g", READY, usage="busy", made="before")
    .slice("expired", "g", READY, usage="busy", made_ago="8d")
    .slice("degraded", "g", READY, usage=DEGRADED, degraded="1h")
    .expects(launches={"g": 2}, replaced=["degraded", "expired"]),
    scenario("a group that can order no replacement holds up no other group")
    .group("full", max_slices=1)
    .group("g", priority=200)
    .slice("a", "full", READY, usage="busy", made="before")
    .slice("b", "g", READY, usage="busy", made="before")
    .expects(launches={"g": 1}, replaced=["b"], withheld={"a": KeptCode.NO_REPLACEMENT, "b": KeptCode.REPLACEMENT}),
    scenario("outside the window nothing is replaced, and the decision names when it opens")
    .cluster(window=NOW_CLOSED)
    .group("g")
    .slice("old", "g", READY, usage="busy", made="before")
    .expects(launches={}, drains={}, withheld={"old": KeptCode.WINDOW}, changes_in="14h"),
    scenario("a group's window counts beside the cluster's")
    .cluster(window=NOW_OPEN)
    .group("g", window=NOW_CLOSED)
    .slice("old", "g", READY, usage="idle", idle="1s", made="before")
    .expects(launches={}, drains={}, withheld={"old": KeptCode.WINDOW}),
    scenario("a slice whose replacement is READY waits for the window, and the replacement with it")
    .cluster(window=NOW_CLOSED)
    .group("g", idle_timeout="10m")
    .slice("old", "g", READY, usage="busy", made="before")
    .slice("new", "g", READY, usage="idle", idle="1h", replaces="old", made="now")
    .expects(launches={}, drains={}, withheld={"old": KeptCode.WINDOW}),
    scenario("the head of a group is replaced last")
    .group("g", protect_first=True)
    .slice("head", "g", READY, usage="idle", idle="1s", made="before")
    .slice("b", "g", READY, usage="busy", made="before")
    .expects(launches={"g": 1}, replaced=["b"], withheld={"head": KeptCode.HEAD, "b": KeptCode.REPLACEMENT}),
    scenario("the head of a group drains once its replacement is READY, even if it is idle")
    .group("g", protect_first=True, min_slices=1)
    .slice("head", "g", READY, usage="idle", idle="1h", made="before")
    .expects(launches={"g": 1}, replaced=["head"], drains={}, withheld={"head": KeptCode.REPLACEMENT}),
    scenario("the idle head of a group that needs no slice is not replaced, and goes by its idle timeout")
    .group("g", protect_first=True, idle_timeout="10m")
    .slice("head", "g", READY, usage="idle", idle="5m", made="before")
    .expects(launches={}, drains={}, withheld={}),
)

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

RULES = (*DRIFT, *AGE, *NOTICES, *BUDGET, *RETURNS, *CONSOLIDATED)
