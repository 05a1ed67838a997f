"""The work of one decision: bounded by what is placed, not by shapes times groups or gangs times hosts."""

import pytest
from hypothesis import given

from bench.scaling import distinct_sizes, pack_gangs
from penstock.core.decision import filling
from penstock.core.decision.bins import HostBin
from penstock.core.decision.cursors import ShapeCursor
from penstock.core.decision.decide import decide
from penstock.model.cluster import Placement
from penstock.model.snapshot import Snapshot
from tests.core.decision.generators import snapshots
from tests.core.decision.test_laws import carried_out, law, opened

TASKS = 400
GANGS = 50
FILLING = (Placement.PACKING, Placement.COST)


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[HostBin]:
    """The hosts that were asked for their space."""
    asked: list[HostBin] = []
    tasks_in = ShapeCursor.tasks_in

    def counted(cursor: ShapeCursor, host: HostBin, limit: int) -> int:
        asked.append(host)
        return tasks_in(cursor, host, limit)

    monkeypatch.setattr(ShapeCursor, "tasks_in", counted)
    return asked


@pytest.mark.parametrize("placement", Placement)
def test_tasks_of_distinct_sizes_are_not_tried_on_every_group_and_host(placement: Placement, fits: list[HostBin]) -> None:
    decide(distinct_sizes(TASKS, 1, placement))
    assert len(fits) <= TASKS


@pytest.mark.parametrize("placement", Placement)
def test_a_pack_gang_does_not_look_at_every_idle_host(placement: Placement, fits: list[HostBin]) -> None:
    decision = decide(pack_gangs(GANGS, placement))
    assert not decision.launches
    assert len(fits) <= 100 * GANGS


@pytest.mark.parametrize("placement", FILLING)
def test_a_decision_beyond_its_budget_of_work_says_so_and_places_everything(
    placement: Placement, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = distinct_sizes(TASKS, 8, placement)
    full = decide(snapshot)
    monkeypatch.setattr(filling, "EFFORT", 0)
    short = decide(snapshot)
    assert (full.thorough, short.thorough) == (True, False)
    assert not short.unmet
    assert decide(snapshot) == short


def test_beyond_the_budget_a_decision_that_was_carried_out_launches_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "EFFORT", 0)

    @law
    @given(snapshots(FILLING))
    def check(snapshot: Snapshot) -> None:
        first = decide(snapshot)
        assert not opened(decide(carried_out(snapshot, first)))

    check()
