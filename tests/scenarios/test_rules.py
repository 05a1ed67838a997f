"""Each rule of placing and launching, as a sentence and the facts that show it."""

import pytest

from penstock.model.cluster import Limits
from penstock.model.constraints import Operator as Op
from penstock.model.decision import Cause, Code, CostPerHour, Outcome, Pressure, Tier
from penstock.model.resources import Resources
from penstock.model.slices import Availability, HostState, HostUsage, SliceState
from tests.scenarios.builder import deferred, must, reserved, scenario, should, unmet
from tests.scenarios.cases import Case, ExpectedPool, check, listed_in_reverse

READY, IN_FLIGHT, NEW = Tier.READY, Tier.IN_FLIGHT, Tier.NEW

TIERS = (
    scenario("room on a READY slice is used before a slice on its way, whatever the priority")
    .group("first", priority=10, booting=1)
    .group("second", priority=20, idle=1)
    .wants(1, cpu=1)
    .expects(placed={"second": 1}, tiers={"second": {READY: 1}}),
    scenario("a booting slice holds its demand; nothing cascades to the sibling zone")
    .group("zone-a", max_slices=1, booting=1)
    .group("zone-b", max_slices=1)
    .wants(1, cpu=1)
    .expects(placed={"zone-a": 1}, launches={}),
    scenario("on its way anywhere beats a new slice anywhere")
    .group("first", priority=1)
    .group("last", priority=900, requesting=1)
    .wants(1, cpu=1)
    .expects(placed={"last": 1}, tiers={"last": {IN_FLIGHT: 1}}),
    scenario("REQUESTING, BOOTING and INITIALIZING slices all hold demand")
    .group("g", max_slices=3, requesting=1, booting=1, initializing=1)
    .wants(3, cpu=4)
    .expects(placed={"g": 3}, tiers={"g": {IN_FLIGHT: 3}}),
    scenario("a slice planned for one entry is on its way for the next")
    .group("g")
    .wants(1, cpu=3)
    .wants(1, cpu=1)
    .expects(placed={"g": 2}, tiers={"g": {NEW: 1, IN_FLIGHT: 1}}, launches={"g": 1}),
    scenario("slices on their way fill in the order in which they were ordered, not by priority")
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
    scenario("slices on their way of a group that is now blocked still hold demand, and only they do")
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
    scenario("a slice queued at the provider holds no demand")
    .group("g", max_slices=2, queued=1)
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {NEW: 1}}, launches={"g": 1}),
    scenario("a slice queued at the provider counts against the maximum")
    .group("g", max_slices=1, queued=1)
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["g=at_max"])]),
    scenario("a slice is waited for as long as patience lasts, and the decision says until when")
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
    .expects(placed={"g": 1}, tiers={"g": {NEW: 1}}, launches={"g": 1}, changes_in="never"),
    scenario("a slice REQUESTING for longer than patience counts against the maximum")
    .cluster(patience="10m")
    .group("g", max_slices=1)
    .slice("s", "g", SliceState.REQUESTING, age="11m")
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["g=at_max"])]),
    scenario("a group's own patience comes before the cluster's")
    .cluster(patience="1m")
    .group("g", patience="1h")
    .slice("s", "g", SliceState.REQUESTING, age="30m")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {IN_FLIGHT: 1}}, changes_in="30m"),
    scenario("patience is for REQUESTING slices; a BOOTING one is waited for")
    .cluster(patience="10m")
    .group("g")
    .slice("s", "g", SliceState.BOOTING, age="1d")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {IN_FLIGHT: 1}}, changes_in="never"),
    scenario("DRAINING and DELETING slices are no room, and count against the group's maximum")
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
    .slice("old", "removed", SliceState.READY, usage="idle")
    .wants(2, cpu=4)
    .expects(placed={"g": 1}, launches={"g": 1}, unmet=[unmet(Code.NO_CAPACITY, says=["g=cluster_at_max"])]),
)

USAGE = (
    scenario("a READY slice of unknown usage is not free")
    .group("g", max_slices=1, unknown=1)
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["g=at_max"])]),
    scenario("a READY slice of unknown usage is not idle: it is no warm slice")
    .group("g", warm_slices=1, unknown=1)
    .expects(launches={"g": 1}, causes={Cause.WARM: 1}, target={"g": 2}),
    scenario("a slice that just became READY is free until its grace ends, and the decision says when")
    .cluster(ready_grace="2m")
    .group("g")
    .slice("s", "g", SliceState.READY, age="30s")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {READY: 1}}, changes_in="90s"),
    scenario("a slice not reported on when its grace ends is unknown")
    .cluster(ready_grace="2m")
    .group("g")
    .slice("s", "g", SliceState.READY, age="2m")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {NEW: 1}}, launches={"g": 1}, changes_in="never"),
    scenario("a report ends the grace: a new slice that is busy has no room")
    .group("g")
    .slice("s", "g", SliceState.READY, age="1s", usage="busy")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {NEW: 1}}, launches={"g": 1}, changes_in="never"),
    scenario("usage for another number of hosts than the slice has is unknown")
    .group("g", hosts=4, max_slices=1)
    .slice("s", "g", SliceState.READY, usage=["idle", "idle"])
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["g=at_max"])]),
    scenario("one word stands for every host of a slice")
    .group("g", hosts=4)
    .slice("s", "g", SliceState.READY, usage="idle")
    .wants(4, cpu=4)
    .expects(placed={"g": 4}, tiers={"g": {READY: 4}}),
    scenario("what is reserved on a host leaves the rest of it free")
    .group("g", max_slices=1)
    .slice("s", "g", SliceState.READY, usage=reserved(cpu=3))
    .wants(2, cpu=1)
    .expects(placed={"g": 1}, tiers={"g": {READY: 1}}, unmet=[unmet(Code.NO_CAPACITY)], required={}),
    scenario("a degraded host takes nothing, its sibling does")
    .group("g", hosts=2, max_slices=1)
    .slice("s", "g", SliceState.READY, usage=[HostUsage(state=HostState.DEGRADED, reserved=Resources()), "idle"])
    .wants(2, cpu=4)
    .expects(placed={"g": 1}, unmet=[unmet(Code.NO_CAPACITY)]),
)

