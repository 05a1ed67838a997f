"""Rules of pressure: groups that reports of queue lengths drive. Ids are those of the study of another autoscaler."""

from typing import Any, NamedTuple

from penstock.model.cluster import Limits
from penstock.model.decision import Cause, Code, Outcome
from penstock.model.slices import SliceState
from tests.scenarios.builder import Scenario, deferred, scenario, unmet
from tests.scenarios.cases import Case

DRIVEN: dict[str, Any] = {"drive": "pressure", "slots": 2}


class Row(NamedTuple):
    """One row of S01: a report, what the group has and should have, its bounds, and what it should have then."""

    title: str
    queued: int
    running: int
    capacity: int
    slices: int
    desired: int
    least: int
    most: int
    slots: int
    then: int

    def case(self) -> Case:
        """The row as a decision: slices on order are in flight."""
        group: dict[str, Any] = DRIVEN | {"min_slices": self.least, "max_slices": self.most, "slots": self.slots}
        given = {"queued": self.queued, "running": self.running, "capacity": self.capacity, "slices": self.slices}
        built = scenario(self.title).group("g", **group, idle=self.slices, booting=self.desired - self.slices)
        more = self.then - self.desired
        causes = {Cause.PRESSURE: more} if more else {}
        facts: dict[str, Any] = {"desired": {"g": self.then}, "target": {"g": self.then}, "causes": causes}
        return built.reports("g", desired=self.desired, **given).expects(launches={"g": more}, **facts)  # type: ignore[arg-type]


_S01 = (
    Row("S01-1 queued tasks grow the group by the slices that they fill", 12, 4, 8, 4, 4, 2, 16, 2, then=10),
    Row("S01-2 the maximum caps the growth", 12, 4, 8, 4, 4, 2, 8, 2, then=8),
    Row("S01-3 the growth counts from the slices that the report has seen", 6, 4, 4, 2, 2, 1, 8, 2, then=5),
    Row("S01-4 no slot for each slice counts as one", 4, 0, 2, 2, 2, 1, 8, 0, then=6),
    Row("S01-5 queued tasks neither lower what is wanted nor order twice what is on order", 2, 8, 8, 4, 7, 2, 16, 2, then=7),
    Row("S01-6 a queue wakes a group that has no slice", 1, 0, 0, 0, 0, 0, 8, 2, then=1),
)
S01 = tuple(row.case() for row in _S01)


def _cooling(sentence: str, **group: Any) -> Scenario:
    fields: dict[str, Any] = DRIVEN | {"min_slices": 2, "max_slices": 16, "shrink_cooldown": "30s"} | group
    return scenario(sentence).group("g", **fields)


_BUSY: dict[str, Any] = {"queued": 8, "running": 12, "capacity": 12, "slices": 6, "desired": 6}
_QUIET: dict[str, Any] = {"queued": 0, "running": 1, "capacity": 20, "slices": 10, "desired": 10}
S03 = (
    _cooling("S03 at 10s: growing waits for no cooldown", idle=6)
    .reports("g", **_BUSY, acted="10s")
    .expects(desired={"g": 10}, launches={"g": 4}),
    _cooling("S03 at 20s: shrinking waits for the cooldown, which counts from the growth", idle=10)
    .reports("g", **_QUIET, acted="10s")
    .expects(desired={"g": 10}, drains=[], changes_in="20s"),
    _cooling("S03 at 40s: once the cooldown is over the stored report is judged again", idle=10)
    .reports("g", **_QUIET, ago="20s", acted="30s")
    .expects(desired={"g": 2}, drains=[f"g/idle/{number}" for number in range(9, 1, -1)], changes_in="never"),
    _cooling("S03 variant at 10s: growing has a cooldown of its own", idle=6, grow_cooldown="30s")
    .reports("g", **_BUSY, acted="10s")
    .expects(desired={"g": 6}, launches={}, changes_in="20s"),
    _cooling("S03 variant at 30s: then the stored report grows the group", idle=6, grow_cooldown="30s")
    .reports("g", **_BUSY, ago="20s", acted="30s")
    .expects(desired={"g": 10}, launches={"g": 4}),
)


def _six(sentence: str, *draining: int) -> Scenario:
    """Six slices, of which some drain."""
    built = scenario(sentence).group("g", **DRIVEN | {"slots": 1})
    for number in range(6):
        state = SliceState.DRAINING if number in draining else SliceState.READY
        built = built.slice(f"s{number}", "g", state, usage="idle", drain=number in draining)
    return built


