"""Run every placement and launch rule: a sentence, a small snapshot, and the expected decision."""

import pytest

from tests.scenarios.cases import Case, check
from tests.scenarios.rules import budgets, capacity, explanations, gangs, groups, silence

RULES = (*capacity.RULES, *groups.RULES, *gangs.RULES, *budgets.RULES, *explanations.RULES, *silence.RULES)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_rule(rule: Case) -> None:
    check(rule)