SPARES = (
    scenario("READY idle slices count as warm").group("g", warm_slices=2, idle=2).expects(launches={}, target={"g": 2}),
    scenario("slices on their way count as warm").group("g", warm_slices=2, booting=1, queued=1).expects(launches={}),
    scenario("a warm slice that demand takes is replaced")
    .group("g", warm_slices=1, idle=1)
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, launches={"g": 1}, causes={Cause.WARM: 1}, required={"g": 1}, target={"g": 2}),
    scenario("warm slices stop at the maximum")
    .group("g", warm_slices=5, max_slices=3, busy=2)
    .expects(launches={"g": 1}, target={"g": 3}),
    scenario("a plan of zero is zero: busy slices and no demand launch nothing")
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
    scenario("the minimum is not asked of a blocked group")
    .group("g", min_slices=2)
    .health("g", Availability.QUOTA_EXCEEDED)
    .expects(launches={}, outcomes={"g": Outcome.BLOCKED}, target={"g": 2}),
    scenario("the minimum stops at the cluster's maximum, and the preferred group has it first")
    .cluster(max_slices=4)
    .group("second", priority=20, min_slices=2)
    .group("first", priority=10, min_slices=1)
    .group("full", priority=1, max_slices=2, busy=2)
    .expects(launches={"first": 1, "second": 1}),
    scenario("demand on slices in flight is busy for the watermark")
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

CONSERVING = (
    scenario("work that needs no accelerator goes to a group without any, whatever the priority")
    .group("tpu", priority=1, tpu=4)
    .group("cpu", priority=90)
    .wants(1, cpu=1)
    .expects(placed={"cpu": 1}, launches={"cpu": 1}),
    scenario("a new slice without accelerators comes before free room beside accelerators")
    .group("gpu", priority=1, gpu=1, idle=1)
    .group("cpu", priority=90)
    .wants(1, cpu=1)
    .expects(placed={"cpu": 1}, tiers={"cpu": {NEW: 1}}, launches={"cpu": 1}),
    scenario("work that needs no accelerator uses accelerator slices when no other group can take it")
    .group("tpu", tpu=4)
    .group("cpu", max_slices=1)
    .wants(2, cpu=4)
    .expects(placed={"cpu": 1, "tpu": 1}, launches={"cpu": 1, "tpu": 1}),
    scenario("a gang that needs accelerator slices for want of others takes the others first")
    .group("gpu", priority=1, gpu=1)
    .group("cpu", priority=90, max_slices=1)
    .wants(1, cpu=1, gang=2, gang_placement="spread")
    .expects(placed={"gpu": 1}, launches={"cpu": 1, "gpu": 1}),
    scenario("accelerator slices go to the work that needs them, even if it comes last")
    .group("tpu", tpu=4, max_slices=1)
    .wants(1, cpu=1, id="small")
    .wants(1, tpu=4, id="train")
    .expects(placed={"tpu": 1}, launches={"tpu": 1}, unmet=[unmet(Code.NO_CAPACITY, tasks="small", says=["tpu=at_max"])]),
    scenario("without conserve_accelerators priority alone decides")
    .cluster(conserve_accelerators=False)
    .group("tpu", priority=1, tpu=4)
    .group("cpu", priority=90)
    .wants(1, cpu=1)
    .expects(placed={"tpu": 1}, launches={"tpu": 1}),
    scenario("without conserve_accelerators whoever comes first is placed first")
    .cluster(conserve_accelerators=False)
    .group("tpu", tpu=4, max_slices=1)
    .wants(1, cpu=1, id="small")
    .wants(1, tpu=4, id="train")
    .expects(placed={"tpu": 1}, launches={"tpu": 1}, unmet=[unmet(Code.NO_CAPACITY, tasks="train", says=["tpu=at_max"])]),
    scenario("packing leaves GPU hosts to the work that needs them while a gang without need of them has room elsewhere")
    .cluster(placement="packing")
    .group("cpu", cpu=2, max_slices=2, booting=2)
    .group("gpu", cpu=1, gpu=1, max_slices=1, idle=1)
    .wants(1, cpu=1, gang=3, gang_placement="pack")
    .wants(1, cpu=1, gpu=1)
    .expects(placed={"cpu": 1, "gpu": 1}, launches={}),
)

