"""Rules of the explanation of a decision: messages, outcomes, next change, cost, pressure."""

from penstock.model.cluster import Limits
from penstock.model.constraints import Operator as Op
from penstock.model.decision import Code, CostPerHour, Outcome, Pressure, Tier
from penstock.model.slices import Availability, SliceState
from tests.scenarios.builder import deferred, must, scenario, unmet
from tests.scenarios.cases import ExpectedPool

READY, IN_FLIGHT, NEW = Tier.READY, Tier.IN_FLIGHT, Tier.NEW


REASONS = (
    scenario("a region in a zone constraint is recognised")
    .group("g", zone="us-west4-a")
    .wants(1, cpu=1, constraints=[must("zone", Op.EQ, "us-west4")])
    .expects(unmet=[unmet(Code.NO_MATCHING_GROUP, says=["us-west4 is a region", "region = us-west4", "us-west4-a"])]),
    scenario("the message for a misspelt variant suggests the right one")
    .group("a", tpu=4, variant="v5p-8")
    .group("b", tpu=4, variant="v4-8")
    .wants(1, tpu=4, variants=["v5pp-8"])
    .expects(
        unmet=[
            unmet(
                Code.NO_MATCHING_GROUP,
                says=["variant v5pp-8", "did you mean v5p-8?"],
                groups={"a": Code.VARIANT_MISMATCH, "b": Code.VARIANT_MISMATCH},
            )
        ]
    ),
    scenario("the message for an unknown variant lists the variants on offer")
    .group("a", tpu=4, variant="v5p-8")
    .group("b", tpu=4, variant="v4-8")
    .wants(1, tpu=4, variants=["trillium"])
    .expects(unmet=[unmet(Code.NO_MATCHING_GROUP, says=["variant trillium", "on offer: v4-8, v5p-8"])]),
    scenario("the message for a misspelt attribute value suggests the right one")
    .group("g", attributes={"network": "premium"})
    .wants(1, cpu=1, constraints=[must("network", Op.EQ, "premum")])
    .expects(unmet=[unmet(Code.NO_MATCHING_GROUP, says=["network = premum", "did you mean premium?"])]),
    scenario("the message for a misspelt attribute suggests the right one")
    .group("g", attributes={"network": "premium"})
    .wants(1, cpu=1, constraints=[must("netwrok", Op.EQ, "premium")])
    .expects(unmet=[unmet(Code.NO_MATCHING_GROUP, says=["netwrok", "did you mean network?"])]),
    scenario("the message names the constraint that excludes the last candidates, and those candidates")
    .group("west", zone="us-west4-a")
    .group("east", zone="us-east1-b", preemptible=True)
    .wants(1, cpu=1, constraints=[must("zone", Op.EQ, "us-west4-a"), must("preemptible", Op.EQ, True)])
    .expects(unmet=[unmet(Code.NO_MATCHING_GROUP, says=["preemptible = true", "excludes the last candidates", "west"])]),
    scenario("the message for a device that no group has lists the devices of the groups")
    .group("g")
    .wants(1, gpu=1)
    .expects(unmet=[unmet(Code.NO_MATCHING_GROUP, says=["device gpu", "cpu"], groups={"g": Code.DEVICE_MISMATCH})]),
    scenario("the message for a missing preemptible group names that constraint")
    .group("g")
    .wants(1, cpu=1, preemptible=True)
    .expects(unmet=[unmet(Code.NO_MATCHING_GROUP, says=["preemptible = true"], groups={"g": Code.CONSTRAINT_MISMATCH})]),
    scenario("the message for a task too big for a host gives the dimension, the need, the offer and the shortage")
    .group("g", memory="16GiB")
    .wants(1, cpu=1, memory="24GiB")
    .expects(
        unmet=[
            unmet(
                Code.INSUFFICIENT_RESOURCES,
                says=["memory 24GiB", "16GiB", "8GiB short"],
                groups={"g": Code.INSUFFICIENT_RESOURCES},
            )
        ]
    ),
    scenario("the message for a task too big for every host names the closest group")
    .group("small", cpu=2)
    .group("large", cpu=8)
    .wants(1, cpu=10)
    .expects(unmet=[unmet(Code.INSUFFICIENT_RESOURCES, says=["large", "cpu 10", "2 short"])]),
    scenario("no_capacity lists each group with its own code")
    .cluster(max_slices=3)
    .pool("res", 0)
    .group("full", priority=1, max_slices=1, busy=1)
    .group("blocked", priority=2)
    .group("pooled", priority=3, tpu=4, pool="res")
    .group("capped", priority=4, busy=2)
    .group("tiny", priority=5, cpu=1)
    .health("blocked", Availability.QUOTA_EXCEEDED)
    .wants(1, cpu=4)
    .expects(
        unmet=[
            unmet(
                Code.NO_CAPACITY,
                says=[
                    "full=at_max",
                    "blocked=quota_exceeded",
                    "pooled=pool_exhausted",
                    "capped=cluster_at_max",
                    "tiny=insufficient_resources",
                ],
                groups={
                    "full": Code.AT_MAX,
                    "blocked": Code.QUOTA_EXCEEDED,
                    "pooled": Code.POOL_EXHAUSTED,
                    "capped": Code.CLUSTER_AT_MAX,
                    "tiny": Code.INSUFFICIENT_RESOURCES,
                },
            )
        ]
    ),
    scenario("a long list of groups is cut, with the number of further groups")
    .group("a", max_slices=0)
    .group("b", max_slices=0)
    .group("c", max_slices=0)
    .group("d", max_slices=0)
    .group("e", max_slices=0)
    .group("f", max_slices=0)
    .group("g", max_slices=0)
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["a=at_max", "e=at_max", "and 2 more"])]),
    scenario("every group has an outcome and a reason")
    .group("taken", priority=1, max_slices=2, idle=1)
    .group("kept", priority=2, tpu=4, warm_slices=1)
    .group("full", priority=3, tpu=4, max_slices=1, busy=1)
    .group("idle", priority=4, tpu=4)
    .wants(2, cpu=4)
    .expects(
        placed={"taken": 2},
        launches={"taken": 1, "kept": 1},
        outcomes={"taken": Outcome.SELECTED, "kept": Outcome.KEPT, "full": Outcome.BLOCKED, "idle": Outcome.IDLE},
        why={
            "taken": "takes 1 task on READY slices, 1 on new slices",
            "kept": "opens 1 slice for its warm slices",
            "full": "1 of 1 slices",
        },
    ),
    scenario("the reason of a group counts tasks, and not the gangs that they belong to")
    .group("g", tpu=4, hosts=2, booting=1, max_slices=2)
    .wants(2, tpu=4, gang=2)
    .expects(
        placed={"g": 2},
        tiers={"g": {IN_FLIGHT: 1, NEW: 1}},
        launches={"g": 1},
        why={"g": "takes 2 tasks on slices in flight, 2 on new slices"},
    ),
)