S13 = (
    _six("S13 first: a decrease from six to four drains the two newest")
    .reports("g", running=3, capacity=20, slices=6, desired=6)
    .expects(desired={"g": 4}, drains=["s5", "s4"]),
    _six("S13 then: a decrease to three while they drain takes one more, and no more", 4, 5)
    .reports("g", running=2, capacity=20, slices=6, desired=4)
    .expects(desired={"g": 3}, drains=["s3"]),
)
S15 = (
    scenario("S15 an idle group whose slices are all idle shrinks to its oldest slice")
    .group("g", **DRIVEN, min_slices=1, idle=3, idle_timeout="10m")
    .reports("g", ago="10m", slices=3, capacity=6, desired=3)
    .expects(desired={"g": 1}, drains=["g/idle/2", "g/idle/1"], changes_in="never"),
)

SHRINKING = (
    scenario("a group that uses three tenths of its capacity stays")
    .group("g", **DRIVEN, idle=5)
    .reports("g", running=3, capacity=10, slices=5, desired=5)
    .expects(desired={"g": 5}, drains=[], changes_in="never"),
    scenario("one that uses less keeps the slices that its tasks fill, and one more")
    .group("g", **DRIVEN, idle=5)
    .reports("g", running=3, capacity=11, slices=5, desired=5)
    .expects(desired={"g": 3}, drains=["g/idle/4", "g/idle/3"]),
    scenario("an idle group keeps one slice until its idle timeout, and the decision names the moment")
    .group("g", **DRIVEN, idle=2, idle_timeout="10m")
    .reports("g", ago="4m", slices=2, capacity=4, desired=1, acted="4m")
    .expects(desired={"g": 1}, drains=["g/idle/1"], changes_in="6m"),
    scenario("after its idle timeout an idle group without a minimum has nothing, and its oldest slice goes too")
    .group("g", **DRIVEN, idle=2, idle_timeout="10m")
    .reports("g", ago="10m", slices=2, capacity=4, desired=1, acted="10m")
    .expects(desired={"g": 0}, drains=["g/idle/1", "g/idle/0"], outcomes={"g": Outcome.IDLE}),
    scenario("the idle timeout of a group that has just acted ends with its cooldown")
    .group("g", **DRIVEN, idle=2, idle_timeout="10m", shrink_cooldown="30s")
    .reports("g", ago="599s", slices=2, desired=2, acted="10s")
    .expects(desired={"g": 2}, drains=[], changes_in="20s"),
    scenario("busy slices go like idle ones: their controller moves the work, and confirms")
    .group("g", **DRIVEN, min_slices=1, busy=3)
    .reports("g", running=1, capacity=6, slices=3, desired=3)
    .expects(desired={"g": 2}, drains=["g/busy/2"]),
    scenario("a slice whose drain nobody confirmed stays until a newer report comes, and no older one goes instead")
    .group("g", **DRIVEN)
    .slice("old", "g", SliceState.READY)
    .slice("middle", "g", SliceState.READY)
    .slice("new", "g", SliceState.READY, unconfirmed="1m")
    .reports("g", ago="2m", running=1, capacity=6, slices=3, desired=2)
    .expects(desired={"g": 2}, drains=[]),
    scenario("a newer report drains it again")
    .group("g", **DRIVEN)
    .slice("old", "g", SliceState.READY)
    .slice("middle", "g", SliceState.READY)
    .slice("new", "g", SliceState.READY, unconfirmed="1m")
    .reports("g", ago="30s", running=1, capacity=6, slices=3, desired=2)
    .expects(drains=["new"]),
)

TAKEN_BACK = (
    scenario("what is wanted again takes drains back, also of slices that no report of usage names, before it launches")
    .group("g", **DRIVEN)
    .slice("old", "g", SliceState.READY)
    .slice("new", "g", SliceState.DRAINING, drain="pressure", count=2)
    .reports("g", queued=4, running=2, capacity=2, slices=1, desired=1)
    .expects(desired={"g": 3}, cancelled=["new/1", "new/0"], launches={}),
    scenario("and launches what is missing")
    .group("g", **DRIVEN)
    .slice("old", "g", SliceState.READY)
    .slice("new", "g", SliceState.DRAINING, drain="pressure", usage="busy")
    .reports("g", queued=4, running=2, capacity=2, slices=1, desired=1)
    .expects(desired={"g": 3}, cancelled=["new"], launches={"g": 1}, causes={Cause.PRESSURE: 1}),
    scenario("a slice that an operator keeps does not drain, and the next one goes instead")
    .group("g", **DRIVEN)
    .slice("old", "g", SliceState.READY)
    .slice("middle", "g", SliceState.READY)
    .slice("new", "g", SliceState.READY, kept="1h")
    .reports("g", running=1, capacity=6, slices=3, desired=2)
    .expects(desired={"g": 2}, drains=["middle"]),
    scenario("slices on their way go before READY ones, once nothing has wanted them for a while")
    .group("g", **DRIVEN, idle=3)
    .slice("new", "g", SliceState.BOOTING, unneeded="30s")
    .reports("g", running=1, capacity=6, slices=3, desired=2)
    .expects(desired={"g": 2}, drains=["g/idle/2"], unneeded=["new"], changes_in="30s"),
)

