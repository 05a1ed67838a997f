"""Rules of giving back: which slices drain, which are called off on their way, and which drains are taken back."""

from penstock.model.decision import Cause, Code, Tier
from penstock.model.slices import Availability, SliceState
from tests.scenarios.builder import reserved, scenario, unmet

READY, REQUESTING, BOOTING, DRAINING = SliceState.READY, SliceState.REQUESTING, SliceState.BOOTING, SliceState.DRAINING
IDLE, NOT_NEEDED, ABOVE_MAXIMUM, GROUP_REMOVED = "idle", "not needed", "above maximum", "group removed"


IDLENESS = (
    scenario("a slice that is idle for the timeout drains, and the decision names the moment of the next one")
    .group("g", idle_timeout="10m")
    .slice("long", "g", READY, usage="idle", idle="10m")
    .slice("short", "g", READY, usage="idle", idle="4m")
    .expects(drains={"long": IDLE}, changes_in="6m"),
    scenario("the longest idle slice goes first, and of equals the dearer")
    .group("cheap", price=1)
    .group("dear", price=2)
    .slice("a", "cheap", READY, usage="idle", idle="20m")
    .slice("b", "dear", READY, usage="idle", idle="20m")
    .slice("c", "cheap", READY, usage="idle", idle="21m")
    .expects(drains=["c", "b", "a"]),
    scenario("a slice that came back from a drain does not drain again before usage says anew that it is idle")
    .group("g")
    .slice("s", "g", READY, age="5h", usage="idle")
    .expects(drains=[], changes_in="never"),
)

FLOORS = (
    scenario("the minimum stays")
    .group("g", min_slices=1)
    .slice("long", "g", READY, usage="idle", idle="30m")
    .slice("short", "g", READY, usage="idle", idle="20m")
    .expects(drains=["long"]),
    scenario("warm slices stay")
    .group("g", warm_slices=1)
    .slice("long", "g", READY, usage="idle", idle="30m")
    .slice("short", "g", READY, usage="idle", idle="20m")
    .expects(drains=["long"]),
    scenario("what a standing request needs stays")
    .group("g")
    .slice("long", "g", READY, usage="idle", idle="30m")
    .slice("short", "g", READY, usage="idle", idle="20m")
    .standing("team", 1, cpu=4)
    .expects(standing={"team": "met"}, drains=["long"]),
    scenario("what the watermark asks for stays")
    .group("g", watermark=50, busy=1)
    .slice("long", "g", READY, usage="idle", idle="30m")
    .slice("short", "g", READY, usage="idle", idle="20m")
    .expects(target={"g": 2}, drains=["long"]),
    scenario("the slice on which demand is placed stays, however long it has been idle")
    .group("g")
    .slice("long", "g", READY, usage="idle", idle="30m")
    .slice("short", "g", READY, usage="idle", idle="20m")
    .wants(1, cpu=4)
    .expects(placed={"g": 1}, drains=["short"]),
)

PROTECTED = (
    scenario("the oldest slice by its order, not by its place in the ledger, is the last to go if it is protected")
    .group("g", min_slices=1, protect_first=True)
    .slice("g-260824-110000-0badcafe", "g", READY, usage="idle", idle="20m")
    .slice("g-260824-100000-0badcafe", "g", READY, usage="idle", idle="30m")
    .expects(drains=["g-260824-110000-0badcafe"]),
    scenario("a protected slice goes once the target is zero")
    .group("g", protect_first=True)
    .slice("first", "g", READY, usage="idle", idle="30m")
    .expects(drains=["first"]),
    scenario("above a maximum the protected slice stays, and the next one goes once it is idle")
    .group("g", max_slices=1, protect_first=True)
    .slice("first", "g", READY, usage="idle", idle="30m")
    .slice("second", "g", READY, usage="busy")
    .expects(drains=[]),
)

