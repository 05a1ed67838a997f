"""The alert rules of docs/telemetry.md name metrics and labels that exist, and fire for as long as there is something to mend."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from activities.providers.port import Unexpected
from penstock.contract.answers import ProblemKind
from penstock.contract.cost import Use
from penstock.contract.metrics import (
    DRAINS_ENDED,
    EVALUATION_FAILURES,
    LOCATION_FAILURES,
    LOCATION_PROBLEM,
    METRICS,
    OPERATOR,
    PRESSURE_KINDS,
    SOURCE_HEARD,
)
from penstock.core.slices.drain_counts import DrainEnd
from penstock.model.cluster import DEFAULT_DRAIN_SECONDS, DEFAULT_IDLE_SECONDS, STALE_AFTER_IDLE_TIMEOUTS
from penstock.model.slices import DrainCause
from workflows import policies

DOCS = Path(__file__).parents[2] / "docs"
MANUAL = (DOCS / "telemetry.md").read_text()
OPERATIONS = (DOCS / "operations.md").read_text()
BY_NAME = {metric.name: metric for metric in METRICS}
OF_PROMETHEUS = {"le", "instance"}
SCRAPES_SECONDS = 120
"""Two scrapes of a slow Prometheus: `increase` sees nothing of what happened before the first of its window."""


def _rules() -> list[dict[str, Any]]:
    (text,) = (block for block in re.findall(r"```yaml\n(.*?)```", MANUAL, re.DOTALL) if "alert:" in block)
    rules: list[dict[str, Any]] = yaml.safe_load(text)["groups"][0]["rules"]
    return rules


RECORDED = {rule["record"]: rule["expr"] for rule in _rules() if "record" in rule}
ALERTS = {rule["alert"]: rule for rule in _rules() if "alert" in rule}


def _metrics_in(expression: str) -> set[str]:
    """The metrics of an expression and of the recorded rules that it uses."""
    found = {re.sub(r"_(bucket|count|sum)$", "", name) for name in re.findall(r"\bpenstock_\w+", expression)}
    for name in re.findall(r"\bpenstock:\w+", expression):
        found |= _metrics_in(RECORDED[name])
    return found


@pytest.mark.parametrize("expression", [rule["expr"] for rule in _rules()])
def test_a_rule_names_metrics_and_labels_that_exist(expression: str) -> None:
    named = _metrics_in(expression)
    labels = {label for metric in named if metric in BY_NAME for label in BY_NAME[metric].labels} | OF_PROMETHEUS
    used = {label for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression) for label in group.split(", ")}
    assert named <= BY_NAME.keys()
    assert not named or used <= labels


def test_the_alert_on_a_location_is_on_the_gauge_whose_value_lasts_as_long_as_the_problem() -> None:
    assert ALERTS["PenstockLocationFails"]["expr"] == f"max by (cluster, location) ({LOCATION_PROBLEM.name}) > 0"
    assert [kind for kind in ProblemKind if f"`{kind}`" not in MANUAL] == []


def test_the_alert_on_evaluations_fires_from_the_first_failure_until_none_is_repeated() -> None:
    """Whatever the pauses grow to, each window of the rule has a failure in it."""
    expression = ALERTS["PenstockEvaluationsFail"]["expr"]
    (minutes,) = {int(text) for text in re.findall(r"(?:\[|offset )(\d+)m", expression)}
    attempts = policies.ATTEMPTS * policies.EVALUATE["start_to_close_timeout"].total_seconds()
    apart = max(policies.pause_after(failures).total_seconds() for failures in range(50)) + attempts
    assert _metrics_in(expression) == {EVALUATION_FAILURES.name}
    assert re.findall(r"> (\d+)", expression) == ["0", "0"]
    assert "for" not in ALERTS["PenstockEvaluationsFail"]
    assert minutes * 60 >= apart + SCRAPES_SECONDS


@pytest.mark.parametrize(
    "alert",
    [
        "PenstockDeletionOverdue",
        "PenstockLocationFails",
        "PenstockProviderDefect",
        "PenstockEvaluationsFail",
        "PenstockSourceSilent",
        "PenstockIdleMoney",
        "PenstockNotJoined",
        "PenstockNeverReported",
        "PenstockDrainsExpire",
    ],
)
def test_the_manual_of_symptoms_says_what_to_do_about_an_alert(alert: str) -> None:
    assert alert in ALERTS
    assert f"an alert `{alert}` |" in OPERATIONS


def test_the_alert_on_defects_is_on_the_kind_under_which_they_are_counted() -> None:
    assert f'{LOCATION_FAILURES.name}{{kind="{Unexpected.__name__}"}}' in ALERTS["PenstockProviderDefect"]["expr"]


def test_the_alert_on_drains_is_on_those_that_expire_and_its_window_is_long_enough_for_several_of_one_slice() -> None:
    expression = ALERTS["PenstockDrainsExpire"]["expr"]
    hours, repeated = (int(found) for pattern in (r"\[(\d+)h\]", r"> (\d+)$") for found in re.findall(pattern, expression))
    assert _metrics_in(expression) == {DRAINS_ENDED.name}
    assert f'how="{DrainEnd.EXPIRED}"' in expression
    assert hours * 3600 > (repeated + 1) * (DEFAULT_IDLE_SECONDS + DEFAULT_DRAIN_SECONDS)


def test_every_cause_and_every_end_of_a_drain_is_in_the_manual() -> None:
    words = " ".join(MANUAL.split())
    assert [word for word in (*DrainCause, OPERATOR, *DrainEnd) if f"`{word}`" not in words] == []


def test_a_source_is_silent_once_it_is_stale_by_default_and_one_that_names_nothing_is_not() -> None:
    seconds = STALE_AFTER_IDLE_TIMEOUTS * DEFAULT_IDLE_SECONDS
    heard = f"max by (cluster, source) ({SOURCE_HEARD.name} > 0)"
    assert ALERTS["PenstockSourceSilent"]["expr"] == f"time() - {heard} > {seconds:.0f}"


def test_every_use_and_every_kind_of_pressure_is_in_the_manual() -> None:
    assert [use for use in Use if use is not Use.REQUESTED and f"`{use}`" not in MANUAL] == []
    assert [kind for kind in PRESSURE_KINDS if f"`{kind}`" not in MANUAL] == []


def test_a_query_of_the_manual_names_recorded_rules_and_metrics_that_exist() -> None:
    queries = re.findall(r"^\| [^|]+ \| `([^`]*penstock[^`]*)` \|$", MANUAL, re.MULTILINE)
    assert len(queries) > 3
    for query in queries:
        assert _metrics_in(query) <= BY_NAME.keys()