RANK = (
    scenario("priority 0 is a priority, and comes first")
    .group("one", priority=1)
    .group("zero", priority=0)
    .wants(1, cpu=1)
    .expects(placed={"zero": 1}, launches={"zero": 1}),
    scenario("a group without a priority has 100: behind 99")
    .group("a-unset")
    .group("b-ranked", priority=99)
    .wants(1, cpu=1)
    .expects(placed={"b-ranked": 1}, launches={"b-ranked": 1}),
    scenario("a group without a priority has 100: before 101")
    .group("a-ranked", priority=101)
    .group("b-unset")
    .wants(1, cpu=1)
    .expects(placed={"b-unset": 1}, launches={"b-unset": 1}),
    scenario("equal priorities are decided by price")
    .group("a", price=2.0)
    .group("b", price=1.0)
    .wants(1, cpu=1)
    .expects(placed={"b": 1}, launches={"b": 1}),
    scenario("a price that is not known comes after every known one")
    .group("a")
    .group("b", price=900.0)
    .wants(1, cpu=1)
    .expects(placed={"b": 1}, launches={"b": 1}),
    scenario("what is equal in all else is decided by name")
    .group("b", price=1.0)
    .group("a", price=1.0)
    .wants(1, cpu=1)
    .expects(placed={"a": 1}, launches={"a": 1}),
    scenario("a soft constraint comes before priority")
    .group("first", priority=1)
    .group("spot", priority=90, preemptible=True)
    .wants(1, cpu=1, constraints=[should("preemptible", Op.EQ, True)])
    .expects(placed={"spot": 1}, launches={"spot": 1}),
    scenario("a soft constraint never excludes: what no longer fits the preferred group goes to the other")
    .group("first", priority=1)
    .group("spot", priority=90, preemptible=True, max_slices=1)
    .wants(2, cpu=4, constraints=[should("preemptible", Op.EQ, True)])
    .expects(placed={"spot": 1, "first": 1}, launches={"spot": 1, "first": 1}),
    scenario("two soft constraints satisfied come before one")
    .group("one", priority=1, preemptible=True)
    .group("two", priority=90, preemptible=True, zone="us-west4-a")
    .wants(1, cpu=1, constraints=[should("preemptible", Op.EQ, True), should("zone", Op.EQ, "us-west4-a")])
    .expects(placed={"two": 1}, launches={"two": 1}),
    scenario("a hard constraint holds whatever the soft ones say")
    .group("near", zone="us-west4-a")
    .group("far", zone="us-east1-b")
    .wants(1, cpu=1, constraints=[must("zone", Op.EQ, "us-east1-b"), should("zone", Op.EQ, "us-west4-a")])
    .expects(placed={"far": 1}, launches={"far": 1}),
)

MATCHING = (
    scenario("work for one device never goes to another")
    .group("tpu", priority=1, tpu=4)
    .group("gpu", priority=2, gpu=8)
    .wants(1, gpu=1)
    .expects(placed={"gpu": 1}, launches={"gpu": 1}),
    scenario("GPU work that names no number of GPUs needs one")
    .group("g", gpu=2, max_slices=1)
    .wants(3, device="gpu")
    .expects(placed={"g": 2}, launches={"g": 1}, unmet=[unmet(Code.NO_CAPACITY)]),
    scenario("any of the variants asked for will do")
    .group("a", tpu=4, variant="v5p-8")
    .group("b", tpu=4, variant="v4-8")
    .group("c", tpu=8, variant="v6e-8")
    .wants(1, tpu=4, variants=["v6e-8", "v4-8"])
    .expects(placed={"b": 1}, launches={"b": 1}),
    scenario("work that asks for preemptible slices gets no others")
    .group("lasting", priority=1)
    .group("spot", priority=2, preemptible=True, max_slices=1)
    .wants(2, cpu=4, preemptible=True)
    .expects(placed={"spot": 1}, launches={"spot": 1}, unmet=[unmet(Code.NO_CAPACITY, groups={"spot": Code.AT_MAX})]),
    scenario("zone, region, variant, device and preemptible are attributes too")
    .group("other", tpu=4, variant="v4-8", zone="us-west4-b")
    .group("meant", tpu=4, variant="v5p-8", zone="us-east1-b", preemptible=True)
    .wants(1, tpu=4, id="zone", constraints=[must("zone", Op.EQ, "us-east1-b")])
    .wants(1, tpu=4, id="region", constraints=[must("region", Op.EQ, "us-east1")])
    .wants(1, tpu=4, id="variant", constraints=[must("variant", Op.EQ, "v5p-8")])
    .wants(1, tpu=4, id="device", constraints=[must("device", Op.EQ, "tpu"), must("zone", Op.NE, "us-west4-b")])
    .wants(1, tpu=4, id="preemptible", constraints=[must("preemptible", Op.EQ, True)])
    .expects(placed={"meant": 5}, launches={"meant": 5}),
)


def _generations(sentence: str, op: Op, *values: int, takes: tuple[str, ...]) -> Case:
    """Three groups of one slice each, two of which have a generation; the work fills every slice that matches."""
    placed = dict.fromkeys(takes, 1)
    left = 3 - len(takes)
    return (
        scenario(sentence)
        .group("four", max_slices=1, attributes={"generation": 4})
        .group("six", max_slices=1, attributes={"generation": 6})
        .group("without", max_slices=1)
        .wants(3, cpu=4, constraints=[must("generation", op, *values)])
        .expects(placed=placed, launches=placed, unmet=[unmet(Code.NO_CAPACITY, left)] if left else [])
    )