ON_THEIR_WAY = (
    scenario("a slice on its way that nothing needs is called off after a while, the newest first")
    .group("g", min_slices=1, cancel_after="1m")
    .slice("a", "g", BOOTING, unneeded="59s")
    .slice("b", "g", BOOTING, unneeded="60s")
    .slice("c", "g", BOOTING, unneeded="60s")
    .expects(unneeded=["c", "b"], drains={"c": NOT_NEEDED, "b": NOT_NEEDED}),
    scenario("of slices on their way those that are not started go first")
    .group("g", min_slices=1)
    .slice("a", "g", REQUESTING, started=False)
    .slice("b", "g", REQUESTING)
    .expects(unneeded=["a"], drains=[], changes_in="1m"),
    scenario("a stalled slice of the minimum is neither called off nor ordered again")
    .group("g", min_slices=1)
    .slice("s", "g", REQUESTING, age="20m", unneeded="10m")
    .expects(unneeded=[], drains=[], launches={}),
    scenario("a queued slice of the minimum keeps its place beyond patience")
    .group("g", min_slices=1)
    .slice("s", "g", REQUESTING, queued=True, age="20m", unneeded="10m")
    .expects(unneeded=[], drains=[], launches={}),
    scenario("a queued spare keeps its place beyond patience")
    .group("g", warm_slices=1)
    .slice("s", "g", REQUESTING, queued=True, age="20m", unneeded="10m")
    .expects(unneeded=[], drains=[], launches={}),
    scenario("a stalled slice that the watermark asked for stays")
    .group("g", watermark=50, busy=1)
    .slice("s", "g", REQUESTING, age="20m", unneeded="10m")
    .expects(unneeded=[], drains=[], launches={}),
    scenario("of stalled slices beyond the minimum the newest is called off")
    .group("g", min_slices=1)
    .slice("a", "g", REQUESTING, age="30m", unneeded="10m")
    .slice("b", "g", REQUESTING, age="20m", unneeded="10m")
    .expects(drains={"b": NOT_NEEDED}),
    scenario("a stalled slice goes before the one on its way that meets the minimum instead, though that is newer")
    .group("g", min_slices=1)
    .slice("stalled", "g", REQUESTING, age="20m", unneeded="10m")
    .slice("booting", "g", BOOTING, unneeded="10m")
    .expects(drains={"stalled": NOT_NEEDED}),
    scenario("no READY slice of the minimum goes because another one waits in a queue")
    .group("g", min_slices=1, keep_queued=True)
    .slice("queued", "g", REQUESTING, queued=True, age="20m")
    .slice("ready", "g", READY, usage="idle", idle="20m")
    .expects(unneeded=[], drains=[]),
)

