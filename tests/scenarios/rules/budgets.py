"""Rules of launching: pools, health of groups, launch limits, standing requests."""

from penstock.model.cluster import Limits
from penstock.model.constraints import Operator as Op
from penstock.model.decision import Cause, Code, Outcome, Pressure, Tier
from penstock.model.slices import Availability
from tests.scenarios.builder import deferred, must, scenario, unmet
from tests.scenarios.cases import ExpectedPool

READY, IN_FLIGHT, NEW = Tier.READY, Tier.IN_FLIGHT, Tier.NEW


POOLS = (
    scenario("groups that share a pool cannot together exceed it")
    .pool("res", 16)
    .group("pairs", priority=1, tpu=4, hosts=2, pool="res")
    .group("singles", priority=2, tpu=4, pool="res", busy=2)
    .wants(1, tpu=4, gang=2, id="pair")
    .wants(1, tpu=4, id="single")
    .expects(
        placed={"pairs": 1},
        launches={"pairs": 1},
        unmet=[unmet(Code.NO_CAPACITY, tasks="single", says=["pairs=pool_exhausted", "singles=pool_exhausted"])],
        pools={"res": ExpectedPool(charged=8, launching=8, pressure=Pressure(capacity=8, accounted_for=8))},
    ),
    scenario("system chips of a pool are not available to groups")
    .pool("res", 16, system=8)
    .group("g", tpu=4, pool="res")
    .wants(3, tpu=4)
    .expects(placed={"g": 2}, launches={"g": 2}, unmet=[unmet(Code.NO_CAPACITY, says=["g=pool_exhausted"])]),
    scenario("raising system above the free chips evicts nothing and grants nothing")
    .pool("res", 16, system=12)
    .group("g", tpu=4, pool="res", busy=2, idle=1)
    .wants(2, tpu=4)
    .expects(
        placed={"g": 1},
        tiers={"g": {READY: 1}},
        unmet=[unmet(Code.NO_CAPACITY, says=["g=pool_exhausted"])],
        drains=[],
        availability={"g": Availability.POOL_EXHAUSTED},
    ),
    scenario("chips too few for a large slice leave headroom only for a smaller one")
    .pool("res", 12)
    .group("large", priority=1, tpu=4, hosts=4, pool="res")
    .group("small", priority=2, tpu=4, pool="res")
    .wants(1, tpu=4)
    .expects(placed={"small": 1}, launches={"small": 1}),
    scenario("slices queued at the provider are charged to their pool, and accounted for")
    .pool("res", 8)
    .group("g", tpu=4, pool="res", queued=2)
    .wants(1, tpu=4)
    .expects(
        unmet=[unmet(Code.NO_CAPACITY, says=["g=pool_exhausted"])],
        pools={"res": ExpectedPool(charged=8, pressure=Pressure(capacity=4, accounted_for=8))},
    ),
    scenario("GPUs are charged to a pool by number")
    .pool("res", 16)
    .group("g", gpu=8, pool="res", busy=1)
    .wants(2, gpu=8)
    .expects(placed={"g": 1}, launches={"g": 1}, unmet=[unmet(Code.NO_CAPACITY, says=["g=pool_exhausted"])]),
    scenario("warm slices stop at the limit of the pool")
    .pool("res", 8)
    .group("g", tpu=4, pool="res", warm_slices=3)
    .expects(launches={"g": 2}),
    scenario("deferred slices are not charged to the pool")
    .pool("res", 16)
    .group("g", tpu=4, pool="res", limits=Limits(in_flight=1))
    .wants(3, tpu=4)
    .expects(
        placed={"g": 3},
        launches={"g": 1},
        deferred=[deferred("g", 2, "in_flight")],
        pools={"res": ExpectedPool(charged=0, launching=4, pressure=Pressure(accounted_for=4))},
    ),
)