OPERATORS = (
    _generations("eq takes groups with that value", Op.EQ, 4, takes=("four",)),
    _generations("ne takes groups with another value or none", Op.NE, 4, takes=("six", "without")),
    _generations("in takes groups with one of the values", Op.IN, 5, 6, takes=("six",)),
    _generations("not_in takes groups with none of the values", Op.NOT_IN, 5, 6, takes=("four", "without")),
    _generations("exists takes groups that have the attribute", Op.EXISTS, takes=("four", "six")),
    _generations("not_exists takes groups that do not", Op.NOT_EXISTS, takes=("without",)),
    _generations("gt takes groups above the value", Op.GT, 4, takes=("six",)),
    _generations("ge takes groups at or above it", Op.GE, 4, takes=("four", "six")),
    _generations("lt takes groups below it", Op.LT, 6, takes=("four",)),
    _generations("le takes groups at or below it", Op.LE, 6, takes=("four", "six")),
)

HOSTS = (
    scenario("small tasks share a host until one dimension of it is used up")
    .group("g")
    .wants(5, cpu=1, memory="4GiB")
    .expects(placed={"g": 5}, launches={"g": 2}, required={"g": 2}),
    scenario("hosts are bins: what is left of two hosts does not add up")
    .group("g", hosts=2, max_slices=1)
    .wants(3, cpu=2.5)
    .expects(placed={"g": 2}, launches={"g": 1}, unmet=[unmet(Code.NO_CAPACITY)]),
    scenario("GPU tasks share a host by count")
    .group("g", cpu=16, gpu=8)
    .wants(3, gpu=4)
    .expects(placed={"g": 3}, launches={"g": 2}),
    scenario("GPU tasks share a GPU by share")
    .group("g", cpu=16, gpu=1)
    .wants(5, gpu=0.25)
    .expects(placed={"g": 5}, launches={"g": 2}),
    scenario("a task on TPU chips takes its host alone, though chips are left")
    .group("g", tpu=8)
    .wants(2, tpu=4)
    .expects(placed={"g": 2}, launches={"g": 2}),
    scenario("a task on TPU chips does not go to a host where anything runs")
    .group("g", tpu=8)
    .slice("s", "g", SliceState.READY, usage=reserved(cpu=1))
    .wants(1, tpu=4)
    .expects(placed={"g": 1}, tiers={"g": {NEW: 1}}, launches={"g": 1}),
    scenario("a group with shared_tpu divides the chips of a host")
    .group("g", tpu=8, shared_tpu=True)
    .wants(2, tpu=4)
    .expects(placed={"g": 2}, launches={"g": 1}),
    scenario("each host of a slice takes one task on TPU chips")
    .group("g", tpu=4, hosts=4)
    .wants(5, tpu=4)
    .expects(placed={"g": 5}, launches={"g": 2}, required={"g": 2}),
)