QUEUES = (
    scenario("a queued slice that nothing wants any more is called off")
    .group("g")
    .slice("s", "g", REQUESTING, queued=True, age="20m", unneeded="1m")
    .expects(drains={"s": NOT_NEEDED}),
    scenario("with keep_queued a slice keeps its place in the queue though nothing wants it")
    .group("g", keep_queued=True)
    .slice("young", "g", REQUESTING, queued=True, age="1m", unneeded="1m")
    .slice("old", "g", REQUESTING, queued=True, age="20m", unneeded="1m")
    .expects(unneeded=[], drains=[]),
    scenario("a queued slice keeps its place while demand that it could take is unmet")
    .group("g")
    .slice("s", "g", REQUESTING, queued=True, age="20m", unneeded="1m")
    .wants(1, cpu=4)
    .expects(unmet=[unmet(Code.NO_CAPACITY)], unneeded=[], drains=[]),
    scenario("a queued slice keeps its place while the demand that it could take waits for a slice on its way")
    .group("g")
    .group("other", booting=1)
    .slice("s", "g", REQUESTING, queued=True, age="20m", unneeded="1m")
    .wants(1, cpu=4)
    .expects(placed={"other": 1}, unneeded=[], drains=[]),
    scenario("a queued slice is called off once the demand that it could take has a READY slice")
    .group("g")
    .group("other", idle=1)
    .slice("s", "g", REQUESTING, queued=True, age="20m", unneeded="1m")
    .wants(1, cpu=4)
    .expects(placed={"other": 1}, drains={"s": NOT_NEEDED}),
    scenario("demand that a queued slice could not take does not keep its place")
    .group("g")
    .slice("s", "g", REQUESTING, queued=True, age="20m", unneeded="1m")
    .wants(1, cpu=5)
    .expects(unmet=[unmet(Code.INSUFFICIENT_RESOURCES)], drains={"s": NOT_NEEDED}),
    scenario("demand of a lapsed lease keeps no place in a queue")
    .group("g", booting=1)
    .slice("s", "g", REQUESTING, queued=True, age="20m", unneeded="1m")
    .source("a", lease_ends="-5m")
    .wants(1, cpu=4, source="a")
    .expects(placed={"g": 1}, unneeded=["s", "g/booting"], drains={"s": NOT_NEEDED}),
    scenario("a queued slice keeps its place while a standing request that it could meet is refused")
    .group("g")
    .slice("s", "g", REQUESTING, queued=True, age="20m", unneeded="1m")
    .standing("team", 1, cpu=4)
    .expects(standing={"team": Code.NO_CAPACITY}, unneeded=[], drains=[]),
    scenario("a stalled slice stays until the one that meets the standing request instead is READY")
    .group("g", booting=1)
    .slice("s", "g", REQUESTING, age="20m", unneeded="1m")
    .standing("team", 1, cpu=4)
    .expects(standing={"team": "met"}, unneeded=[], drains=[]),
)

MAXIMUMS = (
    scenario("above a maximum goes first what was never started, then what is on its way, the newest first, then what is idle")
    .group("g", max_slices=0)
    .slice("short", "g", READY, usage="idle", idle="1m")
    .slice("long", "g", READY, usage="idle", idle="2m")
    .slice("busy", "g", READY, usage="busy")
    .slice("stalled", "g", REQUESTING, age="20m")
    .slice("booting", "g", BOOTING)
    .slice("ordered", "g", REQUESTING, started=False)
    .expects(drains=["ordered", "booting", "stalled", "long", "short"]),
    scenario("above a maximum a slice that is stalled goes no sooner than what was never started")
    .group("g", max_slices=1)
    .slice("stalled", "g", REQUESTING, age="20m")
    .slice("ordered", "g", REQUESTING, started=False)
    .expects(drains=["ordered"]),
    scenario("above a maximum nothing drains on the word of a silent source")
    .group("g", max_slices=0)
    .slice("s", "g", READY, usage="idle", idle="20m", stale_in="0s")
    .expects(drains=[], changes_in="never"),
    scenario("above a maximum a slice whose source is not silent for too long yet drains at once")
    .group("g", max_slices=0)
    .slice("s", "g", READY, usage="idle", idle="1m", stale_in="5m")
    .expects(drains={"s": ABOVE_MAXIMUM}, changes_in="5m"),
    scenario("above a maximum a slice that did not join goes first: it holds nothing")
    .group("g", max_slices=2)
    .slice("a", "g", READY, usage="idle", idle="1m")
    .slice("b", "g", BOOTING)
    .slice("stranger", "g", READY, age="10m", unclaimed="5m")
    .expects(drains={"stranger": ABOVE_MAXIMUM}),
    scenario("a slice that is given up because it did not join is drained once, and makes room below the maximum")
    .cluster(unclaimed_after="5m")
    .group("g", max_slices=1)
    .slice("a", "g", READY, usage="idle", idle="1m")
    .slice("stranger", "g", READY, age="10m", unclaimed="5m")
    .expects(drains={"stranger": "no controller has named it"}),
)

