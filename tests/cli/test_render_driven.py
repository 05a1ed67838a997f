"""Groups that reports of pressure drive, in the status: what is wanted, the last report, and silence."""

import pytest
from rich.console import RenderableType

from penstock.cli.render_status import status_view
from penstock.contract.answers import DrivenStatus, GroupStatus
from penstock.contract.slice_answers import DrainStatus
from penstock.model.pressure import PressureReport
from penstock.model.slices import DrainCause, SliceState
from tests.cli.statuses import EVERYTHING, NOW, ago, later, shown, words

REPORT = PressureReport(queued=1200, running=4, capacity=8, slices=4)
FRESH = DrivenStatus(desired=10, report=REPORT, at=ago(40), source="sky")
STALE = DrivenStatus(desired=2, report=REPORT, at=ago(2400), source="sky", stale_since=ago(600))


def view_of(*groups: tuple[str, DrivenStatus | None], slices: int = 3) -> RenderableType:
    serving = {SliceState.READY: slices} if slices else {}
    rows = tuple(GroupStatus(name=name, slices=serving, driven=driven) for name, driven in groups)
    return status_view(EVERYTHING.model_copy(update={"groups": rows}), NOW)


def test_the_table_has_what_is_wanted_and_the_last_report_of_each_group_that_pressure_drives() -> None:
    text = words(view_of(("fresh", FRESH), ("stale", STALE), ("new", DrivenStatus()), ("by-entries", None)))
    assert "│ fresh │ 10 │ 1,200 │ 4 │ 8 │ 4 │ 40s ago from sky │" in text
    assert "│ stale │ 2 │ 1,200 │ 4 │ 8 │ 4 │ 40m ago from sky, stale for 10m │" in text
    assert "│ new │ – │ – │ – │ – │ – │ never │" in text
    assert "│ by-entries │ –" not in text
    assert "Queue lengths" not in words(status_view(EVERYTHING, NOW))


def test_silence_is_told_with_what_it_means_for_the_slices() -> None:
    text = words(view_of(("stale", STALE), ("new", DrivenStatus())))
    assert "Stale pressure report for stale, of 40m ago, so its 3 slices stay as they are: is the controller running?" in text
    assert "No pressure report has come for new, so its 3 slices stay as they are: is the controller running?" in text
    assert "is the controller running?" not in words(view_of(("fresh", FRESH)))
    assert "pressure report has come" not in words(view_of(("new", DrivenStatus()), slices=0))


@pytest.mark.parametrize("width", [50, 80, 120])
def test_the_table_fits_on_the_screen(width: int) -> None:
    text = shown(view_of(("v5e-16-west", FRESH), ("v5e-16-east-spot", STALE)), width)
    assert "v5e-16-east-spot" in text
    assert "…" not in text


def test_a_drain_that_needs_a_confirmation_ends_in_ready_without_one() -> None:
    drain = DrainStatus(
        slice_id="a", cause=DrainCause.PRESSURE, force=False, idle=True, needs_confirmation=True, deadline=later(60)
    )
    text = words(status_view(EVERYTHING.model_copy(update={"drains": (drain,)}), NOW))
    assert "│ a │ pressure │ 12:01:00Z (1m) │ back to READY │" in text