HEALTH = (
    scenario("a blocked group is skipped, and the decision gives the end of the block")
    .group("first", priority=1)
    .group("second", priority=2)
    .health("first", Availability.BACKOFF, until="5m")
    .wants(1, cpu=1)
    .expects(placed={"second": 1}, launches={"second": 1}, outcomes={"first": Outcome.BLOCKED}, changes_in="5m"),
    scenario("a block ends at its end time")
    .group("first", priority=1)
    .group("second", priority=2)
    .health("first", Availability.BACKOFF, until="0s")
    .wants(1, cpu=1)
    .expects(placed={"first": 1}, launches={"first": 1}, changes_in="10m", availability={"first": Availability.AVAILABLE}),
    scenario("a block without an end time lasts until it is cleared")
    .group("g")
    .health("g", Availability.DISABLED)
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["g=disabled"])], changes_in="never"),
    scenario("the message of unmet demand gives the end of the block")
    .group("g")
    .health("g", Availability.RATE_LIMITED, until="5m")
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["g=rate_limited", "12:05:00Z"])], why={"g": "12:05:00Z"}),
    scenario("a quota failure at a tier blocks the tiers above it, and the message names the group that failed")
    .group("low", quota_pool="spot", quota_tier=1, tpu=4, variant="v4-8")
    .group("high", quota_pool="spot", quota_tier=2, tpu=4, variant="v5p-8")
    .health("low", Availability.QUOTA_EXCEEDED, until="10m")
    .wants(1, tpu=4, variants=["v5p-8"])
    .expects(
        unmet=[
            unmet(
                Code.TIER_BLOCKED,
                says=["blocked tier", "high", "low exceeded quota pool spot at quota tier 1", "12:10:00Z"],
                groups={"high": Code.TIER_BLOCKED},
            )
        ],
        changes_in="10m",
    ),
    scenario("a blocked tier ends with the last of the blocks at or below it")
    .group("zero", quota_pool="spot", quota_tier=0, gpu=1)
    .group("one", quota_pool="spot", quota_tier=1, gpu=1)
    .group("peer", quota_pool="spot", quota_tier=1)
    .health("zero", Availability.QUOTA_EXCEEDED, until="5m")
    .health("one", Availability.QUOTA_EXCEEDED, until="20m")
    .wants(1, cpu=1, constraints=[must("device", Op.EQ, "cpu")])
    .expects(
        unmet=[unmet(Code.TIER_BLOCKED, says=["peer (one exceeded quota pool spot at quota tier 1 until 2026-08-24 12:20:00Z)"])],
        changes_in="5m",
    ),
    scenario("a group whose own block ends before that of its tier is told the end of the tier")
    .group("low", quota_pool="spot", quota_tier=1, gpu=1)
    .group("own", quota_pool="spot", quota_tier=2)
    .health("low", Availability.QUOTA_EXCEEDED, until="20m")
    .health("own", Availability.BACKOFF, until="10m")
    .wants(1, cpu=1, constraints=[must("device", Op.EQ, "cpu")])
    .expects(
        unmet=[unmet(Code.NO_CAPACITY, says=["own=backoff until 2026-08-24 12:20:00Z (low exceeded quota pool spot"])],
        changes_in="10m",
    ),
    scenario("a quota failure at a tier blocks other groups of the same tier")
    .group("failed", quota_pool="spot", quota_tier=1, gpu=1)
    .group("peer", quota_pool="spot", quota_tier=1)
    .health("failed", Availability.QUOTA_EXCEEDED)
    .wants(1, cpu=1, constraints=[must("device", Op.EQ, "cpu")])
    .expects(unmet=[unmet(Code.TIER_BLOCKED, says=["peer"])]),
    scenario("a quota failure at a tier does not block lower tiers or other quota pools")
    .group("lower", priority=1, quota_pool="spot", quota_tier=0, max_slices=1)
    .group("failed", priority=2, quota_pool="spot", quota_tier=1)
    .group("elsewhere", priority=3, quota_pool="other", quota_tier=2, max_slices=1)
    .group("none", priority=4)
    .health("failed", Availability.QUOTA_EXCEEDED)
    .wants(3, cpu=4)
    .expects(placed={"lower": 1, "elsewhere": 1, "none": 1}, launches={"lower": 1, "elsewhere": 1, "none": 1}),
    scenario("if the group that failed is a candidate itself, each group has its own code")
    .group("low", quota_pool="spot", quota_tier=1)
    .group("high", quota_pool="spot", quota_tier=2)
    .health("low", Availability.QUOTA_EXCEEDED)
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["low=quota_exceeded", "high=tier_blocked"])]),
    scenario("only quota blocks tiers; a stockout does not")
    .group("low", quota_pool="spot", quota_tier=1)
    .group("high", quota_pool="spot", quota_tier=2)
    .health("low", Availability.BACKOFF)
    .wants(1, cpu=1)
    .expects(placed={"high": 1}, launches={"high": 1}),
    scenario("tiers are available again when the quota block ends")
    .group("low", quota_pool="spot", quota_tier=1, max_slices=0)
    .group("high", quota_pool="spot", quota_tier=2)
    .health("low", Availability.QUOTA_EXCEEDED, until="-1s")
    .wants(1, cpu=1)
    .expects(placed={"high": 1}, launches={"high": 1}),
)