CLUSTER_MAXIMUM = (
    scenario("above the cluster's maximum the longest idle slice of all groups goes at once, and of equals the dearer")
    .cluster(max_slices=2)
    .group("cheap", price=1)
    .group("dear", price=2)
    .slice("a", "cheap", READY, usage="idle", idle="3m")
    .slice("b", "cheap", READY, usage="idle", idle="2m")
    .slice("c", "dear", READY, usage="idle", idle="2m")
    .slice("d", "dear", READY, usage="idle", idle="1m")
    .expects(drains={"a": ABOVE_MAXIMUM, "c": ABOVE_MAXIMUM}),
    scenario("above the cluster's maximum goes first what was never started, then what is on its way")
    .cluster(max_slices=1)
    .group("g")
    .group("h")
    .slice("idle", "g", READY, usage="idle", idle="1m")
    .slice("booting", "g", BOOTING)
    .slice("ordered", "h", REQUESTING, started=False)
    .expects(drains=["ordered", "booting"]),
    scenario("above the cluster's maximum no group falls below its minimum")
    .cluster(max_slices=2)
    .group("g", min_slices=1)
    .group("h")
    .slice("a", "g", READY, usage="idle", idle="30m")
    .slice("b", "h", READY, usage="idle", idle="2m")
    .slice("c", "h", READY, usage="idle", idle="1m")
    .expects(drains={"b": ABOVE_MAXIMUM}),
    scenario("above the cluster's maximum a slice of a removed group goes before others that are idle")
    .cluster(max_slices=1)
    .group("g")
    .retired("gone")
    .slice("a", "g", READY, usage="idle", idle="3m")
    .slice("b", "gone", READY, usage="idle", idle="1m")
    .expects(drains={"b": ABOVE_MAXIMUM}),
    scenario("what drains above the cluster's maximum is told once, also while drains are only shown")
    .cluster(max_slices=0, scale_down="observe")
    .group("g")
    .slice("s", "g", READY, usage="idle", idle="30m")
    .expects(drains={"s": ABOVE_MAXIMUM}),
    scenario("what is busy above the cluster's maximum stays")
    .cluster(max_slices=1)
    .group("g", busy=2)
    .expects(drains=[], launches={}),
    scenario("above the cluster's maximum no drain is taken back, whatever demand waits")
    .cluster(max_slices=1)
    .group("g", idle=1)
    .slice("s", "g", DRAINING, drain=ABOVE_MAXIMUM, usage="idle")
    .wants(2, cpu=4)
    .expects(placed={"g": 1}, unmet=[unmet(Code.NO_CAPACITY)], cancelled=[], drains=[]),
    scenario("a drain is taken back as far as the cluster's maximum allows, in any group")
    .cluster(max_slices=2)
    .group("g", idle=1)
    .slice("a", "g", DRAINING, drain=IDLE, usage="idle")
    .group("h", max_slices=2)
    .slice("b", "h", DRAINING, drain=IDLE, usage="idle")
    .wants(3, cpu=4)
    .expects(placed={"g": 2}, unmet=[unmet(Code.NO_CAPACITY)], cancelled=["a"]),
)

