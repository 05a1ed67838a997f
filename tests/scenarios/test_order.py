"""The order in which groups, pools and standing requests are listed never changes a decision."""

from penstock.core.decision.decide import decide
from tests.scenarios.cases import Case
from tests.scenarios.test_rules import RULES
from tests.scenarios.test_scenarios import CASES


def changes_when_reversed(case: Case) -> bool:
    snapshot = case.snapshot(case.demand())
    config = snapshot.config
    turned = config.model_copy(update={"groups": config.groups[::-1], "pools": config.pools[::-1]})
    return decide(snapshot) != decide(snapshot.model_copy(update={"config": turned, "standing": snapshot.standing[::-1]}))


def test_no_rule_and_no_case_depends_on_the_order_of_listing() -> None:
    assert [str(case) for case in (*RULES, *CASES) if changes_when_reversed(case)] == []
