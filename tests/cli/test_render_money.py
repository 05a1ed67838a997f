"""Money in `penstock status`: what the cluster costs, for what, and what silence costs."""

import pytest

from penstock.cli.render_status import status_view
from penstock.contract.answers import ClusterStatus, GroupStatus, UsageStatus
from penstock.contract.cost import CostByUse
from tests.cli.statuses import EVERYTHING, NOW, ago, shown, words

V5E = CostByUse(busy=96, idle=19.2, on_the_way=19.2)
L4 = CostByUse(busy=8, idle=4, draining=4, unreported=1.5, requested=4)
ALL = CostByUse(busy=104, idle=23.2, on_the_way=19.2, draining=4, unreported=1.5, requested=4)
PAID = EVERYTHING.model_copy(
    update={
        "cost": ALL,
        "idle_cost_of_day": 1234.5,
        "groups": (GroupStatus(name="l4", cost=L4), GroupStatus(name="v5e", cost=V5E), GroupStatus(name="cpu")),
    }
)


def test_one_line_says_what_the_cluster_costs_for_what_and_what_idleness_has_cost_in_a_day() -> None:
    assert (
        "151.90 an hour: 104.00 busy, 23.20 idle, 19.20 on the way, 4.00 draining, 1.50 unreported; 4.00 more once all requested"
        " slices exist. Idle slices have cost 1,234.50 in 24 hours."
    ) in words(status_view(PAID, NOW))


def test_a_table_has_the_groups_that_cost_something_the_dearest_first() -> None:
    text = words(status_view(PAID, NOW))
    assert "│ v5e │ 96.00 │ 19.20 │ 19.20 │ – │ – │ 134.40 │ │ l4 │ 8.00 │ 4.00 │ – │ 4.00 │ 1.50 │ 17.50 │" in text
    assert "│ cpu │ –" not in text


def test_one_group_needs_no_table_and_a_cluster_without_slices_no_line() -> None:
    alone = ClusterStatus(cluster="c", version=1, cost=L4, groups=(GroupStatus(name="l4", cost=L4),))
    text = words(status_view(alone, NOW))
    assert "17.50 an hour: 8.00 busy" in text
    assert "Cost per hour" not in text
    assert "hour" not in words(status_view(ClusterStatus(cluster="c", version=1), NOW))


def test_beyond_ten_groups_the_others_are_counted_with_what_they_cost() -> None:
    groups = tuple(GroupStatus(name=f"g{n:02}", cost=CostByUse(busy=100 - n)) for n in range(13))
    text = words(status_view(ClusterStatus(cluster="c", version=1, groups=groups), NOW))
    assert "│ g09 │ 91.00 │" in text
    assert "│ g10 │ 90.00 │" not in text
    assert "and 3 more groups for 267.00" in text


def test_groups_without_a_price_are_named() -> None:
    status = ClusterStatus(cluster="c", version=1, unpriced=("cpu-16", "old"))
    assert "Not counted, because their price is unknown: cpu-16, old." in words(status_view(status, NOW))


def test_a_silent_source_says_for_how_long_which_slices_stay_and_what_they_cost() -> None:
    silent = UsageStatus(epoch=1, revision=1, at=ago(3 * 3600), stale_since=ago(600), slices=40, kept_idle=12, cost_per_hour=48)
    unpriced = silent.model_copy(update={"kept_idle": 1, "cost_per_hour": 0.0})
    busy = silent.model_copy(update={"kept_idle": 0, "cost_per_hour": 0.0})
    fresh = silent.model_copy(update={"stale_since": None})
    nameless = silent.model_copy(update={"slices": 0})
    usage = {"ray": silent, "own": unpriced, "slurm": busy, "new": fresh, "none": nameless}
    text = words(status_view(EVERYTHING.model_copy(update={"usage": usage}), NOW))
    assert "Source ray has been silent for 3h: 12 idle slices stay, 48.00 an hour." in text
    assert "Source own has been silent for 3h: 1 idle slice stays. " in text
    assert "Source slurm has been silent for 3h: nothing drains on its word about 40 slices." in text
    assert "Source new" not in text
    assert "Source none" not in text


def test_slices_that_nobody_names_and_that_did_not_join_say_what_they_cost() -> None:
    group = GroupStatus(
        name="g",
        unreported=2,
        unreported_since=ago(840),
        unreported_cost_per_hour=24,
        unclaimed=1,
        unclaimed_since=ago(300),
        unclaimed_cost_per_hour=12,
    )
    text = words(status_view(ClusterStatus(cluster="c", version=1, groups=(group,), ready_grace_seconds=120), NOW))
    assert "No usage report has named 2 slices of g, READY for up to 14m, 24.00 an hour: is the controller running?" in text
    assert "Not joined for up to 5m: 1 READY slice of g, 12.00 an hour. A controller reports usage" in text


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_money_fits_on_the_screen_and_no_amount_is_cut(width: int) -> None:
    text = shown(status_view(PAID, NOW), width)
    for amount in ("151.90", "134.40", "1,234.50", "19.20"):
        assert amount in text
    assert "…" not in text