TAKEN_BACK = (
    scenario("the minimum takes back a drain of a slice that turned busy before it launches another")
    .group("g", min_slices=1)
    .slice("s", "g", DRAINING, drain=IDLE, usage="busy")
    .expects(cancelled=["s"], launches={}, target={"g": 1}),
    scenario("the minimum takes back a busy slice also where no other could be launched")
    .group("g", min_slices=1, max_slices=1)
    .slice("s", "g", DRAINING, drain=ABOVE_MAXIMUM, usage="busy")
    .expects(cancelled=["s"], launches={}),
    scenario("the minimum takes back idle slices first: demand can use them too")
    .group("g", min_slices=1)
    .slice("idle", "g", DRAINING, drain=IDLE, usage="idle")
    .slice("busy", "g", DRAINING, drain=IDLE, usage="busy")
    .expects(cancelled=["idle"], launches={}),
    scenario("a standing request takes back a busy slice: it is measured on all capacity")
    .group("g")
    .slice("s", "g", DRAINING, drain=IDLE, usage="busy")
    .standing("team", 1, cpu=4)
    .expects(standing={"team": "met"}, cancelled=["s"], launches={}),
    scenario("a busy slice that comes back for a standing request makes it count as met also where no other could be launched")
    .group("g", max_slices=1)
    .slice("s", "g", DRAINING, drain=IDLE, usage="busy")
    .standing("team", 1, cpu=4)
    .expects(standing={"team": "met"}, cancelled=["s"], launches={}),
    scenario("a busy slice is no spare, so warm slices do not take it back")
    .group("g", warm_slices=1)
    .slice("s", "g", DRAINING, drain=IDLE, usage="busy")
    .expects(cancelled=[], launches={"g": 1}, causes={Cause.WARM: 1}),
    scenario("a busy slice has no room, so demand does not take it back")
    .group("g")
    .slice("s", "g", DRAINING, drain=IDLE, usage="busy")
    .wants(1, cpu=1)
    .expects(placed={"g": 1}, cancelled=[], launches={"g": 1}),
    scenario("a busy slice that an operator drains does not come back")
    .group("g", min_slices=1)
    .slice("s", "g", DRAINING, drain="ana", usage="busy")
    .expects(cancelled=[], launches={"g": 1}),
    scenario("demand is placed in the same decision on what is free on a slice that the minimum takes back")
    .group("g", min_slices=1)
    .slice("s", "g", DRAINING, drain=IDLE, usage=reserved(cpu=1))
    .wants(1, cpu=3)
    .expects(placed={"g": 1}, tiers={"g": {Tier.READY: 1}}, cancelled=["s"], launches={}),
)

STALE = (
    scenario("a slice of a silent source stays, and another one that the group can spare goes")
    .group("g", min_slices=1)
    .slice("silent", "g", READY, usage="idle", idle="30m", stale_in="0s")
    .slice("heard", "g", READY, usage="idle", idle="20m")
    .expects(drains={"heard": IDLE}),
    scenario("a slice whose source will be stale before it is idle for long enough stays")
    .group("g")
    .slice("s", "g", READY, usage="idle", idle="1m", stale_in="9m")
    .expects(drains=[], changes_in="never"),
    scenario("slices of a removed group do not drain on the word of a silent source either")
    .group("g")
    .retired("gone")
    .slice("s", "gone", READY, usage="idle", idle="30m", stale_in="0s")
    .expects(drains=[]),
)

RESYNC = (
    scenario("while demand is lost nothing drains for lack of demand, and no time without need is counted")
    .group("g")
    .source("a", resync="a delta was lost")
    .slice("idle", "g", READY, usage="idle", idle="30m")
    .slice("booting", "g", BOOTING, unneeded="30m")
    .expects(drains=[], unneeded=[], changes_in="never"),
    scenario("lost demand of a lapsed lease holds up no drain")
    .group("g")
    .source("a", resync="a delta was lost", lease_ends="-1s")
    .slice("idle", "g", READY, usage="idle", idle="30m")
    .expects(drains={"idle": IDLE}),
    scenario("lost demand holds up drains until its lease lapses, and the decision names the moment")
    .group("g")
    .source("a", resync="a delta was lost", lease_ends="5m")
    .slice("idle", "g", READY, usage="idle", idle="30m")
    .expects(drains=[], changes_in="5m"),
    scenario("lost demand holds up neither drains above a maximum nor those of removed groups")
    .group("g", max_slices=0)
    .retired("gone")
    .source("a", resync="a delta was lost")
    .slice("above", "g", READY, usage="idle", idle="30m")
    .slice("left", "gone", READY, usage="idle", idle="30m")
    .expects(drains={"above": ABOVE_MAXIMUM, "left": GROUP_REMOVED}),
)