WHOLE_SLICES = (
    scenario("a gang of 8 takes two slices of 4 hosts, both of one group")
    .group("first", priority=10, tpu=4, hosts=4, max_slices=1)
    .group("second", priority=20, tpu=4, hosts=4, max_slices=2)
    .wants(1, tpu=4, gang=8)
    .expects(placed={"second": 1}, launches={"second": 2}, required={"second": 2}),
    scenario("a gang that no slice size divides is told the sizes on offer")
    .group("four", tpu=4, hosts=4)
    .group("eight", tpu=4, hosts=8)
    .wants(1, tpu=4, gang=6)
    .expects(
        unmet=[
            unmet(
                Code.GANG_SIZE_MISMATCH,
                says=["gang of 6", "4, 8", "8, 16"],
                groups={"four": Code.GANG_SIZE_MISMATCH, "eight": Code.GANG_SIZE_MISMATCH},
            )
        ]
    ),
    scenario("a gang goes to the group whose slices it fills, whatever the priority")
    .group("eight", priority=1, tpu=4, hosts=8)
    .group("four", priority=90, tpu=4, hosts=4)
    .wants(1, tpu=4, gang=4)
    .expects(placed={"four": 1}, launches={"four": 1}),
    scenario("with tasks_per_host a gang takes fewer hosts")
    .group("g", cpu=8, hosts=4)
    .wants(1, cpu=4, gang=8, tasks_per_host=2)
    .expects(placed={"g": 1}, launches={"g": 1}),
    scenario("tasks_per_host tasks must fit one host together")
    .group("g", cpu=4, hosts=4)
    .wants(1, cpu=4, gang=8, tasks_per_host=2)
    .expects(unmet=[unmet(Code.INSUFFICIENT_RESOURCES, says=["cpu 8", "4 short"])]),
    scenario("sizes on offer count the tasks on each host")
    .group("g", cpu=8, hosts=4)
    .wants(1, cpu=4, gang=12, tasks_per_host=2)
    .expects(unmet=[unmet(Code.GANG_SIZE_MISMATCH, says=["gang of 12", "8, 16"])]),
    scenario("a gang that lost members still needs every slice")
    .group("g", tpu=4, hosts=4)
    .wants(1, tpu=4, gang=8, pending=1)
    .expects(placed={"g": 1}, launches={"g": 2}),
    scenario("a gang takes empty READY slices before any on their way")
    .group("first", priority=1, tpu=4, hosts=4, booting=2)
    .group("second", priority=2, tpu=4, hosts=4, idle=2)
    .wants(1, tpu=4, gang=8)
    .expects(placed={"second": 1}, tiers={"second": {READY: 1}}),
    scenario("a gang takes READY slices and slices on their way together")
    .group("g", tpu=4, hosts=4, idle=1, booting=1)
    .wants(1, tpu=4, gang=8)
    .expects(placed={"g": 1}, tiers={"g": {IN_FLIGHT: 1}}),
    scenario("a gang opens only the slices it lacks")
    .group("g", tpu=4, hosts=4, idle=1, booting=1)
    .wants(1, tpu=4, gang=16)
    .expects(placed={"g": 1}, tiers={"g": {NEW: 1}}, launches={"g": 2}, required={"g": 4}),
    scenario("a slice of which one host is in use is not empty")
    .group("g", tpu=4, hosts=2)
    .slice("s", "g", SliceState.READY, usage=[HostUsage(), reserved(cpu=1)])
    .wants(1, tpu=4, gang=2)
    .expects(placed={"g": 1}, tiers={"g": {NEW: 1}}, launches={"g": 1}),
    scenario("a gang shares its slices with nothing")
    .group("g", hosts=2, max_slices=1)
    .wants(1, cpu=1, gang=2)
    .wants(1, cpu=1, id="small")
    .expects(placed={"g": 1}, launches={"g": 1}, unmet=[unmet(Code.NO_CAPACITY, tasks="small", says=["g=at_max"])]),
    scenario("a gang that finds no room for all of it takes none, and leaves it to those behind")
    .group("g", tpu=4, hosts=4, max_slices=1)
    .wants(1, tpu=4, gang=8, id="large")
    .wants(1, tpu=4, gang=4, id="small")
    .expects(placed={"g": 1}, launches={"g": 1}, unmet=[unmet(Code.NO_CAPACITY, tasks="large", says=["g=at_max"])]),
    scenario("tasks of one gang that disagree are told the field and two of them, and others go on")
    .group("g", hosts=2)
    .wants(1, cpu=1, gang=2, gang_id="job", pending=1, id="left")
    .wants(1, cpu=2, gang=2, gang_id="job", pending=1, id="right")
    .wants(1, cpu=1, id="other")
    .expects(
        placed={"g": 1},
        launches={"g": 1},
        unmet=[unmet(Code.INCONSISTENT_GANG, tasks="left", says=["left/0", "right/1", "gang job", "resources.cpu"], groups={})],
    ),
    scenario("a gang of more tasks than its size is inconsistent")
    .group("g", hosts=2)
    .wants(1, cpu=1, gang=2, gang_id="job", pending=3)
    .expects(unmet=[unmet(Code.INCONSISTENT_GANG, says=["gang job has 3 tasks", "gang.size is 2"])]),
)