FIGURES = (
    scenario("the next change is the earliest of all moments")
    .cluster(patience="10m")
    .group("g", max_slices=4)
    .group("blocked", gpu=1)
    .slice("asked", "g", SliceState.REQUESTING, age="1m")
    .health("blocked", Availability.BACKOFF, until="3m")
    .standing("ana", 1, cpu=4, expires="2m")
    .expects(standing={"ana": "met"}, changes_in="2m"),
    scenario("without a moment at which time alone changes the decision there is no next change")
    .group("g", max_slices=2, busy=1, booting=1)
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, changes_in="never"),
    scenario("the cost before counts existing slices, the cost after also launched ones")
    .group("a", price=1.5, max_slices=2, busy=1, draining=1)
    .group("b", price=10.0, booting=1)
    .wants(2, cpu=4)
    .expects(placed={"b": 2}, launches={"b": 1}, cost_per_hour=CostPerHour(before=13.0, after=23.0)),
    scenario("a REQUESTING slice costs nothing before, and a deferred slice costs nothing after")
    .group("g", price=2.0, requesting=1, limits=Limits(in_flight=2))
    .wants(3, cpu=4)
    .expects(
        placed={"g": 3},
        launches={"g": 1},
        deferred=[deferred("g", 1, "in_flight")],
        cost_per_hour=CostPerHour(before=0.0, after=4.0),
    ),
    scenario("unmet demand is pressure on its first candidate group, in slices")
    .group("first", priority=1, cpu=4, max_slices=1, busy=1)
    .group("second", priority=2, cpu=4, max_slices=1, busy=1)
    .wants(6, cpu=1)
    .expects(
        unmet=[unmet(Code.NO_CAPACITY, 6)],
        pressure={"first": Pressure(capacity=2), "second": Pressure()},
    ),
    scenario("an unmet gang is pressure of all its slices")
    .group("g", tpu=4, hosts=4, max_slices=1)
    .wants(2, tpu=4, gang=8)
    .expects(unmet=[unmet(Code.NO_CAPACITY, 2)], pressure={"g": Pressure(capacity=4)}),
    scenario("demand that no group matches is pressure on none")
    .group("g")
    .wants(1, cpu=64)
    .expects(unmet=[unmet(Code.INSUFFICIENT_RESOURCES)], pressure={"g": Pressure()}),
    scenario("busy slices above the watermark are logical pressure")
    .group("g", watermark=80, max_slices=10, busy=10)
    .expects(pressure={"g": Pressure(logical=2)}),
    scenario("slices launched, in flight and leaving are accounted for")
    .group("g", booting=1, queued=1, draining=1, deleting=1)
    .wants(2, cpu=4)
    .expects(placed={"g": 2}, launches={"g": 1}, pressure={"g": Pressure(accounted_for=5)}),
    scenario("pressure on a pool is in chips")
    .pool("res", 32)
    .group("g", tpu=4, hosts=4, pool="res", booting=1)
    .wants(5, tpu=4, gang=4)
    .expects(
        placed={"g": 2},
        launches={"g": 1},
        unmet=[unmet(Code.NO_CAPACITY, 3, says=["g=pool_exhausted"])],
        pools={"res": ExpectedPool(charged=16, launching=16, pressure=Pressure(capacity=48, accounted_for=32))},
    ),
)

