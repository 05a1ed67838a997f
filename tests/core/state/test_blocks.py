"""What failures do to the groups they concern."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from penstock.contract.inventories import LocationReport
from penstock.core.answers.status import status_of
from penstock.core.state.apply import apply
from penstock.core.state.blocks import health_of
from penstock.core.state.events import BlockCleared, ConfigApplied, LocationReported
from penstock.core.state.state import AutoscalerState
from penstock.model.failures import Failure, FailureKind, Scope
from penstock.model.location import Location
from penstock.model.slices import Availability, Health, SliceState
from tests.core.state.ledgers import NOW, after_reports, cluster, config, failed, later, ordered, report

ZONES = (
    {"name": "west-a", "zone": "us-west4-a"},
    {"name": "west-b", "zone": "us-west4-b"},
    {"name": "east", "zone": "us-east1-b"},
    {"name": "other", "zone": "us-west4-a", "provider": {"kind": "gce", "project": "p"}},
)
MINUTE = 60.0


def health(state: AutoscalerState, group: str, at: datetime) -> Health:
    assert state.config is not None
    found = health_of(state, state.config, at).get(group, Health())
    return Health() if found.until is not None and found.until <= at else found


def blocked(state: AutoscalerState, at: datetime = NOW) -> set[str]:
    assert state.config is not None
    names = [group.name for group in state.config.groups]
    return {name for name in names if health(state, name, at).availability is not Availability.AVAILABLE}


def after(kind: FailureKind, *, at: datetime = NOW, **more: Any) -> AutoscalerState:
    """The state once a slice of west-a failed."""
    return failed(ordered(cluster(*ZONES), "a", group="west-a"), "a", kind, group="west-a", at=at, **more)


def test_a_stockout_blocks_its_group_for_a_minute_and_says_why() -> None:
    state = after(FailureKind.STOCKOUT)
    assert health(state, "west-a", NOW) == Health(availability=Availability.BACKOFF, until=later(MINUTE), reason="stockout of a")
    assert blocked(state) == {"west-a"}
    assert blocked(state, later(MINUTE)) == set()


def test_stockouts_in_a_row_block_twice_as_long_each_up_to_half_an_hour() -> None:
    state, at, lengths = cluster(*ZONES), 0.0, []
    for i in range(8):
        state = failed(ordered(state, f"s{i}", group="west-a"), f"s{i}", FailureKind.STOCKOUT, group="west-a", at=later(at))
        until = health(state, "west-a", later(at)).until
        assert until is not None
        lengths.append((until - later(at)).total_seconds() / MINUTE)
        at += lengths[-1] * MINUTE
    assert lengths == [1, 2, 4, 8, 16, 30, 30, 30]


def test_slices_ordered_together_that_fail_together_count_as_one_failure() -> None:
    state = ordered(cluster(), "a", "b", "c")
    for slice_id in ("a", "b", "c"):
        state = failed(state, slice_id, FailureKind.STOCKOUT)
    assert health(state, "g", NOW).until == later(MINUTE)


def test_a_slice_that_was_ordered_since_and_comes_ends_the_stockout() -> None:
    state = failed(ordered(cluster(), "a", "b", "c"), "a", FailureKind.STOCKOUT)
    assert blocked(after_reports(state, report("b", SliceState.READY, 3))) == {"g"}, "it was ordered before the cloud ran dry"
    since = report("c", SliceState.READY, 3).model_copy(update={"ordered_at": later(1)})
    assert blocked(after_reports(state, since)) == set()


def test_after_a_quiet_hour_the_count_begins_anew() -> None:
    state = failed(ordered(cluster(), "a"), "a", FailureKind.STOCKOUT)
    at = later(MINUTE + 3600)
    state = failed(ordered(state, "b", at=at), "b", FailureKind.STOCKOUT, at=at)
    until = health(state, "g", at).until
    assert until is not None
    assert (until - at).total_seconds() == MINUTE


@pytest.mark.parametrize(
    ("scope", "subject", "concerned"),
    [
        (Scope.ZONE, "us-west4-a", {"west-a"}),
        (Scope.REGION, "us-west4", {"west-a", "west-b"}),
        (Scope.PROJECT, "sim", {"west-a", "west-b", "east"}),
    ],
)
@pytest.mark.parametrize("kind", [FailureKind.QUOTA, FailureKind.PERMISSION])
def test_a_quota_or_permission_blocks_what_it_names_across_groups_and_no_other_account(
    kind: FailureKind, scope: Scope, subject: str, concerned: set[str]
) -> None:
    assert blocked(after_reporting(kind, scope, subject)) == concerned


def after_reporting(kind: FailureKind, scope: Scope, subject: str) -> AutoscalerState:
    state = ordered(cluster(*ZONES), "a", group="west-a")
    failure = Failure(kind=kind, scope=scope, subject=subject)
    return after_reports(state, report("a", SliceState.DELETING, 1, group="west-a", failure=failure))


def test_quota_is_there_again_when_a_slice_in_its_scope_is_gone() -> None:
    state = ordered(after_reporting(FailureKind.QUOTA, Scope.REGION, "us-west4"), "b", group="west-b")
    assert blocked(after_reports(state, report("b", SliceState.TERMINATED, 9, group="west-b"))) == set()


def test_the_end_of_the_slice_that_was_refused_for_want_of_quota_frees_none() -> None:
    state = after_reporting(FailureKind.QUOTA, Scope.ZONE, "us-west4-a")
    failure = Failure(kind=FailureKind.QUOTA, scope=Scope.ZONE, subject="us-west4-a")
    ended = after_reports(state, report("a", SliceState.FAILED, 2, group="west-a", failure=failure))
    assert ended.slices == ()
    assert blocked(ended) == {"west-a"}


def test_a_rate_limit_slows_every_group_of_the_account_for_as_long_as_it_says() -> None:
    state = ordered(cluster(*ZONES), "a", group="west-a")
    failure = Failure(kind=FailureKind.RATE_LIMIT, retry_after_seconds=7)
    state = after_reports(state, report("a", SliceState.REQUESTING, 1, group="west-a", failure=failure))
    assert blocked(state) == {"west-a", "west-b", "east"}
    assert health(state, "east", NOW) == Health(availability=Availability.RATE_LIMITED, until=later(7), reason="rate limit")
    assert {piece.id for piece in state.slices} == {"a"}, "the slice itself is still on its way"


def test_invalid_arguments_disable_the_group_until_its_configuration_changes() -> None:
    state = after(FailureKind.INVALID)
    assert health(state, "west-a", later(86400 * 30)).availability is Availability.DISABLED
    same = apply(state, ConfigApplied(at=NOW, config=config(*ZONES)))
    assert blocked(same) == {"west-a"}
    changed = apply(state, ConfigApplied(at=NOW, config=config(ZONES[0] | {"max_slices": 3}, *ZONES[1:])))
    assert blocked(changed) == set()


def test_a_missing_permission_is_tried_again_after_a_day() -> None:
    state = after(FailureKind.PERMISSION, scope=Scope.PROJECT, subject="sim")
    assert health(state, "east", NOW).until == later(86400)


def test_an_operator_clears_what_blocks_a_group_or_everything() -> None:
    state = after(FailureKind.STOCKOUT)
    assert blocked(apply(state, BlockCleared(at=NOW, group="west-a"))) == set()
    assert blocked(apply(state, BlockCleared(at=NOW, group="east"))) == {"west-a"}
    assert blocked(apply(state, BlockCleared(at=NOW))) == set()


def test_one_slice_that_dies_young_is_replaced_at_once_and_the_second_in_a_row_blocks() -> None:
    state = failed(ordered(cluster(), "a"), "a", FailureKind.PREEMPTED, at=later(60))
    assert blocked(state, later(60)) == set()
    state = failed(ordered(state, "b", at=later(60)), "b", FailureKind.HOST_LOST, at=later(120))
    assert health(state, "g", later(120)).until == later(120 + MINUTE)


def test_a_slice_that_dies_old_says_nothing_about_its_group() -> None:
    state = failed(ordered(cluster(), "a"), "a", FailureKind.PREEMPTED, at=later(3600))
    state = failed(ordered(state, "b"), "b", FailureKind.PREEMPTED, at=later(3601))
    assert blocked(state, later(3601)) == set()


def test_the_status_shows_availability_its_end_and_its_reason() -> None:
    groups = {group.name: group for group in status_of(after(FailureKind.STOCKOUT)).groups}
    assert (groups["west-a"].availability, groups["west-a"].until) == (Availability.BACKOFF, later(MINUTE))
    assert groups["west-a"].reason == "stockout of a"
    assert groups["east"].availability is Availability.AVAILABLE


def looked_at(state: AutoscalerState, failure: Failure | None = None, *, location: str = "us-west4-a") -> AutoscalerState:
    """The state after a look at a location that was refused, or was not."""
    where = Location(provider="sim", account="sim", name=location)
    seen = LocationReport(location=where, at=NOW, complete=failure is None, failure=failure)
    return apply(state, LocationReported(at=NOW, report=seen))


def test_a_look_that_is_refused_disables_groups_until_one_is_not() -> None:
    denied = Failure(kind=FailureKind.PERMISSION, message="log in", scope=Scope.PROJECT, subject="sim")
    state = looked_at(cluster(*ZONES), denied)
    assert blocked(state) == {"west-a", "west-b", "east"}
    assert health(state, "east", NOW).reason == "log in"
    assert looked_at(state, denied) == state.model_copy(update={"version": state.version + 1})
    assert blocked(looked_at(state, location="nowhere")) == {"west-a", "west-b", "east"}
    assert blocked(looked_at(state)) == set()


def test_settings_with_which_nobody_can_look_disable_the_groups_of_the_location_alone() -> None:
    state = looked_at(cluster(*ZONES), Failure(kind=FailureKind.INVALID, message="provider.url: must be text"))
    assert blocked(state) == {"west-a"}
    assert health(state, "west-a", NOW).availability is Availability.DISABLED


def test_a_permission_that_a_create_lacked_is_not_proved_by_a_look() -> None:
    state = after(FailureKind.PERMISSION, scope=Scope.ZONE, subject="us-west4-a")
    assert blocked(looked_at(state)) == {"west-a"}


def test_orders_refused_for_the_reason_that_looks_are_refused_for_are_asked_again_when_a_look_succeeds() -> None:
    denied = Failure(kind=FailureKind.PERMISSION, message="log in", scope=Scope.ZONE, subject="us-west4-a")
    state = looked_at(after(FailureKind.PERMISSION, scope=Scope.ZONE, subject="us-west4-a"), denied)
    assert blocked(state) == {"west-a"}
    assert blocked(looked_at(state)) == set()


def test_a_short_rate_limit_does_not_end_a_long_one() -> None:
    state = ordered(cluster(), "a", "b")
    for slice_id, seconds in (("a", 60.0), ("b", 1.0)):
        limited = Failure(kind=FailureKind.RATE_LIMIT, retry_after_seconds=seconds)
        state = after_reports(state, report(slice_id, SliceState.REQUESTING, 1, failure=limited))
    assert health(state, "g", NOW).until == later(60)


def test_an_order_that_was_never_fulfilled_frees_no_quota() -> None:
    state = ordered(cluster(), "a", "b")
    state = failed(state, "a", FailureKind.QUOTA, scope=Scope.ZONE, subject="us-west4-a")
    state = failed(state, "b", FailureKind.REQUESTING_TIMEOUT, at=later(60))
    assert health(state, "g", later(61)).availability is Availability.QUOTA_EXCEEDED


def test_the_age_of_a_slice_is_counted_from_when_it_came_however_long_it_was_waited_for() -> None:
    state = cluster()
    for number in range(2):
        ordered_at = later(number * 40 * MINUTE)
        came = ordered_at + timedelta(minutes=30)
        state = ordered(state, f"s{number}", at=ordered_at)
        more: dict[str, Any] = {"ordered_at": ordered_at, "created_at": came}
        state = after_reports(state, report(f"s{number}", SliceState.READY, 4, at=came, **more), at=came)
        died = came + timedelta(seconds=20)
        failure = Failure(kind=FailureKind.PREEMPTED)
        state = after_reports(state, report(f"s{number}", SliceState.DELETING, 5, at=died, failure=failure, **more), at=died)
    assert health(state, "g", died).until is not None


def test_a_short_block_does_not_end_a_long_one() -> None:
    state = ordered(after(FailureKind.PERMISSION, scope=Scope.PROJECT, subject="sim"), "b", group="west-a")
    limited = Failure(kind=FailureKind.RATE_LIMIT, retry_after_seconds=1)
    state = after_reports(state, report("b", SliceState.REQUESTING, 1, group="west-a", failure=limited))
    assert health(state, "east", later(60)).availability is Availability.DISABLED


def test_a_group_that_is_removed_and_comes_back_begins_anew() -> None:
    state = after(FailureKind.INVALID)
    state = apply(state, ConfigApplied(at=NOW, config=config(*ZONES[1:])))
    assert blocked(apply(state, ConfigApplied(at=NOW, config=config(*ZONES)))) == set()


def test_slices_that_are_taken_away_together_count_as_one_failure() -> None:
    state = ordered(cluster(), "a", "b")
    for slice_id in ("a", "b"):
        state = failed(state, slice_id, FailureKind.PREEMPTED, at=later(60))
    assert blocked(state, later(60)) == set()


def test_a_replacement_that_dies_at_once_is_the_second_failure_in_a_row() -> None:
    state = failed(ordered(cluster(), "a"), "a", FailureKind.PREEMPTED, at=later(60))
    state = failed(ordered(state, "b", at=later(61)), "b", FailureKind.PREEMPTED, at=later(62), ordered_at=later(61))
    assert health(state, "g", later(62)).until == later(62 + MINUTE)


def test_a_drain_that_is_called_off_says_nothing_about_stockouts() -> None:
    state = after_reports(ordered(cluster(), "a"), report("a", SliceState.READY, 3), report("a", SliceState.DRAINING, 4))
    state = failed(ordered(state, "b"), "b", FailureKind.STOCKOUT)
    assert blocked(after_reports(state, report("a", SliceState.READY, 5))) == {"g"}


@pytest.mark.parametrize("seconds", [1e30, float("inf"), float("nan"), -1.0])
def test_a_rate_limit_beyond_reason_is_bounded(seconds: float) -> None:
    state = ordered(cluster(), "a")
    failure = Failure(kind=FailureKind.RATE_LIMIT, retry_after_seconds=seconds)
    state = after_reports(state, report("a", SliceState.REQUESTING, 1, failure=failure))
    assert blocked(state, later(86400)) == set()
