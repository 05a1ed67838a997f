"""Run the cases of the YAML files: behaviour and known defects of other autoscalers, as snapshots and expected decisions."""

from pathlib import Path

import pytest

from tests.scenarios.cases import Case, check, load_cases

CASES = [case for path in sorted(Path(__file__).parent.glob("*.yaml")) for case in load_cases(path)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check(case)
