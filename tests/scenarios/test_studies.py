"""Completeness: every case from the studies of other autoscalers is run."""

from collections import Counter
from pathlib import Path

from tests.scenarios.cases import load_cases
from tests.scenarios.rules import pressure
from tests.workflows.timelines import load_file

HERE = Path(__file__).parent
TIMELINES = load_file(HERE.parent / "workflows" / "timelines.yaml")

TPU = "A01 A03 A05 A07 A09 A11 A13 A15 A17 A19 A21 A23 A25 B01 B03 B05 B07 B09 B11 B13 B15"
QUEUES = "S03 S05 S09 S11 S13 S15"
POOLS = "N01 N03 N05 N09"
DURABILITY = "D01 D03 D05 D07 D09"
STUDIED = Counter(f"{TPU} {QUEUES} {POOLS} {DURABILITY}".split()) + Counter(S01=6, S07=3, N07=5)
"""Cases of the studies by id, with the number of their variants."""
IN_PYTHON = Counter(S01=len(pressure.S01), S03=1, S13=1, S15=1, N09=1, A21=1, D07=1, D09=1)
"""Cases that are written in Python: rules of pressure; N09 in tests/core/state/test_pressure.py; others in tests/core/elastic."""
PACKING = Counter(S01=3, S03=1, S05=1, S07=4, S09=10, S11=3, S13=3, S15=3, S17=3, S19=2, S21=1, S23=2, S25=5, D1=1, D3=1, D5=1)
"""Cases of the study of bin packing, which has separate ids."""


def test_every_case_is_run() -> None:
    decided = [case.id for name in ("routing.yaml", "pools.yaml") for case in load_cases(HERE / name)]
    run = _counted([*decided, *(case.id for case in TIMELINES.parsed())]) + IN_PYTHON
    assert set(run) == set(STUDIED)
    assert not {case: count for case, count in STUDIED.items() if case in run and run[case] < count}


def test_every_restated_case_is_run() -> None:
    assert set(TIMELINES.restated) <= set(_counted([case.id for case in TIMELINES.parsed()]))


def test_every_packing_case_is_run() -> None:
    run = _counted([case.id for case in load_cases(HERE / "packing.yaml")])
    assert set(run) == set(PACKING)
    assert run >= PACKING


def _counted(ids: list[str]) -> Counter[str]:
    """Number of our cases by id of the study. The part after the dash names the variant."""
    return Counter(each.split("-")[0] for each in ids)
