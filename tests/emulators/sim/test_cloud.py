"""Rules of the simulated cloud: phases over time, capacity, queue, quota and rate limit."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from emulators.behaviour import Quota, Scope
from emulators.sim import cloud
from emulators.sim.behaviour import Behaviour, Scenario
from emulators.sim.cloud import ApiError, Phase, Request, Resource

START = datetime(2026, 1, 1, tzinfo=UTC)
ZONE = "us-west4-a"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def by_name(resources: Sequence[Resource]) -> dict[str, Resource]:
    return {resource.name: resource for resource in resources}


def created(
    name: str = "one",
    *,
    zone: str = ZONE,
    behaviour: Behaviour = Behaviour(),  # noqa: B008 - frozen
    existing: Sequence[Resource] = (),
    seconds: float = 0,
    queued: bool = False,
) -> Resource:
    request = Request(name=name, hosts=2, queued=queued)
    return cloud.create(request, zone, behaviour=behaviour, existing=by_name(existing), now=at(seconds))[0]


def code_of(refused: ApiError) -> object:
    return refused.body["error"]["code"]


def test_phases_follow_from_the_clock() -> None:
    resource = created(behaviour=Behaviour(create_latency=10, boot_latency=20, init_latency=30))
    phases = [resource.phase(at(seconds)) for seconds in (0, 9.9, 10, 29.9, 30, 1000)]
    assert phases == [Phase.CREATING, Phase.CREATING, Phase.BOOTING, Phase.BOOTING, Phase.RUNNING, Phase.RUNNING]
    assert [resource.answers(0, at(seconds)) for seconds in (30, 59.9, 60)] == [False, False, True]


def test_a_second_delete_does_not_extend_the_latency_of_the_first() -> None:
    leaving = cloud.delete(created(), behaviour=Behaviour(delete_latency=10), now=at(5))
    again = cloud.delete(leaving, behaviour=Behaviour(delete_latency=10), now=at(14))
    assert [again.phase(at(seconds)) for seconds in (14, 15)] == [Phase.DELETING, Phase.GONE]
    assert not again.answers(0, at(14))


def test_a_dead_host_does_not_answer_and_the_others_do() -> None:
    resource = cloud.with_dead_host(created(), 1)
    assert [resource.answers(host, at(0)) for host in (0, 1, 2)] == [True, False, False]
    with pytest.raises(ApiError, match="has hosts 0 to 1"):
        cloud.with_dead_host(resource, 2)


def test_beyond_capacity_queued_requests_wait_in_order_and_others_get_a_stockout() -> None:
    one_slice = Behaviour(capacity=1)
    first = created("first", behaviour=one_slice)
    with pytest.raises(ApiError) as refused:
        created("second", behaviour=one_slice, existing=[first])
    assert code_of(refused.value) == "STOCKOUT"
    later = created("later", behaviour=one_slice, existing=[first], queued=True, seconds=2)
    sooner = created("sooner", behaviour=one_slice, existing=[first], queued=True, seconds=1)
    assert later.phase(at(100)) is Phase.QUEUED
    waiting = [later, sooner]
    assert cloud.next_admitted(waiting, behaviour=one_slice, existing=by_name([first, *waiting]), now=at(3)) is None
    moved = cloud.next_admitted(waiting, behaviour=one_slice, existing=by_name(waiting), now=at(3))
    assert moved is not None
    assert (moved.name, moved.phase(at(3))) == ("sooner", Phase.RUNNING)


def test_a_preempted_resource_frees_capacity() -> None:
    taken = cloud.preempted(created("taken"), at(1))
    assert taken.phase(at(1)) is Phase.PREEMPTED
    assert created("next", behaviour=Behaviour(capacity=1), existing=[taken]).phase(at(1)) is Phase.RUNNING


def test_only_an_admitted_resource_can_be_preempted() -> None:
    queued = created(behaviour=Behaviour(hold_queue=True), queued=True)
    with pytest.raises(ApiError, match="is queued"):
        cloud.preempted(queued, at(1))


def test_a_held_queue_admits_only_by_name() -> None:
    held = Behaviour(hold_queue=True)
    queued = created(behaviour=held, queued=True)
    assert cloud.next_admitted([queued], behaviour=held, existing=by_name([queued]), now=at(9)) is None
    assert cloud.admitted(queued, held, at(9)).phase(at(9)) is Phase.RUNNING


def test_a_queue_waits_while_the_zone_is_out_of_capacity() -> None:
    empty = Behaviour(stockout=True)
    queued = created(behaviour=empty, queued=True)
    assert queued.phase(at(9)) is Phase.QUEUED
    assert cloud.next_admitted([queued], behaviour=empty, existing=by_name([queued]), now=at(9)) is None
    assert cloud.next_admitted([queued], behaviour=Behaviour(), existing=by_name([queued]), now=at(9)) is not None


def test_stockout_after_limits_the_number_of_creates() -> None:
    behaviour, made = Behaviour(stockout_after=2), list[Resource]()
    for name in ("one", "two"):
        resource, behaviour = cloud.create(Request(name=name), ZONE, behaviour=behaviour, existing=by_name(made), now=START)
        made.append(resource)
    with pytest.raises(ApiError) as refused:
        created("three", behaviour=behaviour, existing=made)
    assert code_of(refused.value) == "STOCKOUT"
    assert created("four", behaviour=behaviour, existing=made, queued=True).phase(START) is Phase.QUEUED


@pytest.mark.parametrize(
    ("scope", "elsewhere", "subject"),
    [
        (Scope.ZONE, "us-west4-a", "us-west4-a"),
        (Scope.REGION, "us-west4-b", "us-west4"),
        (Scope.PROJECT, "europe-west4-a", "sim"),
    ],
)
def test_a_quota_counts_everything_in_its_scope(scope: Scope, elsewhere: str, subject: str) -> None:
    other = created("other", zone=elsewhere)
    with pytest.raises(ApiError) as refused:
        created(behaviour=Behaviour(quota=Quota(scope=scope, limit=1)), existing=[other])
    assert refused.value.body["error"] | {"message": ""} == {
        "code": "QUOTA_EXCEEDED",
        "message": "",
        "scope": scope,
        "subject": subject,
    }
    outside = created("outside", zone="asia-east1-c")
    if scope is not Scope.PROJECT:
        assert created(behaviour=Behaviour(quota=Quota(scope=scope, limit=1)), existing=[outside])


def test_a_rate_limit_says_when_the_next_create_succeeds() -> None:
    behaviour = Behaviour(creates_per_second=2)
    made = [created("one", seconds=0), created("two", seconds=0.5)]
    with pytest.raises(ApiError) as refused:
        created("three", behaviour=behaviour, existing=made, seconds=0.75)
    assert refused.value.body["error"]["retry_after"] == 0.25
    assert created("three", behaviour=behaviour, existing=made, seconds=1.0)


def test_an_existing_name_is_reported_before_capacity_and_quota() -> None:
    empty = Behaviour(stockout=True, quota=Quota(limit=0))
    with pytest.raises(ApiError) as refused:
        created("one", behaviour=empty, existing=[created("one")])
    assert code_of(refused.value) == "ALREADY_EXISTS"


def test_a_zones_entry_overrides_the_defaults_of_the_scenario() -> None:
    scenario = Scenario.model_validate(
        {"defaults": {"boot_latency": "2s", "stockout": True}, "zones": {"a": {"stockout": False}}}
    )
    assert (scenario.behaviour_of("a").boot_latency_seconds, scenario.behaviour_of("a").stockout) == (2.0, False)
    assert scenario.behaviour_of("b") == scenario.defaults
