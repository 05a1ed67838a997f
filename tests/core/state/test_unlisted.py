"""Locations that cannot be watched: their groups say so and buy nothing; all others go on, also after a recovery."""

from datetime import timedelta

from penstock.contract.answers import LocationProblem, ProblemKind
from penstock.contract.inventories import LocationReport
from penstock.contract.tasks import demand_of
from penstock.core.answers.evaluate import evaluate
from penstock.core.answers.status import status_of
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import (
    CapacityRequested,
    ConfigApplied,
    DemandSnapshot,
    EvaluationFailed,
    LocationReported,
    LocationsUnwatched,
    RecoveryBegan,
    RecoveryWaited,
    ReportsCollected,
    UsageReported,
)
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.decision import Code
from penstock.model.failures import Failure, FailureKind
from penstock.model.slices import Availability, HostState, HostUsage, SliceState, StandingItem, StandingRequest
from tests.core.state.ledgers import NOW, reported

A, B = "sim/a", "sim/b"


def cluster(*groups: dict[str, object], **fields: object) -> ClusterConfig:
    defaults = {"host": {"cpu": 4}, "max_slices": 3}
    return ClusterConfig.model_validate({"cluster": "c", "groups": [defaults | group for group in groups], **fields})


TWO = cluster({"name": "east", "zone": "a"}, {"name": "west", "zone": "b"})


def at(seconds: float) -> object:
    return NOW + timedelta(seconds=seconds)


def configured(config: ClusterConfig = TWO) -> AutoscalerState:
    return apply(AutoscalerState(), ConfigApplied(at=NOW, config=config))


def report(state: AutoscalerState, key: str, seconds: float = 0, **fields: object) -> LocationReported:
    assert state.config is not None
    (group, *_) = state.config.groups_at(key)
    told = LocationReport.model_validate({"location": group.location, "at": at(seconds), "complete": True, **fields})
    return LocationReported(at=told.at, report=told)


def silent(seconds: float = 0) -> LocationProblem:
    return LocationProblem.model_validate({"kind": ProblemKind.NO_ANSWER, "since": at(seconds), "message": "connection refused"})


def groups_of(state: AutoscalerState) -> dict[str, tuple[Availability, str]]:
    return {group.name: (group.availability, group.reason) for group in status_of(state).groups}


def bought(state: AutoscalerState) -> dict[str, int]:
    counts: dict[str, int] = {}
    for launch in evaluate(state, now=state.now, chance=lambda: "00000000").orders.launches:
        counts[launch.group] = counts.get(launch.group, 0) + 1
    return counts


def wanting(state: AutoscalerState, *tasks: dict[str, object]) -> AutoscalerState:
    named = [{"id": f"t{n}", "resources": {"cpu": 4}, **task} for n, task in enumerate(tasks)]
    return apply(state, DemandSnapshot(at=NOW, epoch=1, revision=1, demand=demand_of(named)))


def test_a_cloud_that_does_not_answer_is_told_with_its_time_and_its_demand_goes_elsewhere() -> None:
    state = wanting(configured(), {})
    assert bought(state) == {"east": 1}
    state = apply(state, report(state, A, complete=False, problem=silent()))
    availability, reason = groups_of(state)["east"]
    assert availability is Availability.BACKOFF
    assert reason == f"sim/a does not answer since {NOW:%Y-%m-%d %H:%M:%S}Z: connection refused"
    assert groups_of(state)["west"] == (Availability.AVAILABLE, "")
    assert status_of(state).locations == {A: silent()}
    assert bought(state) == {"west": 1}


def test_the_first_listing_ends_a_silence_and_is_decided_on() -> None:
    state = apply(configured(), report(configured(), A, complete=False, problem=silent()))
    back = apply(state, report(state, A, 60))
    assert (back.location_problems, groups_of(back)["east"]) == ({}, (Availability.AVAILABLE, ""))
    assert back.input_version == state.input_version + 1


def test_a_silence_keeps_the_time_at_which_it_began_and_a_removed_location_takes_it_along() -> None:
    state = apply(configured(), report(configured(), A, complete=False, problem=silent()))
    state = apply(state, report(state, A, 90, complete=False, problem=silent(60)))
    assert state.location_problems[A].since == NOW
    after = apply(state, ConfigApplied(at=NOW, config=cluster({"name": "west", "zone": "b"})))
    assert after.location_problems == {}


def test_a_refusal_is_told_per_location_too() -> None:
    refused = Failure(kind=FailureKind.PERMISSION, message="no access to zone a")
    state = apply(configured(), report(configured(), A, complete=False, failure=refused))
    assert (state.location_problems[A].kind, groups_of(state)["east"][0]) == (ProblemKind.REFUSED, Availability.DISABLED)
    assert apply(state, report(state, A, 60)).location_problems == {}


def test_a_location_without_an_inventory_is_told_until_it_has_one() -> None:
    state = apply(configured(), LocationsUnwatched(at=NOW, failed={A: "WorkflowId length exceeds limit"}))
    assert groups_of(state)["east"][1].startswith("sim/a is not watched since")
    assert bought(wanting(state, {})) == {"west": 1}
    assert apply(state, LocationsUnwatched(at=NOW)).location_problems == {}


