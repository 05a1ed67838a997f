"""The details of an autoscaler in the Temporal UI."""

from datetime import UTC, datetime

from penstock.contract.answers import ClusterStatus, GroupStatus, RecoveryStatus, SourceStatus
from penstock.contract.slice_answers import NoticeStatus
from penstock.model.decision import Code
from penstock.model.failures import NoticeKind
from penstock.model.slices import Availability, SliceState
from workflows.ui.cluster_details import LARGEST_DETAILS, cluster_details
from workflows.ui.markdown_tables import GAP

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_the_details_have_a_table_of_groups_and_the_unmet_demand_below_it() -> None:
    slices = {SliceState.READY: 2, SliceState.BOOTING: 1, SliceState.REQUESTING: 1, SliceState.DELETING: 1}
    dry = GroupStatus(name="dry", slices=slices, max_slices=9, availability=Availability.BACKOFF, until=NOON)
    demand = {"default": SourceStatus(epoch=1, revision=1, tasks=7)}
    details = cluster_details(
        ClusterStatus(cluster="x", version=1, groups=(dry,), demand=demand, unmet={Code.NO_CAPACITY: 3}, evaluated_at=NOON)
    )
    assert "|dry|2|2|1|9|backoff until 2030-01-01 12:00:00 UTC|" in details.replace(f"{GAP} ", "").replace("| ", "|")
    assert details.endswith("7 tasks are waiting or placed; unmet: 3 no_capacity.")


def test_the_details_say_why_nothing_is_launched() -> None:
    recovery = RecoveryStatus(reason="the ledger is empty.", since=NOON, waiting_for=("sim/a",))
    details = cluster_details(ClusterStatus(cluster="x", version=1, paused="maintenance", recovery=recovery))
    assert "**Paused.** maintenance" in details
    assert "**Recovering:** the ledger is empty. Waiting for sim/a." in details
    details = cluster_details(ClusterStatus(cluster="x", version=1, closing=True, recovery=recovery))
    assert "**Final audit:** the ledger is empty. Waiting for sim/a." in details


def test_the_details_say_what_the_cloud_announces_first_and_how_much_more() -> None:
    notice = NoticeStatus(slice_id="g-1", group="g", kind=NoticeKind.MAINTENANCE, until=datetime(2026, 1, 1, 14, 5, tzinfo=UTC))
    details = cluster_details(ClusterStatus(cluster="x", version=1, notices=(notice,), notices_in_all=1))
    assert "**Announced by the cloud:** maintenance of `g-1` at 2026-01-01 14:05:00 UTC.\n" in details
    details = cluster_details(ClusterStatus(cluster="x", version=1, notices=(notice, notice), notices_in_all=500))
    assert "14:05:00 UTC; and 499 more notices." in details


def test_a_table_of_a_thousand_groups_is_cut_before_the_ui_refuses_it() -> None:
    groups = tuple(GroupStatus(name=f"group-{i}-größer", max_slices=1) for i in range(1000))
    details = cluster_details(ClusterStatus(cluster="x", version=1, groups=groups))
    assert len(details.encode()) < LARGEST_DETAILS + 100
    assert "more groups" in details