LIMITS = (
    scenario("a group's in_flight limit defers further slices, and the entries stay placed")
    .group("g", limits=Limits(in_flight=3), booting=1)
    .wants(5, cpu=4)
    .expects(
        placed={"g": 5},
        launches={"g": 2},
        deferred=[deferred("g", 2, "in_flight", says=["group g", "in_flight", "3"])],
        unmet=[],
    ),
    scenario("the cluster's in_flight limit counts slices of every group, and preferred groups launch first")
    .cluster(limits=Limits(in_flight=3))
    .group("first", priority=1, max_slices=1)
    .group("second", priority=2)
    .group("other", gpu=1, booting=1)
    .wants(4, cpu=4, constraints=[must("device", Op.EQ, "cpu")])
    .expects(
        placed={"first": 1, "second": 3},
        launches={"first": 1, "second": 1},
        deferred=[deferred("second", 2, "in_flight", says=["the cluster", "3"])],
    ),
    scenario("creates_per_minute counts slices ordered in the last minute, and the decision gives the time of the next launch")
    .group("g", limits=Limits(creates_per_minute=5))
    .launched("g", 2, ago="40s")
    .launched("g", 9, ago="61s")
    .wants(4, cpu=4)
    .expects(
        placed={"g": 4},
        launches={"g": 3},
        deferred=[deferred("g", 1, "creates_per_minute", says=["group g", "5"])],
        changes_in="20s",
    ),
    scenario("a group's creates_per_minute does not count slices of other groups")
    .group("g", limits=Limits(creates_per_minute=2))
    .group("other", gpu=1)
    .launched("other", 9, ago="10s")
    .wants(2, cpu=4)
    .expects(placed={"g": 2}, launches={"g": 2}),
    scenario("the cluster's creates_per_minute counts slices of all groups")
    .cluster(limits=Limits(creates_per_minute=4))
    .group("g")
    .group("other", gpu=1)
    .launched("other", 3, ago="10s")
    .wants(2, cpu=4)
    .expects(
        placed={"g": 2},
        launches={"g": 1},
        deferred=[deferred("g", 1, "creates_per_minute", says=["the cluster"])],
        changes_in="50s",
    ),
    scenario("growth lets a group of four grow by half: two slices")
    .group("g", limits=Limits(growth=0.5), busy=4)
    .wants(5, cpu=4)
    .expects(placed={"g": 5}, launches={"g": 2}, deferred=[deferred("g", 3, "growth", says=["group g", "0.5"])]),
    scenario("growth is rounded up")
    .group("g", limits=Limits(growth=0.5), busy=5)
    .wants(5, cpu=4)
    .expects(placed={"g": 5}, launches={"g": 3}, deferred=[deferred("g", 2, "growth")]),
    scenario("growth lets an empty group start with one slice, and the next evaluation may launch more")
    .group("g", limits=Limits(growth=0.5))
    .wants(3, cpu=4)
    .expects(placed={"g": 3}, launches={"g": 1}, deferred=[deferred("g", 2, "growth")], changes_in="5s"),
    scenario("the cluster's growth counts READY slices of all groups")
    .cluster(limits=Limits(growth=0.5))
    .group("g")
    .group("other", gpu=1, busy=4)
    .wants(3, cpu=4)
    .expects(placed={"g": 3}, launches={"g": 2}, deferred=[deferred("g", 1, "growth", says=["the cluster"])]),
    scenario("a gang counts as one, so that a limit never splits it")
    .group("g", tpu=4, hosts=4, limits=Limits(in_flight=1))
    .wants(2, tpu=4, gang=16)
    .expects(placed={"g": 2}, launches={"g": 4}, deferred=[deferred("g", 4, "in_flight")]),
    scenario("a spread gang counts as one")
    .cluster(limits=Limits(creates_per_minute=1))
    .group("g")
    .wants(1, cpu=4, gang=3, gang_placement="spread")
    .wants(1, cpu=4)
    .expects(placed={"g": 2}, launches={"g": 3}, deferred=[deferred("g", 1, "creates_per_minute")], changes_in="1m"),
    scenario("a pack gang counts as one")
    .group("g", limits=Limits(growth=1))
    .wants(1, cpu=1, gang=8, gang_placement="pack")
    .expects(placed={"g": 1}, launches={"g": 2}),
    scenario("a limit admits the minimum first, then demand, then warm slices")
    .group("kept", priority=90, min_slices=1)
    .group("g", priority=1, warm_slices=1)
    .cluster(limits=Limits(in_flight=2))
    .wants(2, cpu=4)
    .expects(
        placed={"kept": 1, "g": 1},
        launches={"kept": 1, "g": 1},
        causes={Cause.MINIMUM: 1, Cause.DEMAND: 1},
        deferred=[deferred("g", 1, "in_flight")],
    ),
)


