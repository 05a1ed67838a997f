"""Scenario tests of the decision: rules in Python, and cases from studies of other autoscalers in YAML."""

import pytest

pytest.register_assert_rewrite("tests.scenarios.cases")