SPREAD_AND_PACK = (
    scenario("a spread gang puts each task on a host of its own")
    .group("g", hosts=2)
    .wants(1, cpu=1, gang=3, gang_placement="spread")
    .expects(placed={"g": 1}, launches={"g": 2}, required={"g": 2}),
    scenario("a spread gang shares its hosts with others")
    .group("g", max_slices=2)
    .wants(1, cpu=2, gang=2, gang_placement="spread")
    .wants(2, cpu=2)
    .expects(placed={"g": 3}, launches={"g": 2}),
    scenario("a spread gang takes hosts of several groups, READY first, and counts where it is complete")
    .group("busy", priority=1, max_slices=1)
    .slice("s", "busy", SliceState.READY, usage=reserved(cpu=1))
    .group("coming", priority=2, max_slices=1, booting=1)
    .group("new", priority=3)
    .wants(1, cpu=2, gang=3, gang_placement="spread")
    .expects(placed={"new": 1}, tiers={"new": {NEW: 1}}, launches={"new": 1}, required={"coming": 1, "new": 1}),
    scenario("a spread gang keeps off hosts where its other tasks run")
    .group("g")
    .slice("a", "g", SliceState.READY, usage=reserved(cpu=1, gangs=["job"]))
    .slice("b", "g", SliceState.READY, usage=reserved(cpu=1, gangs=["else"]))
    .wants(1, cpu=1, gang=3, gang_id="job", pending=2, gang_placement="spread")
    .expects(placed={"g": 1}, tiers={"g": {NEW: 1}}, launches={"g": 1}),
    scenario("a spread gang is placed whole or not at all, and opens nothing in vain")
    .group("g", max_slices=2)
    .wants(1, cpu=1, gang=3, gang_placement="spread", id="gang")
    .wants(2, cpu=4, id="behind")
    .expects(placed={"g": 2}, launches={"g": 2}, unmet=[unmet(Code.NO_CAPACITY, tasks="gang", says=["g=at_max"])]),
    scenario("a pack gang uses few hosts")
    .group("g", hosts=2)
    .wants(1, cpu=1, gang=4, gang_placement="pack")
    .wants(1, cpu=4)
    .expects(placed={"g": 2}, launches={"g": 1}),
    scenario("a pack gang puts no more than tasks_per_host on one")
    .group("g")
    .wants(1, cpu=1, gang=4, gang_placement="pack", tasks_per_host=2)
    .expects(placed={"g": 1}, launches={"g": 2}),
    scenario("a pack gang on TPU chips puts one task on a host")
    .group("g", tpu=8)
    .wants(1, tpu=4, gang=2, gang_placement="pack")
    .expects(placed={"g": 1}, launches={"g": 2}),
    scenario("a pack gang on TPU chips puts more on a host where the group shares it")
    .group("g", tpu=8, shared_tpu=True)
    .wants(1, tpu=4, gang=2, gang_placement="pack")
    .expects(placed={"g": 1}, launches={"g": 1}),
    scenario("a pack gang prefers the emptier of READY hosts, to be on fewer of them")
    .group("g")
    .slice("a", "g", SliceState.READY, usage=reserved(cpu=2))
    .slice("b", "g", SliceState.READY, usage=reserved(cpu=2))
    .slice("c", "g", SliceState.READY, usage="idle")
    .wants(1, cpu=1, gang=4, gang_placement="pack")
    .expects(placed={"g": 1}, tiers={"g": {READY: 1}}, required={"g": 1}),
    scenario("a pack gang is placed whole or not at all")
    .group("g", max_slices=1)
    .wants(1, cpu=1, gang=5, gang_placement="pack", id="gang")
    .wants(1, cpu=4, id="behind")
    .expects(placed={"g": 1}, launches={"g": 1}, unmet=[unmet(Code.NO_CAPACITY, tasks="gang", says=["g=at_max"])]),
)

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
    scenario("chips that are others' are not on offer")
    .pool("res", 16, system=8)
    .group("g", tpu=4, pool="res")
    .wants(3, tpu=4)
    .expects(placed={"g": 2}, launches={"g": 2}, unmet=[unmet(Code.NO_CAPACITY, says=["g=pool_exhausted"])]),
    scenario("raising system above what is free evicts nothing, and grants nothing")
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
    scenario("chips too few for one slice are no headroom, and a smaller slice may use them")
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
    scenario("warm slices stop where the pool ends")
    .pool("res", 8)
    .group("g", tpu=4, pool="res", warm_slices=3)
    .expects(launches={"g": 2}),
    scenario("what a launch limit holds back is not charged to the pool yet")
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
    scenario("a blocked group is passed over, and the decision says when that ends")
    .group("first", priority=1)
    .group("second", priority=2)
    .health("first", Availability.BACKOFF, until="5m")
    .wants(1, cpu=1)
    .expects(placed={"second": 1}, launches={"second": 1}, outcomes={"first": Outcome.BLOCKED}, changes_in="5m"),
    scenario("a block whose end has come is over")
    .group("first", priority=1)
    .group("second", priority=2)
    .health("first", Availability.BACKOFF, until="0s")
    .wants(1, cpu=1)
    .expects(placed={"first": 1}, launches={"first": 1}, changes_in="never", availability={"first": Availability.AVAILABLE}),
    scenario("a block without an end lasts until it is cleared")
    .group("g")
    .health("g", Availability.DISABLED)
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["g=disabled"])], changes_in="never"),
    scenario("the end of a block is told to whoever waits for it")
    .group("g")
    .health("g", Availability.RATE_LIMITED, until="5m")
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["g=rate_limited", "12:05:00Z"])], why={"g": "12:05:00Z"}),
    scenario("a quota failure at a tier blocks the tiers above it, and the sentence names who failed")
    .group("low", quota_pool="spot", tier=1, tpu=4, variant="v4-8")
    .group("high", quota_pool="spot", tier=2, tpu=4, variant="v5p-8")
    .health("low", Availability.QUOTA_EXCEEDED, until="10m")
    .wants(1, tpu=4, variants=["v5p-8"])
    .expects(
        unmet=[
            unmet(
                Code.TIER_BLOCKED,
                says=["blocked tier", "high", "low exceeded quota pool spot at tier 1", "12:10:00Z"],
                groups={"high": Code.TIER_BLOCKED},
            )
        ],
        changes_in="10m",
    ),
    scenario("a quota failure at a tier blocks other groups of the same tier")
    .group("failed", quota_pool="spot", tier=1, gpu=1)
    .group("peer", quota_pool="spot", tier=1)
    .health("failed", Availability.QUOTA_EXCEEDED)
    .wants(1, cpu=1, constraints=[must("device", Op.EQ, "cpu")])
    .expects(unmet=[unmet(Code.TIER_BLOCKED, says=["peer"])]),
    scenario("a quota failure at a tier leaves lower tiers and other quota pools alone")
    .group("lower", priority=1, quota_pool="spot", tier=0, max_slices=1)
    .group("failed", priority=2, quota_pool="spot", tier=1)
    .group("elsewhere", priority=3, quota_pool="other", tier=2, max_slices=1)
    .group("none", priority=4)
    .health("failed", Availability.QUOTA_EXCEEDED)
    .wants(3, cpu=4)
    .expects(placed={"lower": 1, "elsewhere": 1, "none": 1}, launches={"lower": 1, "elsewhere": 1, "none": 1}),
    scenario("where the group that failed is a candidate itself, each has its own cause")
    .group("low", quota_pool="spot", tier=1)
    .group("high", quota_pool="spot", tier=2)
    .health("low", Availability.QUOTA_EXCEEDED)
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["low=quota_exceeded", "high=tier_blocked"])]),
    scenario("only quota blocks tiers; a stockout does not")
    .group("low", quota_pool="spot", tier=1)
    .group("high", quota_pool="spot", tier=2)
    .health("low", Availability.BACKOFF)
    .wants(1, cpu=1)
    .expects(placed={"high": 1}, launches={"high": 1}),
    scenario("tiers are free again when the quota block ends")
    .group("low", quota_pool="spot", tier=1, max_slices=0)
    .group("high", quota_pool="spot", tier=2)
    .health("low", Availability.QUOTA_EXCEEDED, until="-1s")
    .wants(1, cpu=1)
    .expects(placed={"high": 1}, launches={"high": 1}),
)