GANGS = (
    scenario("slices that an incomplete gang would use are held for patience, and the decision names its end")
    .cluster(patience="10m")
    .group("g", max_slices=4)
    .health("g", Availability.DISABLED)
    .slice("a", "g", READY, usage="idle", idle="30m")
    .slice("b", "g", READY, usage="idle", idle="20m")
    .wants(1, cpu=4, gang=4)
    .expects(unmet=[unmet(Code.NO_CAPACITY)], drains=[], changes_in="10m"),
    scenario("the time counts from the first decision that could not place the gang")
    .cluster(patience="10m")
    .group("g", max_slices=4)
    .health("g", Availability.DISABLED)
    .slice("a", "g", READY, usage="idle", idle="30m")
    .wants(1, cpu=4, gang=4, waits="4m")
    .expects(unmet=[unmet(Code.NO_CAPACITY)], drains=[], changes_in="6m"),
    scenario("after patience the slices of an incomplete gang are released")
    .cluster(patience="10m")
    .group("g", max_slices=4)
    .health("g", Availability.DISABLED)
    .slice("a", "g", READY, usage="idle", idle="30m")
    .wants(1, cpu=4, gang=4, waits="10m")
    .expects(unmet=[unmet(Code.NO_CAPACITY)], drains={"a": IDLE}),
    scenario("a gang that no maximum allows holds nothing")
    .group("g", max_slices=3)
    .slice("a", "g", READY, usage="idle", idle="30m")
    .wants(1, cpu=4, gang=4)
    .expects(unmet=[unmet(Code.NO_CAPACITY)], drains={"a": IDLE}),
    scenario("an incomplete gang holds slices on their way as well")
    .group("g", max_slices=4)
    .health("g", Availability.DISABLED)
    .slice("a", "g", BOOTING, unneeded="5m")
    .wants(1, cpu=4, gang=4)
    .expects(unmet=[unmet(Code.NO_CAPACITY)], drains=[], unneeded=[]),
    scenario("an incomplete gang holds no slice of a group that could not take it")
    .group("g", max_slices=4, tpu=4, variant="v5e")
    .group("other")
    .health("g", Availability.DISABLED)
    .slice("a", "g", READY, usage="idle", idle="30m")
    .slice("b", "other", READY, usage="idle", idle="30m")
    .wants(1, tpu=4, gang=4)
    .expects(unmet=[unmet(Code.NO_CAPACITY)], drains={"b": IDLE}),
    scenario("a gang that is spread holds slices of all its groups")
    .cluster(patience="10m")
    .group("g", max_slices=2)
    .group("h", max_slices=2, hosts=2)
    .health("g", Availability.DISABLED)
    .health("h", Availability.DISABLED)
    .slice("a", "g", READY, usage="idle", idle="30m")
    .slice("b", "h", READY, usage="idle", idle="30m")
    .wants(1, cpu=4, gang=6, gang_placement="spread")
    .expects(unmet=[unmet(Code.NO_CAPACITY)], drains=[], changes_in="10m"),
    scenario("a spread gang that all slices of all groups could not hold holds nothing")
    .group("g", max_slices=2)
    .slice("a", "g", READY, usage="idle", idle="30m")
    .wants(1, cpu=4, gang=3, gang_placement="spread")
    .expects(unmet=[unmet(Code.NO_CAPACITY)], drains={"a": IDLE}),
    scenario("the demand of a lapsed lease holds no slice for its gangs")
    .group("g", max_slices=4)
    .source("a", lease_ends="-1m")
    .slice("s", "g", READY, usage="idle", idle="30m")
    .wants(1, cpu=4, gang=4, source="a")
    .expects(unmet=[unmet(Code.NO_CAPACITY)], drains={"s": IDLE}),
)

RULES = (
    *IDLENESS,
    *FLOORS,
    *PROTECTED,
    *ON_THEIR_WAY,
    *QUEUES,
    *MAXIMUMS,
    *CLUSTER_MAXIMUM,
    *TAKEN_BACK,
    *STALE,
    *RESYNC,
    *GANGS,
)
