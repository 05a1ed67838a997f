"""Rules of silence: slices that nobody names, sources that are gone, controllers that restarted."""

from penstock.model.decision import Cause, Code, Tier
from penstock.model.slices import SliceState
from tests.scenarios.builder import scenario, unmet

READY, IN_FLIGHT, NEW = Tier.READY, Tier.IN_FLIGHT, Tier.NEW


KNOWN_ROOM = (
    scenario("room that a report has shown is filled before a never-reported slice of a group that is preferred")
    .group("first", priority=10, unreported=1)
    .group("second", priority=20, idle=1)
    .wants(1, cpu=1)
    .expects(placed={"second": 1}, tiers={"second": {READY: 1}}),
    scenario("a gang takes reported slices of one group before never-reported ones of another")
    .group("first", priority=10, unreported=2)
    .group("second", priority=20, idle=2)
    .wants(1, cpu=4, gang=2)
    .expects(placed={"second": 1}, tiers={"second": {READY: 1}}),
    scenario("a gang that no group can take on reported slices takes never-reported ones with them")
    .group("g", idle=1, unreported=1)
    .wants(1, cpu=4, gang=2)
    .expects(placed={"g": 1}, tiers={"g": {READY: 1}}),
    scenario("packing too fills reported slices of all groups first")
    .cluster(placement="packing")
    .group("first", priority=10, unreported=1)
    .group("second", priority=20, idle=1)
    .wants(1, cpu=1)
    .expects(placed={"second": 1}, tiers={"second": {READY: 1}}),
    scenario("a never-reported slice takes demand before anything is bought")
    .group("first", priority=10)
    .group("second", priority=20, unreported=1)
    .wants(1, cpu=1)
    .expects(placed={"second": 1}, tiers={"second": {READY: 1}}, launches={}),
)

UNCLAIMED = (
    scenario("a slice that did not join has no room, so demand gets another one")
    .group("g", max_slices=2)
    .slice("s", "g", SliceState.READY, age="10m", unclaimed="5m")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {NEW: 1}}, launches={"g": 1}),
    scenario("a slice that did not join counts against the maximum")
    .group("g", max_slices=1)
    .slice("s", "g", SliceState.READY, age="10m", unclaimed="5m")
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["g=at_max"])]),
    scenario("a slice that did not join is neither a spare nor part of the minimum")
    .group("g", min_slices=1, warm_slices=1)
    .slice("s", "g", SliceState.READY, age="10m", unclaimed="5m")
    .expects(launches={"g": 1}, causes={Cause.MINIMUM: 1}, drains=[]),
    scenario("a slice that did not join is no standing capacity")
    .group("g")
    .slice("s", "g", SliceState.READY, age="10m", unclaimed="5m")
    .standing("team", 1, cpu=4)
    .expects(launches={"g": 1}, standing={"team": "met"}),
    scenario("a slice that a source names after all has room again")
    .group("g")
    .slice("s", "g", SliceState.READY, age="10m", unclaimed="5m", usage="idle")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {READY: 1}}, launches={}),
    scenario("by default nothing drains a slice that did not join")
    .group("g")
    .slice("s", "g", SliceState.READY, age="30d", unclaimed="29d")
    .expects(drains=[], changes_in="never"),
    scenario("before unclaimed_after a slice that did not join is kept, and the decision names the moment")
    .cluster(unclaimed_after="15m")
    .group("g")
    .slice("s", "g", SliceState.READY, age="20m", unclaimed="14m")
    .expects(drains=[], changes_in="1m"),
    scenario("after unclaimed_after a slice that did not join drains")
    .cluster(unclaimed_after="15m")
    .group("g")
    .slice("s", "g", SliceState.READY, age="20m", unclaimed="15m")
    .expects(drains=["s"], changes_in="never"),
)

