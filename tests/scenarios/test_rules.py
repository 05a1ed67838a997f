"""Each rule of placing and launching, as a sentence and the facts that show it."""

import pytest

from tests.scenarios.cases import Case, check
from tests.scenarios.rules import budgets, capacity, gangs, groups, telling

RULES = (*capacity.RULES, *groups.RULES, *gangs.RULES, *budgets.RULES, *telling.RULES)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_rule(rule: Case) -> None:
    check(rule)