LIMITS = (
    scenario("a group's in_flight limit defers what is beyond it, and the entries stay placed")
    .group("g", limits=Limits(in_flight=3), booting=1)
    .wants(5, cpu=4)
    .expects(
        placed={"g": 5},
        launches={"g": 2},
        deferred=[deferred("g", 2, "in_flight", says=["group g", "in_flight", "3"])],
        unmet=[],
    ),
    scenario("the cluster's in_flight limit counts slices of every group, and the preferred come first")
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
    scenario("creates_per_minute counts what was ordered in the last minute, and says when there is more")
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
    scenario("a group's creates_per_minute does not count what others ordered")
    .group("g", limits=Limits(creates_per_minute=2))
    .group("other", gpu=1)
    .launched("other", 9, ago="10s")
    .wants(2, cpu=4)
    .expects(placed={"g": 2}, launches={"g": 2}),
    scenario("the cluster's creates_per_minute counts all of them")
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
    scenario("growth lets an empty group start with one slice, and looks again at the next evaluation")
    .group("g", limits=Limits(growth=0.5))
    .wants(3, cpu=4)
    .expects(placed={"g": 3}, launches={"g": 1}, deferred=[deferred("g", 2, "growth")], changes_in="5s"),
    scenario("the cluster's growth counts all that runs")
    .cluster(limits=Limits(growth=0.5))
    .group("g")
    .group("other", gpu=1, busy=4)
    .wants(3, cpu=4)
    .expects(placed={"g": 3}, launches={"g": 2}, deferred=[deferred("g", 1, "growth", says=["the cluster"])]),
    scenario("a gang counts as one, so that a limit never cuts it in two")
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
    scenario("the minimum passes a limit before demand does, and warm slices after it")
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
    scenario("owners' standing requests add up")
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
    scenario("standing requests are served by owner's name, whatever order they came in")
    .group("g", max_slices=2)
    .standing("bo", 2, cpu=4)
    .standing("ana", 1, cpu=4)
    .expects(launches={"g": 1}, standing={"ana": "met", "bo": Code.NO_CAPACITY}),
    scenario("a standing request that fits nowhere says why")
    .group("g")
    .standing("ana", 1, cpu=64)
    .standing("bo", 1, tpu=4)
    .expects(standing={"ana": Code.INSUFFICIENT_RESOURCES, "bo": Code.NO_MATCHING_GROUP}),
    scenario("a standing request holds until it expires, and the decision says when")
    .group("g")
    .standing("ana", 1, cpu=4, expires="10m")
    .expects(launches={"g": 1}, standing={"ana": "met"}, changes_in="10m"),
    scenario("an expired standing request is gone")
    .group("g")
    .standing("ana", 1, cpu=4, expires="0s")
    .expects(launches={}, standing={}, changes_in="never", target={"g": 0}),
    scenario("a standing request may be for a gang")
    .group("g", tpu=4, hosts=4, busy=1)
    .standing("ana", 1, tpu=4, gang=8)
    .expects(launches={"g": 1}, causes={Cause.STANDING: 1}, standing={"ana": "met"}, target={"g": 2}),
    scenario("demand uses what a standing request opens")
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
    scenario("what a standing request keeps free counts as warm")
    .group("g", warm_slices=1)
    .standing("ana", 2, cpu=4)
    .expects(launches={"g": 2}, causes={Cause.STANDING: 2}, standing={"ana": "met"}),
)

