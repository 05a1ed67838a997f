"""What clouds announce for slices on a terminal: in the status, in the list of slices, and for one slice."""

import pytest

from penstock.cli.render_slices import slice_view, slices_view
from penstock.cli.render_status import status_view
from penstock.contract.answers import ClusterStatus, SlicePage
from penstock.contract.slice_answers import NoticeStatus
from penstock.model.failures import Notice, NoticeKind
from tests.cli.statuses import NOW, ago, later, shown, words
from tests.cli.test_render_details import LEDGER, LIFECYCLE, SLICE_ID, details

MAINTENANCE = Notice(kind=NoticeKind.MAINTENANCE, until=later(720))


def status(count: int, *, in_all: int = 0) -> ClusterStatus:
    notices = tuple(
        NoticeStatus(slice_id=f"g-{i}", group="g", kind=NoticeKind.RESERVATION_END, until=later(60 + i)) for i in range(count)
    )
    return ClusterStatus(cluster="c", version=1, notices=notices, notices_in_all=in_all or count)


def test_a_slice_shows_its_notice_as_its_workflow_has_it_and_else_the_ledger() -> None:
    text = "notice maintenance announced for 12:12:00Z (in 12m)"
    lifecycle = LIFECYCLE.model_copy(update={"notice": MAINTENANCE})
    assert text in words(slice_view(details(LEDGER, lifecycle), NOW))
    assert text in words(slice_view(details(LEDGER.changed(notice=MAINTENANCE), None), NOW))
    assert "notice" not in words(slice_view(details(LEDGER.changed(notice=MAINTENANCE), LIFECYCLE), NOW))
    assert details(LEDGER, lifecycle).model_dump(mode="json")["lifecycle"]["notice"] == {
        "kind": "maintenance",
        "until": "2026-11-16T12:12:00Z",
    }


def test_the_list_of_slices_has_a_column_for_notices_once_there_is_one() -> None:
    page = SlicePage(total=2, page=1, pages=1, slices=(LEDGER, LEDGER.model_copy(update={"id": "other", "notice": MAINTENANCE})))
    text = words(slices_view(page, NOW))
    assert "maintenance announced for 12:12:00Z (in 12m)" in text
    assert "notice" not in words(slices_view(page.model_copy(update={"slices": (LEDGER,)}), NOW))


@pytest.mark.parametrize("width", [60, 100])
def test_the_status_shows_the_soonest_notices_and_counts_the_others(width: int) -> None:
    text = " ".join(shown(status_view(status(12, in_all=300), NOW), width).split())
    assert "Announced by the cloud" in text
    assert "g-9" in text
    assert "g-10" not in text
    assert "and 290 more" in text
    assert "g-0 │ the end of its reservation │ 12:01:00Z (in 1m)" in words(status_view(status(1), NOW))
    assert "Announced" not in words(status_view(status(0), NOW))


def test_a_moment_that_has_passed_is_now() -> None:
    late = LEDGER.changed(notice=Notice(kind=NoticeKind.PREEMPTION, until=ago(5)))
    assert f"{SLICE_ID}: READY" in words(slice_view(details(late, None), NOW))
    assert "preemption announced for 11:59:55Z (now)" in words(slice_view(details(late, None), NOW))
