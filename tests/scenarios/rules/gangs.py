"""Rules of gangs by placement: whole slices, spread, pack."""

from penstock.model.decision import Code, Tier
from penstock.model.slices import HostUsage, SliceState
from tests.scenarios.builder import reserved, scenario, unmet

READY, IN_FLIGHT, NEW = Tier.READY, Tier.IN_FLIGHT, Tier.NEW


WHOLE_SLICES = (
    scenario("a gang of 8 takes two slices of 4 hosts, both of one group")
    .group("first", priority=10, tpu=4, hosts=4, max_slices=1)
    .group("second", priority=20, tpu=4, hosts=4, max_slices=2)
    .wants(1, tpu=4, gang=8)
    .expects(placed={"second": 1}, launches={"second": 2}, required={"second": 2}),
    scenario("the message for a gang that fits no slice size lists the sizes on offer")
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
    scenario("a gang goes to the group whose slices it fills, regardless of priority")
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
    scenario("a gang takes empty READY slices before slices in flight")
    .group("first", priority=1, tpu=4, hosts=4, booting=2)
    .group("second", priority=2, tpu=4, hosts=4, idle=2)
    .wants(1, tpu=4, gang=8)
    .expects(placed={"second": 1}, tiers={"second": {READY: 1}}),
    scenario("a gang takes READY slices and slices in flight together")
    .group("g", tpu=4, hosts=4, idle=1, booting=1)
    .wants(1, tpu=4, gang=8)
    .expects(placed={"g": 1}, tiers={"g": {IN_FLIGHT: 1}}),
    scenario("a gang opens only the slices it lacks")
    .group("g", tpu=4, hosts=4, idle=1, booting=1)
    .wants(1, tpu=4, gang=16)
    .expects(placed={"g": 1}, tiers={"g": {NEW: 1}}, launches={"g": 2}, required={"g": 4}),
    scenario("a slice with one host in use is not empty")
    .group("g", tpu=4, hosts=2)
    .slice("s", "g", SliceState.READY, usage=[HostUsage(), reserved(cpu=1)])
    .wants(1, tpu=4, gang=2)
    .expects(placed={"g": 1}, tiers={"g": {NEW: 1}}, launches={"g": 1}),
    scenario("a gang shares its slices with nothing")
    .group("g", hosts=2, max_slices=1)
    .wants(1, cpu=1, gang=2)
    .wants(1, cpu=1, id="small")
    .expects(placed={"g": 1}, launches={"g": 1}, unmet=[unmet(Code.NO_CAPACITY, tasks="small", says=["g=at_max"])]),
    scenario("a gang that does not fit whole takes nothing, and later entries may use the capacity")
    .group("g", tpu=4, hosts=4, max_slices=1)
    .wants(1, tpu=4, gang=8, id="large")
    .wants(1, tpu=4, gang=4, id="small")
    .expects(placed={"g": 1}, launches={"g": 1}, unmet=[unmet(Code.NO_CAPACITY, tasks="large", says=["g=at_max"])]),
    scenario("the message for an inconsistent gang names the field and two tasks, and other entries are placed")
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
    scenario("a spread gang puts each task on a different host")
    .group("g", hosts=2)
    .wants(1, cpu=1, gang=3, gang_placement="spread")
    .expects(placed={"g": 1}, launches={"g": 2}, required={"g": 2}),
    scenario("a spread gang shares its hosts with others")
    .group("g", max_slices=2)
    .wants(1, cpu=2, gang=2, gang_placement="spread")
    .wants(2, cpu=2)
    .expects(placed={"g": 3}, launches={"g": 2}),
    scenario("a spread gang takes hosts of several groups, READY first, and counts for the group that completes it")
    .group("busy", priority=1, max_slices=1)
    .slice("s", "busy", SliceState.READY, usage=reserved(cpu=1))
    .group("coming", priority=2, max_slices=1, booting=1)
    .group("new", priority=3)
    .wants(1, cpu=2, gang=3, gang_placement="spread")
    .expects(placed={"new": 1}, tiers={"new": {NEW: 1}}, launches={"new": 1}, required={"coming": 1, "new": 1}),
    scenario("a spread gang does not use hosts on which its other tasks run")
    .group("g")
    .slice("a", "g", SliceState.READY, usage=reserved(cpu=1, gangs=["job"]))
    .slice("b", "g", SliceState.READY, usage=reserved(cpu=1, gangs=["else"]))
    .wants(1, cpu=1, gang=3, gang_id="job", pending=2, gang_placement="spread")
    .expects(placed={"g": 1}, tiers={"g": {NEW: 1}}, launches={"g": 1}),
    scenario("a spread gang is placed whole or not at all, and opens nothing if it does not fit")
    .group("g", max_slices=2)
    .wants(1, cpu=1, gang=3, gang_placement="spread", id="gang")
    .wants(2, cpu=4, id="behind")
    .expects(placed={"g": 2}, launches={"g": 2}, unmet=[unmet(Code.NO_CAPACITY, tasks="gang", says=["g=at_max"])]),
    scenario("a pack gang uses few hosts")
    .group("g", hosts=2)
    .wants(1, cpu=1, gang=4, gang_placement="pack")
    .wants(1, cpu=4)
    .expects(placed={"g": 2}, launches={"g": 1}),
    scenario("a pack gang puts at most tasks_per_host tasks on one host")
    .group("g")
    .wants(1, cpu=1, gang=4, gang_placement="pack", tasks_per_host=2)
    .expects(placed={"g": 1}, launches={"g": 2}),
    scenario("a pack gang on TPU chips puts one task on a host")
    .group("g", tpu=8)
    .wants(1, tpu=4, gang=2, gang_placement="pack")
    .expects(placed={"g": 1}, launches={"g": 2}),
    scenario("a pack gang on TPU chips puts tasks_per_host tasks on a READY host that it takes alone")
    .group("g", tpu=8, hosts=3, idle=1)
    .wants(3, tpu=4, gang=2, gang_placement="pack", tasks_per_host=2)
    .expects(placed={"g": 3}, tiers={"g": {READY: 3}}, launches={}),
    scenario("a pack gang on TPU chips puts more tasks on a host if the group has shared_tpu")
    .group("g", tpu=8, shared_tpu=True)
    .wants(1, tpu=4, gang=2, gang_placement="pack")
    .expects(placed={"g": 1}, launches={"g": 1}),
    scenario("a pack gang prefers READY hosts with more free space, and so uses fewer hosts")
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

NOTHING_FOR_NOTHING = (
    scenario("a pack gang opens only slices that it uses")
    .group("small", priority=1, cpu=2, max_slices=2)
    .group("large", priority=2, cpu=5, max_slices=1)
    .wants(1, cpu=1, gang=5, gang_placement="pack")
    .expects(placed={"large": 1}, launches={"large": 1}),
)

RULES = (*WHOLE_SLICES, *SPREAD_AND_PACK, *NOTHING_FOR_NOTHING)
