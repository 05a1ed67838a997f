"""Rules of the disruption budget: how many slices may be replaced at a time, in which order, and inside which window."""

from penstock.model.decision import KeptCode, Tier
from penstock.model.slices import HostState, HostUsage, SliceState
from tests.scenarios.builder import scenario

READY = SliceState.READY
DEGRADED = HostUsage(state=HostState.DEGRADED)
NOW_OPEN, NOW_CLOSED = {"hours": "11:00-13:00"}, {"hours": "02:00-04:00"}
"""It is noon in these scenarios."""

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

RULES = BUDGET
