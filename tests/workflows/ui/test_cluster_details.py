"""What the Temporal UI shows of an autoscaler."""

from datetime import UTC, datetime

from penstock.contract.answers import ClusterStatus, GroupStatus, RecoveryStatus, SourceStatus
from penstock.model.decision import Code
from penstock.model.slices import Availability, SliceState
from workflows.ui.cluster_details import LARGEST_DETAILS, cluster_details
from workflows.ui.markdown_tables import GAP

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_groups_stand_in_a_table_and_unmet_demand_below_it() -> None:
    slices = {SliceState.READY: 2, SliceState.BOOTING: 1, SliceState.REQUESTING: 1, SliceState.DELETING: 1}
    dry = GroupStatus(name="dry", slices=slices, max_slices=9, availability=Availability.BACKOFF, until=NOON)
    demand = {"default": SourceStatus(epoch=1, revision=1, tasks=7)}
    told = cluster_details(ClusterStatus(cluster="x", version=1, groups=(dry,), demand=demand, unmet={Code.NO_CAPACITY: 3}))
    assert "|dry|2|2|1|9|backoff until 2030-01-01 12:00:00 UTC|" in told.replace(f"{GAP} ", "").replace("| ", "|")
    assert told.endswith("7 tasks are waiting or placed; unmet: 3 no_capacity.")


def test_it_says_why_nothing_is_ordered() -> None:
    recovery = RecoveryStatus(reason="the ledger is empty.", since=NOON, waiting_for=("sim/a",))
    told = cluster_details(ClusterStatus(cluster="x", version=1, paused="maintenance", recovery=recovery))
    assert "**Paused.** maintenance" in told
    assert "**Recovering:** the ledger is empty. Waiting for sim/a." in told
    told = cluster_details(ClusterStatus(cluster="x", version=1, closing=True, recovery=recovery))
    assert "**Making sure:** the ledger is empty. Waiting for sim/a." in told


def test_a_thousand_groups_are_cut_before_the_ui_refuses_them() -> None:
    groups = tuple(GroupStatus(name=f"group-{i}-größer", max_slices=1) for i in range(1000))
    told = cluster_details(ClusterStatus(cluster="x", version=1, groups=groups))
    assert len(told.encode()) < LARGEST_DETAILS + 100
    assert "more groups" in told
