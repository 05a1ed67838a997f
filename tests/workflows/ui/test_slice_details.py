"""The details of a slice in the Temporal UI."""

from datetime import UTC, datetime

from penstock.contract.slices import SliceLifecycle, SliceSpec
from penstock.model.failures import Notice, NoticeKind
from penstock.model.location import Location
from penstock.model.slices import SliceState
from workflows.ui.slice_details import slice_timeline

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SPEC = SliceSpec(cluster="c", group="g", slice_id="g-1", location=Location(provider="sim", account="sim", name="zone-a"))
READY = SliceLifecycle(spec=SPEC, state=SliceState.READY, since=NOON, ordered_at=NOON)


def test_the_details_say_what_the_cloud_announces_for_the_slice() -> None:
    notice = Notice(kind=NoticeKind.RESERVATION_END, until=NOON)
    details = slice_timeline(READY.model_copy(update={"notice": notice}))
    assert "Notice: the end of its reservation announced for 2030-01-01 12:00:00 UTC" in details.splitlines()
    assert "Notice" not in slice_timeline(READY)
