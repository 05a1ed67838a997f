"""Run every rule of placing, launching and giving back: a sentence, a small snapshot, and the expected decision."""

import pytest

from tests.scenarios.cases import Case, check
from tests.scenarios.rules import (
    better_places,
    budgets,
    capacity,
    disruption,
    explanations,
    gangs,
    giving_back,
    groups,
    pressure,
    protections,
    replacement,
    silence,
)

RULES = (
    *capacity.RULES,
    *groups.RULES,
    *gangs.RULES,
    *budgets.RULES,
    *explanations.RULES,
    *silence.RULES,
    *giving_back.RULES,
    *protections.RULES,
    *pressure.RULES,
    *replacement.RULES,
    *disruption.RULES,
    *better_places.RULES,
)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_rule(rule: Case) -> None:
    check(rule)