BOUNDS = (
    scenario("what is wanted stays within a maximum that was lowered, and busy slices go, too")
    .group("g", **DRIVEN, max_slices=2, busy=3)
    .reports("g", running=6, capacity=6, slices=3, desired=3)
    .expects(desired={"g": 2}, drains=["g/busy/2"]),
    scenario("what is wanted stays within a minimum that was raised")
    .group("g", **DRIVEN, min_slices=3, busy=1)
    .reports("g", running=2, capacity=2, slices=1, desired=1)
    .expects(desired={"g": 3}, launches={"g": 2}, causes={Cause.MINIMUM: 2}),
    scenario("launch limits defer what pressure wants")
    .group("g", **DRIVEN, limits=Limits(in_flight=1))
    .reports("g", queued=4)
    .expects(desired={"g": 2}, launches={"g": 1}, deferred=[deferred("g", 1, "in_flight")]),
    scenario("slices on their way count, also those that wait for long")
    .group("g", **DRIVEN, booting=1)
    .slice("q", "g", SliceState.REQUESTING, queued=True)
    .reports("g", queued=4, desired=2)
    .expects(desired={"g": 2}, launches={}),
)

SILENCE = (
    scenario("without a report a group stays as it is")
    .group("g", **DRIVEN, idle=2, busy=1)
    .expects(desired={}, launches={}, drains=[], changes_in="never", why={"g": "no pressure report has come"}),
    scenario("without a report a group has its minimum")
    .group("g", **DRIVEN, min_slices=1)
    .expects(launches={"g": 1}, causes={Cause.MINIMUM: 1}),
    scenario("a stale report buys nothing, though a queue waits")
    .group("g", **DRIVEN, busy=1)
    .reports("g", queued=9, running=2, capacity=2, slices=1, desired=6, stale_in="-5m")
    .expects(desired={"g": 6}, target={"g": 1}, launches={}, why={"g": "its pressure report is stale"}),
    scenario("a stale report drains nothing, though the group is idle")
    .group("g", **DRIVEN, idle=3)
    .reports("g", ago="2h", slices=3, capacity=6, desired=3, stale_in="-5m")
    .expects(desired={"g": 3}, drains=[], changes_in="never"),
    scenario("what is on order is not ordered any more once the report is stale, and the decision names the moment")
    .group("g", **DRIVEN, max_slices=4, limits=Limits(in_flight=1))
    .reports("g", queued=4, desired=2, stale_in="5m")
    .expects(desired={"g": 2}, launches={"g": 1}, deferred=[deferred("g", 1, "in_flight")], changes_in="5m"),
)

ENTRIES = (
    scenario("no entry is placed on a group that pressure drives, though it has room")
    .group("g", **DRIVEN, idle=1)
    .wants(1, cpu=1)
    .expects(
        unmet=[
            unmet(
                Code.NO_MATCHING_GROUP,
                says=["only g could take it, and no entry is placed there: pressure reports drive that group"],
                groups={"g": Code.DRIVEN_BY_PRESSURE},
            )
        ]
    ),
    scenario("another group takes it, though it is preferred less")
    .group("g", **DRIVEN, idle=1, priority=0)
    .group("h", priority=1)
    .wants(1, cpu=1)
    .expects(placed={"h": 1}, launches={"h": 1}),
    scenario("a group that could not take it anyway says that instead")
    .group("g", **DRIVEN)
    .wants(1, cpu=1, preemptible=True)
    .expects(unmet=[unmet(Code.NO_MATCHING_GROUP, never_says=["pressure"], groups={"g": Code.CONSTRAINT_MISMATCH})]),
    scenario("standing requests are not met by it")
    .group("g", **DRIVEN, idle=4)
    .standing("team", 1, cpu=1)
    .expects(standing={"team": Code.NO_MATCHING_GROUP}, drains=[]),
)

RULES = (*S01, *S03, *S13, *S15, *SHRINKING, *TAKEN_BACK, *BOUNDS, *SILENCE, *ENTRIES)