REASONS = (
    scenario("a region given as a zone is recognised")
    .group("g", zone="us-west4-a")
    .wants(1, cpu=1, constraints=[must("zone", Op.EQ, "us-west4")])
    .expects(unmet=[unmet(Code.NO_MATCHING_GROUP, says=["us-west4 is a region", "region = us-west4", "us-west4-a"])]),
    scenario("a misspelt variant is answered with the one that was meant")
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
    scenario("a variant like no other is answered with what is on offer")
    .group("a", tpu=4, variant="v5p-8")
    .group("b", tpu=4, variant="v4-8")
    .wants(1, tpu=4, variants=["trillium"])
    .expects(unmet=[unmet(Code.NO_MATCHING_GROUP, says=["variant trillium", "on offer: v4-8, v5p-8"])]),
    scenario("a misspelt value of an attribute is answered with the one that was meant")
    .group("g", attributes={"network": "premium"})
    .wants(1, cpu=1, constraints=[must("network", Op.EQ, "premum")])
    .expects(unmet=[unmet(Code.NO_MATCHING_GROUP, says=["network = premum", "did you mean premium?"])]),
    scenario("a misspelt attribute is answered with the one that was meant")
    .group("g", attributes={"network": "premium"})
    .wants(1, cpu=1, constraints=[must("netwrok", Op.EQ, "premium")])
    .expects(unmet=[unmet(Code.NO_MATCHING_GROUP, says=["netwrok", "did you mean network?"])]),
    scenario("the constraint that excludes the last candidates is named, with them")
    .group("west", zone="us-west4-a")
    .group("east", zone="us-east1-b", preemptible=True)
    .wants(1, cpu=1, constraints=[must("zone", Op.EQ, "us-west4-a"), must("preemptible", Op.EQ, True)])
    .expects(unmet=[unmet(Code.NO_MATCHING_GROUP, says=["preemptible = true", "excludes the last candidates", "west"])]),
    scenario("a device that no group has is said so, with those they have")
    .group("g")
    .wants(1, gpu=1)
    .expects(unmet=[unmet(Code.NO_MATCHING_GROUP, says=["device gpu", "cpu"], groups={"g": Code.DEVICE_MISMATCH})]),
    scenario("preemptible slices where there are none are said to be what is missing")
    .group("g")
    .wants(1, cpu=1, preemptible=True)
    .expects(unmet=[unmet(Code.NO_MATCHING_GROUP, says=["preemptible = true"], groups={"g": Code.CONSTRAINT_MISMATCH})]),
    scenario("a task too big for a host is told the dimension, what it needs, what there is and what is short")
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
    scenario("a task too big for every host is told of the closest")
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
    scenario("a list of many groups is cut short and says how many more")
    .group("a", max_slices=0)
    .group("b", max_slices=0)
    .group("c", max_slices=0)
    .group("d", max_slices=0)
    .group("e", max_slices=0)
    .group("f", max_slices=0)
    .group("g", max_slices=0)
    .wants(1, cpu=1)
    .expects(unmet=[unmet(Code.NO_CAPACITY, says=["a=at_max", "e=at_max", "and 2 more"])]),
    scenario("every group says what became of it, and why")
    .group("taken", priority=1, max_slices=2, idle=1)
    .group("kept", priority=2, tpu=4, warm_slices=1)
    .group("full", priority=3, tpu=4, max_slices=1, busy=1)
    .group("idle", priority=4, tpu=4)
    .wants(2, cpu=4)
    .expects(
        placed={"taken": 2},
        launches={"taken": 1, "kept": 1},
        outcomes={"taken": Outcome.SELECTED, "kept": Outcome.KEPT, "full": Outcome.BLOCKED, "idle": Outcome.IDLE},
        why={"taken": "1 on READY slices, 1 on new slices", "kept": "1 for warm slices", "full": "1 of 1 slices"},
    ),
)

FIGURES = (
    scenario("the next change is the earliest of all")
    .cluster(patience="10m", ready_grace="2m")
    .group("g", max_slices=4)
    .group("blocked", gpu=1)
    .slice("asked", "g", SliceState.REQUESTING, age="1m")
    .slice("new", "g", SliceState.READY, age="1m")
    .health("blocked", Availability.BACKOFF, until="3m")
    .standing("ana", 1, cpu=4, expires="2m")
    .expects(standing={"ana": "met"}, changes_in="1m"),
    scenario("when nothing changes by itself there is no next change")
    .group("g", max_slices=2, busy=1, booting=1)
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, changes_in="never"),
    scenario("the cost is what exists, before; and with what is launched, after")
    .group("a", price=1.5, max_slices=2, busy=1, draining=1)
    .group("b", price=10.0, booting=1)
    .wants(2, cpu=4)
    .expects(placed={"b": 2}, launches={"b": 1}, cost_per_hour=CostPerHour(before=13.0, after=23.0)),
    scenario("a slice only asked for costs nothing yet, and what is deferred costs nothing after")
    .group("g", price=2.0, requesting=1, limits=Limits(in_flight=2))
    .wants(3, cpu=4)
    .expects(
        placed={"g": 3},
        launches={"g": 1},
        deferred=[deferred("g", 1, "in_flight")],
        cost_per_hour=CostPerHour(before=0.0, after=4.0),
    ),
    scenario("demand that is denied is pressure on its first candidate, in slices")
    .group("first", priority=1, cpu=4, max_slices=1, busy=1)
    .group("second", priority=2, cpu=4, max_slices=1, busy=1)
    .wants(6, cpu=1)
    .expects(
        unmet=[unmet(Code.NO_CAPACITY, 6)],
        pressure={"first": Pressure(capacity=2), "second": Pressure()},
    ),
    scenario("a gang that is denied is pressure of all its slices")
    .group("g", tpu=4, hosts=4, max_slices=1)
    .wants(2, tpu=4, gang=8)
    .expects(unmet=[unmet(Code.NO_CAPACITY, 2)], pressure={"g": Pressure(capacity=4)}),
    scenario("demand that no group could ever take is pressure on none")
    .group("g")
    .wants(1, cpu=64)
    .expects(unmet=[unmet(Code.INSUFFICIENT_RESOURCES)], pressure={"g": Pressure()}),
    scenario("busy slices above the watermark are logical pressure")
    .group("g", watermark=80, max_slices=10, busy=10)
    .expects(pressure={"g": Pressure(logical=2)}),
    scenario("slices launched, on their way and leaving are accounted for")
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

RULES = (
    *TIERS,
    *STATES,
    *USAGE,
    *SPARES,
    *CONSERVING,
    *RANK,
    *MATCHING,
    *OPERATORS,
    *HOSTS,
    *WHOLE_SLICES,
    *SPREAD_AND_PACK,
    *POOLS,
    *HEALTH,
    *LIMITS,
    *STANDING,
    *REASONS,
    *FIGURES,
)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_rule(rule: Case) -> None:
    check(rule)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_order_of_listing_is_irrelevant(rule: Case) -> None:
    decision, turned = listed_in_reverse(rule)
    assert decision == turned