STANDING = (
    scenario("standing requests follow the cluster's placement: `cost` buys the cheapest slices for them")
    .cluster(placement="cost")
    .group("dear", priority=1, price=5.0)
    .group("cheap", priority=2, price=1.0)
    .standing("ana", 2, cpu=4)
    .expects(standing={"ana": "met"}, launches={"cheap": 2}),
    scenario("standing requests follow the cluster's placement: `packing` packs those of several owners together")
    .cluster(placement="packing")
    .group("g", max_slices=2)
    .standing("ana", 2, cpu=1)
    .standing("bo", 2, cpu=3)
    .expects(standing={"ana": "met", "bo": "met"}, launches={"g": 2}),
    scenario("standing requests of several owners add up")
    .group("g")
    .standing("ana", 1, cpu=4)
    .standing("bo", 2, cpu=4)
    .expects(launches={"g": 3}, causes={Cause.STANDING: 3}, standing={"ana": "met", "bo": "met"}, target={"g": 3}),
    scenario("busy slices satisfy a standing request, and queued ones do not")
    .group("g", busy=1, booting=1, queued=1)
    .standing("ana", 3, cpu=4)
    .expects(launches={"g": 1}, standing={"ana": "met"}),
    scenario("the minimum satisfies a standing request")
    .group("g", min_slices=2)
    .standing("ana", 2, cpu=4)
    .expects(launches={"g": 2}, causes={Cause.MINIMUM: 2}, standing={"ana": "met"}),
    scenario("a standing request that cannot be met whole opens nothing, and later owners are still served")
    .group("g", max_slices=2)
    .standing("ana", 3, cpu=4)
    .standing("bo", 1, cpu=4)
    .expects(launches={"g": 1}, standing={"ana": Code.NO_CAPACITY, "bo": "met"}),
    scenario("standing requests are served by owner's name, in whatever order they arrived")
    .group("g", max_slices=2)
    .standing("bo", 2, cpu=4)
    .standing("ana", 1, cpu=4)
    .expects(launches={"g": 1}, standing={"ana": "met", "bo": Code.NO_CAPACITY}),
    scenario("a standing request that fits no group has a reason")
    .group("g")
    .standing("ana", 1, cpu=64)
    .standing("bo", 1, tpu=4)
    .expects(standing={"ana": Code.INSUFFICIENT_RESOURCES, "bo": Code.NO_MATCHING_GROUP}),
    scenario("a standing request is active until it expires, and the decision gives that time")
    .group("g")
    .standing("ana", 1, cpu=4, expires="5m")
    .expects(launches={"g": 1}, standing={"ana": "met"}, changes_in="5m"),
    scenario("an expired standing request is ignored")
    .group("g")
    .standing("ana", 1, cpu=4, expires="0s")
    .expects(launches={}, standing={}, changes_in="never", target={"g": 0}),
    scenario("a standing request may be for a gang")
    .group("g", tpu=4, hosts=4, busy=1)
    .standing("ana", 1, tpu=4, gang=8)
    .expects(launches={"g": 1}, causes={Cause.STANDING: 1}, standing={"ana": "met"}, target={"g": 2}),
    scenario("a standing request that only a spare makes possible is met together with the spare")
    .cluster(conserve_accelerators=False)
    .group("single", gpu=3, max_slices=2, warm_slices=1)
    .group("triple", gpu=2, hosts=3, max_slices=3, price=1.0)
    .standing("ana", 3, gpu=1, cpu=0.5, gang=6, gang_placement="spread")
    .expects(
        launches={"single": 2, "triple": 3},
        causes={Cause.WARM: 1, Cause.STANDING: 4},
        standing={"ana": "met"},
    ),
    scenario("a gang that only a spare makes possible is placed on the spare")
    .pool("res", 16)
    .group("small", tpu=8, price=1.0, pool="res")
    .group("pair", tpu=4, hosts=2, price=2.0, pool="res", warm_slices=1)
    .wants(1, tpu=4, gang=3, gang_placement="spread")
    .expects(placed={"small": 1}, launches={"pair": 1, "small": 1}, causes={Cause.WARM: 1, Cause.DEMAND: 1}),
    scenario("demand uses the slices that a standing request opens")
    .group("first", priority=1, max_slices=1)
    .group("second", priority=2)
    .standing("ana", 2, cpu=4)
    .wants(2, cpu=4)
    .expects(
        placed={"first": 1, "second": 1},
        tiers={"first": {IN_FLIGHT: 1}, "second": {IN_FLIGHT: 1}},
        launches={"first": 1, "second": 1},
        causes={Cause.STANDING: 2},
        standing={"ana": "met"},
    ),
    scenario("idle slices of a standing request count as warm")
    .group("g", warm_slices=1)
    .standing("ana", 2, cpu=4)
    .expects(launches={"g": 2}, causes={Cause.STANDING: 2}, standing={"ana": "met"}),
)

HELD_BACK = (
    scenario("while demand is deferred, spares of every group are deferred too")
    .group("a", priority=1, limits=Limits(in_flight=1))
    .group("b", priority=2, warm_slices=1)
    .wants(2, cpu=4)
    .expects(
        placed={"a": 2},
        launches={"a": 1},
        deferred=[deferred("a", 1, "in_flight", says=["group a"]), deferred("b", 1, "in_flight", says=["group a"])],
    ),
)

RULES = (*POOLS, *HEALTH, *LIMITS, *HELD_BACK, *STANDING)