def recovering(
    config: ClusterConfig = TWO, *listed: str, waited: bool = True, silent_slices: dict[str, str] | None = None
) -> AutoscalerState:
    state = apply(configured(config), RecoveryBegan(at=NOW, id="r", reason="it was terminated"))
    state = apply(state, ReportsCollected(at=NOW, id="r", silent=silent_slices or {}))
    state = replay([report(state, key, asked="r") for key in listed], state)
    return apply(state, RecoveryWaited(at=at(300), id="r")) if waited else state


def test_a_recovery_holds_everything_at_first() -> None:
    state = recovering(TWO, B, waited=False)
    assert state.is_held
    assert status_of(state).recovery is not None


def test_after_a_while_the_listed_locations_go_on_and_the_others_stay_blocked() -> None:
    config = cluster({"name": "east", "zone": "a", "min_slices": 1}, {"name": "west", "zone": "b", "min_slices": 1})
    state = recovering(config, B)
    assert not state.is_held
    assert bought(state) == {"west": 1}
    assert groups_of(state)["east"][1].startswith("sim/a has not been listed since the recovery began")
    recovery = status_of(state).recovery
    assert recovery is not None
    assert (recovery.goes_on, recovery.waiting_for) == (True, (A,))


def test_entries_that_unknown_slices_may_hold_buy_nothing_new_and_say_why() -> None:
    state = wanting(recovering(TWO, B), {}, {"constraints": [{"attribute": "zone", "op": "eq", "value": "b"}]})
    assert bought(state) == {"west": 1}, "the second can only be in b, which was listed"
    unmet = evaluate(state, now=state.now, chance=lambda: "00000000").decision.unmet
    assert [(item.code, item.message) for item in unmet] == [
        (Code.NO_CAPACITY, "east may have slices for it that are not known yet: sim/a was not listed since the recovery began")
    ]


def test_slices_that_demand_or_requests_of_unknown_slices_may_need_are_not_given_back() -> None:
    idle = (HostUsage(state=HostState.IDLE),)
    there = reported("w", SliceState.READY, 3, group="west")
    state = apply(apply(recovering(TWO, B), there), UsageReported(at=at(301), usage={"w": idle}))
    assert given_back(state) == ["w"]
    assert given_back(wanting(state, {})) == []
    request = StandingRequest(owner="team", wants=(StandingItem.model_validate({"resources": {"cpu": 4}}),))
    requested = apply(state, CapacityRequested(at=at(302), request=request))
    assert given_back(requested) == []
    assert given_back(apply(requested, report(state, A, 400, asked="r"))) == [], "it is needed"


def given_back(state: AutoscalerState) -> list[str]:
    """Slices that drain once they have been idle for the timeout."""
    orders = evaluate(state, now=state.now + timedelta(seconds=600), chance=lambda: "00000000").orders
    return [drain.slice_id for drain in orders.drains]


def test_a_pool_shared_with_an_unlisted_location_buys_nothing_new() -> None:
    gpu = {"device": {"type": "gpu"}, "host": {"cpu": 4, "gpu": 1}, "pool": "quota", "min_slices": 1}
    groups = (
        {"name": "east", "zone": "a", **gpu},
        {"name": "west", "zone": "b", **gpu},
        {"name": "other", "zone": "b", "min_slices": 1},
    )
    state = recovering(cluster(*groups, pools=[{"name": "quota", "chips": 8}]), B)
    assert bought(state) == {"other": 1}
    assert groups_of(state)["west"][1] == "shares pool quota with east, whose slices are not all known yet"


def test_slices_that_may_exist_unseen_count_against_the_clusters_maximum() -> None:
    config = cluster({"name": "east", "zone": "a"}, {"name": "west", "zone": "b", "min_slices": 3}, max_slices=5)
    state = recovering(config, B)
    assert bought(state) == {"west": 2}, "three of five may be in a"


def test_the_last_listing_ends_the_recovery_and_frees_its_groups() -> None:
    state = wanting(recovering(TWO, B), {})
    assert bought(state) == {}
    after = apply(state, report(state, A, 400, asked="r"))
    assert (after.recovery, bought(after)) == (None, {"east": 1})
    assert after.input_version > state.input_version


def test_a_slice_that_does_not_answer_holds_up_its_group_alone() -> None:
    config = cluster({"name": "east", "zone": "a", "min_slices": 1}, {"name": "west", "zone": "b", "min_slices": 1})
    held = recovering(config, A, B, waited=False, silent_slices={"east-1": "east"})
    assert held.is_held
    recovery = status_of(held).recovery
    assert recovery is not None
    assert recovery.waiting_for == ("east-1",)
    assert bought(apply(held, RecoveryWaited(at=at(300), id="r"))) == {"west": 1}


def test_the_check_before_a_cluster_ends_waits_for_every_location() -> None:
    state = apply(configured(), RecoveryBegan(at=NOW, id="r", reason="the end", closing=True))
    state = replay([ReportsCollected(at=NOW, id="r"), RecoveryWaited(at=at(300), id="r")], state)
    assert state.is_held


def test_evaluations_that_fail_are_told_since_the_first_until_one_succeeds() -> None:
    state = apply(configured(), EvaluationFailed(at=NOW, problem="timed out"))
    state = apply(state, EvaluationFailed(at=at(60), problem="timed out again"))
    undecided = status_of(state).undecided
    assert undecided is not None
    assert (undecided.since, undecided.problem) == (NOW, "timed out again")
