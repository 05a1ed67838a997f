"""Rules of group selection: accelerators, rank, matching, operators of constraints, space on hosts."""

from penstock.model.constraints import Operator as Op
from penstock.model.decision import Code, Tier
from penstock.model.resources import Resources
from penstock.model.slices import HostUsage, SliceState
from tests.scenarios.builder import must, reserved, scenario, should, unmet
from tests.scenarios.cases import Case

READY, IN_FLIGHT, NEW = Tier.READY, Tier.IN_FLIGHT, Tier.NEW


CONSERVING = (
    scenario("work that needs no accelerator goes to a group without accelerators, regardless of priority")
    .group("tpu", priority=1, tpu=4)
    .group("cpu", priority=90)
    .wants(1, cpu=1)
    .expects(placed={"cpu": 1}, launches={"cpu": 1}),
    scenario("a new slice without accelerators comes before free space on an accelerator slice")
    .group("gpu", priority=1, gpu=1, idle=1)
    .group("cpu", priority=90)
    .wants(1, cpu=1)
    .expects(placed={"cpu": 1}, tiers={"cpu": {NEW: 1}}, launches={"cpu": 1}),
    scenario("work that needs no accelerator uses accelerator slices when no other group can take it")
    .group("tpu", tpu=4)
    .group("cpu", max_slices=1)
    .wants(2, cpu=4)
    .expects(placed={"cpu": 1, "tpu": 1}, launches={"cpu": 1, "tpu": 1}),
    scenario("a gang that must use accelerator slices uses other slices first")
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
    scenario("without conserve_accelerators entries are placed in order of arrival")
    .cluster(conserve_accelerators=False)
    .group("tpu", tpu=4, max_slices=1)
    .wants(1, cpu=1, id="small")
    .wants(1, tpu=4, id="train")
    .expects(placed={"tpu": 1}, launches={"tpu": 1}, unmet=[unmet(Code.NO_CAPACITY, tasks="train", says=["tpu=at_max"])]),
    scenario("packing keeps GPU hosts for GPU work while a CPU gang fits elsewhere")
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
    scenario("a group without a price comes after groups with one")
    .group("a")
    .group("b", price=900.0)
    .wants(1, cpu=1)
    .expects(placed={"b": 1}, launches={"b": 1}),
    scenario("groups that are equal otherwise are ordered by name")
    .group("b", price=1.0)
    .group("a", price=1.0)
    .wants(1, cpu=1)
    .expects(placed={"a": 1}, launches={"a": 1}),
    scenario("a soft constraint comes before priority")
    .group("first", priority=1)
    .group("spot", priority=90, preemptible=True)
    .wants(1, cpu=1, constraints=[should("preemptible", Op.EQ, True)])
    .expects(placed={"spot": 1}, launches={"spot": 1}),
    scenario("a soft constraint never excludes: work that no longer fits the preferred group goes to the other")
    .group("first", priority=1)
    .group("spot", priority=90, preemptible=True, max_slices=1)
    .wants(2, cpu=4, constraints=[should("preemptible", Op.EQ, True)])
    .expects(placed={"spot": 1, "first": 1}, launches={"spot": 1, "first": 1}),
    scenario("two soft constraints satisfied come before one")
    .group("one", priority=1, preemptible=True)
    .group("two", priority=90, preemptible=True, zone="us-west4-a")
    .wants(1, cpu=1, constraints=[should("preemptible", Op.EQ, True), should("zone", Op.EQ, "us-west4-a")])
    .expects(placed={"two": 1}, launches={"two": 1}),
    scenario("a hard constraint overrides soft ones")
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
    scenario("any of the listed variants is accepted")
    .group("a", tpu=4, variant="v5p-8")
    .group("b", tpu=4, variant="v4-8")
    .group("c", tpu=8, variant="v6e-8")
    .wants(1, tpu=4, variants=["v6e-8", "v4-8"])
    .expects(placed={"b": 1}, launches={"b": 1}),
    scenario("work with preemptible true uses only preemptible slices")
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
    """Three groups of one slice each, two of them with the attribute generation. The work fills every slice that matches."""
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
    scenario("hosts are bins: free space of two hosts does not add up")
    .group("g", hosts=2, max_slices=1)
    .wants(3, cpu=2.5)
    .expects(placed={"g": 2}, launches={"g": 1}, unmet=[unmet(Code.NO_CAPACITY)]),
    scenario("GPU tasks share a host by count")
    .group("g", cpu=16, gpu=8)
    .wants(3, gpu=4)
    .expects(placed={"g": 3}, launches={"g": 2}),
    scenario("a share above one half takes a GPU of its own: three such tasks do not fit on two GPUs")
    .group("g", gpu=2)
    .wants(3, gpu=0.6)
    .expects(placed={"g": 3}, launches={"g": 2}),
    scenario("running tasks with shares above one half leave no GPU half free")
    .group("g", gpu=4, cpu=8, max_slices=1)
    .slice("s", "g", SliceState.READY, usage=HostUsage(reserved=Resources(gpu=1.8), tasks=("a", "b", "c")))
    .wants(2, gpu=0.6)
    .expects(placed={"g": 1}, unmet=[unmet(Code.NO_CAPACITY)]),
    scenario("the message for shares that a host has too few GPUs for gives the shares as asked")
    .group("g", gpu=2)
    .wants(1, gpu=0.6, gang=3, tasks_per_host=3)
    .expects(
        unmet=[
            unmet(
                Code.INSUFFICIENT_RESOURCES,
                says=["needs gpu 1.8 (a share above one half takes a GPU of its own), one host has 2: 1 short"],
            )
        ]
    ),
    scenario("GPU tasks may share one GPU by fractions")
    .group("g", cpu=16, gpu=1)
    .wants(5, gpu=0.25)
    .expects(placed={"g": 5}, launches={"g": 2}),
    scenario("a task on TPU chips uses its host exclusively, even if chips are left")
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

RULES = (*CONSERVING, *RANK, *MATCHING, *OPERATORS, *HOSTS)
