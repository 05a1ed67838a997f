"""What other autoscalers get right, and what they get wrong, restated: the cases of the YAML files beside this one."""

from pathlib import Path

import pytest

from tests.scenarios.cases import Case, check, listed_in_reverse, load_cases

CASES = [case for path in sorted(Path(__file__).parent.glob("*.yaml")) for case in load_cases(path)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_order_of_listing_is_irrelevant(case: Case) -> None:
    decision, turned = listed_in_reverse(case)
    assert decision == turned
