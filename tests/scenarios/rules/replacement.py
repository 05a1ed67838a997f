"""Rules of replacement: drift, age, degraded hosts, notices of the cloud."""

from penstock.model.decision import Cause, KeptCode, Tier
from penstock.model.slices import Availability, HostState, HostUsage, SliceState
from tests.scenarios.builder import scenario

READY = SliceState.READY
DEGRADED = HostUsage(state=HostState.DEGRADED)
NOW_CLOSED = {"hours": "02:00-04:00"}
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

RULES = (*DRIFT, *AGE, *NOTICES)
