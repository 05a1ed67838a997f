"""Pressure, pools, standing requests and observed drains in `penstock status`."""

from penstock.cli.render_status import status_view
from penstock.contract.answers import ClusterStatus, GroupStatus
from penstock.contract.capacity import PoolStatus, StandingStatus
from penstock.model.cluster import ScaleDown
from penstock.model.decision import Code, Pressure
from tests.cli.statuses import NOW, later, words


def seen(**fields: object) -> str:
    return words(status_view(ClusterStatus.model_validate({"cluster": "c", "version": 1} | fields), NOW))


def test_groups_under_pressure_are_listed_those_with_most_denied_demand_first() -> None:
    groups = (
        GroupStatus(name="calm"),
        GroupStatus(name="growing", pressure=Pressure(accounted_for=3)),
        GroupStatus(name="full", pressure=Pressure(capacity=12, logical=1, accounted_for=2)),
    )
    text = seen(groups=groups)
    assert "Pressure, in slices" in text
    assert "│ full │ 12 │ 1 │ 2 │ │ growing │ 0 │ 0 │ 3 │ └" in text
    assert "Pressure" not in seen(groups=groups[:1])


def test_pools_show_their_chips_what_is_charged_and_their_pressure() -> None:
    pool = PoolStatus(name="reserved", chips=1280, system=16, charged=1264, pressure=Pressure(capacity=32))
    text = seen(pools=(pool,))
    assert "┃ pool ┃ chips ┃ system ┃ charged ┃ denied ┃ above watermark ┃ accounted for ┃" in text
    assert "│ reserved │ 1,280 │ 16 │ 1,264 │ 32 │ 0 │ 0 │" in text


def test_standing_requests_say_whether_they_are_met_the_unmet_first_with_the_reason() -> None:
    standing = (
        StandingStatus(owner="ana", met=True, expires=later(7200)),
        StandingStatus(owner="bo", met=False, code=Code.NO_CAPACITY, message="no group can take it: g=at_max"),
        StandingStatus(owner="new"),
    )
    text = seen(standing=standing)
    assert (
        "│ bo │ unmet (no_capacity): no group can take it: g=at_max │ – │ │ ana │ met │ in 2h │ │ new │ not decided yet │" in text
    )
    assert "expires" not in seen(standing=standing[1:])


def test_more_than_ten_rows_are_counted() -> None:
    standing = tuple(StandingStatus(owner=f"o{n:02}", met=True) for n in range(12))
    text = seen(standing=standing)
    assert "o09" in text
    assert "o10" not in text
    assert "and 2 more standing requests: --json has them" in text


def test_a_cluster_that_only_observes_says_so_first_and_how_many_drains_it_would_have_ordered() -> None:
    text = seen(scale_down=ScaleDown.OBSERVE, observed_drains=7)
    assert text.startswith(
        "Observing: scale_down is observe, so no decision drains anything. The last one would have drained 7 slices: penstock"
        " decision lists them."
    )
    assert "The last one would have drained nothing." in seen(scale_down=ScaleDown.OBSERVE)
    assert "Observing" not in seen(observed_drains=0)