FOR_EVER = (
    scenario("a group that is too small for ever is not told to be so until its block ends")
    .group("full", priority=1, max_slices=1, busy=1)
    .group("tiny", priority=2, cpu=1)
    .health("tiny", Availability.BACKOFF, until="5m")
    .wants(1, cpu=4)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["tiny=insufficient_resources"], never_says=["until", "12:05"])]),
    scenario("a group that may have no slice is at its maximum, whatever blocks it for a time")
    .group("g", max_slices=0)
    .health("g", Availability.BACKOFF, until="5m")
    .wants(1, cpu=4)
    .expects(
        unmet=[unmet(Code.NO_CAPACITY, says=["g=at_max"], never_says=["until"], groups={"g": Code.AT_MAX})],
        availability={"g": Availability.AT_MAX},
        why={"g": "at_max: 0 of 0 slices"},
    ),
    scenario("a gang of more slices than a group may have does not wait for the end of a block")
    .group("g", tpu=4, hosts=2, max_slices=2)
    .health("g", Availability.BACKOFF, until="5m")
    .wants(1, tpu=4, gang=8)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["g=at_max (the gang needs 4 slices)"], never_says=["until"])]),
    scenario("a gang that all slices of its groups together could not hold does not wait for the end of a block")
    .group("a", max_slices=1)
    .group("b", max_slices=1)
    .health("a", Availability.BACKOFF, until="5m")
    .wants(1, cpu=1, gang=200, gang_placement="pack")
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["of the gang's 200 tasks"], never_says=["until"])]),
    scenario("groups that can never take the work do not hide that all others are in a blocked tier")
    .group("none", max_slices=0)
    .group("failed", quota_pool="spot", quota_tier=1, gpu=1)
    .group("peer", quota_pool="spot", quota_tier=1)
    .health("failed", Availability.QUOTA_EXCEEDED)
    .wants(1, cpu=1, constraints=[must("device", Op.EQ, "cpu")])
    .expects(unmet=[unmet(Code.TIER_BLOCKED, groups={"none": Code.AT_MAX, "peer": Code.TIER_BLOCKED})]),
)

HOLDERS = (
    scenario("no_capacity on an exhausted pool says who holds the chips, and which idle slice would free some")
    .pool("res", 20, system=4)
    .group("a", tpu=4, variant="v4-8", pool="res", busy=2)
    .group("b", tpu=4, variant="v5p-8", pool="res", busy=1, idle=1)
    .wants(1, tpu=4, variants=["v4-8"])
    .expects(
        unmet=[
            unmet(
                Code.NO_CAPACITY,
                says=[
                    "a=pool_exhausted; pool res of 20 chips: system 4, a 8 (2 slices), b 8 (2 slices)",
                    "idle slice b/idle would free 4",
                ],
            )
        ]
    ),
    scenario("a slice that is leaving frees its chips first")
    .pool("res", 8)
    .group("a", tpu=4, variant="v4-8", pool="res", draining=1)
    .group("b", tpu=4, variant="v5p-8", pool="res", idle=1)
    .wants(1, tpu=4, variants=["v4-8"])
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["slice a/draining is leaving and frees 4"])]),
    scenario("an idle slice that demand needs frees nothing: the largest holder and its oldest slice are named")
    .pool("res", 12)
    .group("a", tpu=4, variant="v4-8", pool="res")
    .group("b", tpu=4, variant="v5p-8", pool="res", idle=1)
    .slice("old", "b", SliceState.READY, age="9h", usage="busy")
    .slice("new", "b", SliceState.READY, age="1h", usage="busy")
    .wants(1, tpu=4, variants=["v5p-8"], id="five")
    .wants(1, tpu=4, variants=["v4-8"], id="four")
    .expects(
        placed={"b": 1},
        unmet=[unmet(Code.NO_CAPACITY, tasks="four", says=["b 12 (3 slices)", "none is idle, b holds most, longest old"])],
    ),
    scenario("chips that this decision orders are held too")
    .pool("res", 8, system=4)
    .group("g", tpu=4, pool="res")
    .wants(2, tpu=4)
    .expects(
        placed={"g": 1},
        launches={"g": 1},
        unmet=[unmet(Code.NO_CAPACITY, says=["pool res of 8 chips: system 4, 4 ordered by this decision"])],
    ),
)

RULES = (*REASONS, *FIGURES, *FOR_EVER, *HOLDERS)
