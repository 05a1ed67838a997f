"""A decision on a terminal: that of the last evaluation says so first."""

import pytest

from penstock.cli.render_decision import print_decision
from penstock.core.answers.as_of import decision_as_of
from tests.core.answers.test_as_of import LATER, MADE, START, changed


def test_the_decision_of_the_last_evaluation_says_when_it_was_and_whether_anything_changed_since(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made, version = (MADE.view, MADE.decision), MADE.orders.input_version
    print_decision(decision_as_of(START, made, input_version=version, now=LATER))
    assert capsys.readouterr().out.startswith("As of the last evaluation at 12:00:00 UTC.\n")
    print_decision(decision_as_of(changed(START, add="new"), made, input_version=version, now=LATER))
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("As of the last evaluation at 12:00:00 UTC; what changed since is not decided on yet. ")
