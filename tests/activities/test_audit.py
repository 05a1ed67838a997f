"""The reports of audits to the autoscaler."""

from datetime import UTC, datetime

from activities.audit import REPORTS_AT_ONCE, pieces_of
from penstock.contract.inventories import LocationReport, Orphan
from penstock.model.failures import Phase

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def showing(count: int) -> LocationReport:
    found = [
        Orphan(group="g", slice_id=f"s{number}", phase=Phase.RUNNING, location="a", provider="sim") for number in range(count)
    ]
    return LocationReport(account="sim", location="a", at=NOW, complete=True, asked="r", orphans=tuple(found), missing=("gone",))


def test_what_fits_in_one_signal_is_told_in_one() -> None:
    for count in (0, 1, REPORTS_AT_ONCE):
        assert pieces_of(showing(count)) == [showing(count)]


def test_thousands_of_resources_are_told_in_pieces_of_which_only_the_last_says_that_it_is_all() -> None:
    report = showing(2 * REPORTS_AT_ONCE + 1)
    pieces = pieces_of(report)
    assert [one for piece in pieces for one in piece.orphans] == [*report.orphans]
    assert [len(piece.orphans) for piece in pieces] == [REPORTS_AT_ONCE, REPORTS_AT_ONCE, 1]
    assert [(piece.complete, piece.asked, piece.missing) for piece in pieces] == [(False, None, ())] * 2 + [
        (True, "r", ("gone",))
    ]
