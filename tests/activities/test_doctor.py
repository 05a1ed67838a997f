"""What the doctor finds in the state of a cluster."""

from datetime import UTC, datetime, timedelta

from activities.doctor import _cluster
from penstock.contract.answers import Undecided
from penstock.core.state.state import AutoscalerState, Recovery

SINCE = datetime(2030, 1, 31, 12, 5, tzinfo=UTC)
FAILING = Undecided(since=SINCE, problem="no decision today", failures=3, again_at=SINCE + timedelta(minutes=10))


def test_a_cluster_that_is_not_decided_on_is_a_finding_with_its_time_its_reason_and_its_fix() -> None:
    (finding,) = _cluster("demo", AutoscalerState(undecided=FAILING))
    assert (finding.subject, finding.ok) == ("demo", False)
    assert finding.message == "not decided on since 2030-01-31 12:05:00Z, 3 evaluations failed: no decision today"
    assert "penstock config apply FILE" in finding.fix
    assert "log of the workers" in finding.fix


def test_a_cluster_whose_evaluations_succeed_again_works() -> None:
    (finding,) = _cluster("demo", AutoscalerState())
    assert (finding.ok, finding.message) == (True, "0 slices, configuration 0")


def test_a_cluster_that_recovers_and_is_not_decided_on_has_both_findings() -> None:
    recovering = Recovery(id="r", reason="new autoscaler", since=SINCE)
    found = _cluster("demo", AutoscalerState(undecided=FAILING, recovery=recovering))
    assert [(one.subject, one.ok, one.message.partition(" ")[0]) for one in found] == [
        ("demo", False, "recovers:"),
        ("demo", False, "not"),
    ]