LEASES = (
    scenario("before its lease lapses a source buys, and the decision names the moment")
    .group("g")
    .source("a", lease_ends="5m")
    .wants(1, cpu=1, source="a")
    .expects(placed={"g": 1}, launches={"g": 1}, changes_in="5m"),
    scenario("once its lease has lapsed the demand of a source buys nothing new")
    .group("g")
    .source("a", lease_ends="-5m")
    .wants(1, cpu=1, source="a")
    .expects(
        unmet=[
            unmet(
                Code.NO_CAPACITY,
                says=["no existing slice has room for it", "the lease of source a lapsed at 2026-08-24 11:55:00Z"],
                groups={},
            )
        ],
        launches={},
        changes_in="never",
    ),
    scenario("demand of a lapsed lease that no group could ever take says that instead")
    .group("g")
    .source("a", lease_ends="-5m")
    .wants(1, cpu=100, source="a")
    .expects(unmet=[unmet(Code.INSUFFICIENT_RESOURCES, says=["needs cpu 100"], never_says=["lease"])]),
    scenario("demand of a lapsed lease stays on READY slices, and does not keep them")
    .group("g", idle=1)
    .source("a", lease_ends="-5m")
    .wants(1, cpu=1, source="a")
    .expects(placed={"g": 1}, tiers={"g": {READY: 1}}, required={}, target={"g": 0}, launches={}),
    scenario("demand of a lapsed lease stays on slices in flight")
    .group("g", booting=1)
    .source("a", lease_ends="-5m")
    .wants(2, cpu=4, source="a")
    .expects(placed={"g": 1}, tiers={"g": {IN_FLIGHT: 1}}, unmet=[unmet(Code.NO_CAPACITY, says=["lease"])], launches={}),
    scenario("demand of a lapsed lease takes no room from others, whatever the order, so they buy nothing because of it")
    .group("g", idle=1)
    .source("a", lease_ends="-5m")
    .wants(1, cpu=4, source="a", id="gone")
    .wants(1, cpu=4, source="b", id="here")
    .expects(placed={"g": 1}, tiers={"g": {READY: 1}}, unmet=[unmet(Code.NO_CAPACITY, tasks="gone", says=["lease"])]),
    scenario("a spare that demand of a lapsed lease is placed on is not replaced")
    .group("g", warm_slices=1, idle=1)
    .source("a", lease_ends="-5m")
    .wants(1, cpu=1, source="a")
    .expects(placed={"g": 1}, tiers={"g": {READY: 1}}, launches={}),
    scenario("demand of a lapsed lease may wait for a spare that is opened anyway")
    .group("g", warm_slices=1)
    .source("a", lease_ends="-5m")
    .wants(1, cpu=1, source="a")
    .expects(placed={"g": 1}, tiers={"g": {IN_FLIGHT: 1}}, launches={"g": 1}, causes={Cause.WARM: 1}),
    scenario("demand of a lapsed lease shares what others buy")
    .cluster(placement="cost")
    .group("g", price=1)
    .source("a", lease_ends="-5m")
    .wants(1, cpu=2, source="a")
    .wants(1, cpu=2, source="b")
    .expects(placed={"g": 2}, tiers={"g": {NEW: 1, IN_FLIGHT: 1}}, launches={"g": 1}),
)

RESTARTS = (
    scenario("a restarted controller buys nothing before its first usage, and the decision names the end of its time")
    .group("g")
    .source("a", usage_due="90s")
    .wants(1, cpu=1, source="a")
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["source a began a new epoch"])], launches={}, changes_in="90s"),
    scenario("a restarted controller that never reports usage buys again after its time")
    .group("g")
    .source("a", usage_due="-1s")
    .wants(1, cpu=1, source="a")
    .expects(placed={"g": 1}, launches={"g": 1}),
    scenario("demand of a restarted controller keeps the slices that hold it, and its spare is not replaced")
    .group("g", warm_slices=1, idle=1)
    .source("a", usage_due="90s")
    .wants(1, cpu=1, source="a")
    .expects(placed={"g": 1}, tiers={"g": {READY: 1}}, required={"g": 1}, target={"g": 1}, launches={}),
)

RULES = (*KNOWN_ROOM, *UNCLAIMED, *LEASES, *RESTARTS)
