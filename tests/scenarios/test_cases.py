"""Tests of the case format: a wrong expectation fails, and a misspelt one is rejected."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from penstock.config.problems import BadInput
from penstock.model.cluster import Limits
from penstock.model.decision import Code
from tests.scenarios.builder import Scenario, deferred, scenario, unmet
from tests.scenarios.cases import Case, Expectation, check, load_cases

TRUE: dict[str, Any] = {
    "placed": {"g": 2},
    "launches": {"g": 1},
    "deferred": [deferred("g", 1, "in_flight", says=["group g"])],
    "unmet": [unmet(Code.NO_CAPACITY, says=["g=at_max"], groups={"g": Code.AT_MAX})],
    "standing": {"ana": "met"},
}
"""A correct expectation of `_given`."""

WRONG: dict[str, Any] = {
    "placed": {"g": 1},
    "launches": {"g": 2},
    "deferred": [deferred("g", 1, "in_flight", says=["group h"])],
    "unmet": [unmet(Code.NO_CAPACITY, says=["g=backoff"])],
    "standing": {"ana": Code.NO_CAPACITY},
    "tiers": {"g": {"new": 2}},
    "required": {"g": 1},
    "target": {"g": 1},
    "causes": {"warm": 1},
    "outcomes": {"g": "idle"},
    "availability": {"g": "available"},
    "why": {"g": "nothing"},
    "pressure": {"g": {}},
    "pools": {"res": {"charged": 4}},
    "cost_per_hour": {"before": 1, "after": 1},
    "changes_in": "1m",
    "drains": ["s"],
}
"""Fields with a wrong expectation."""


def _given() -> Scenario:
    return (
        scenario("two of three tasks are placed, one of two slices is deferred")
        .pool("res", 8)
        .group("g", tpu=4, max_slices=2, pool="res", limits=Limits(in_flight=1))
        .standing("ana", 1, tpu=4)
        .wants(3, tpu=4)
    )


def _expecting(fields: dict[str, Any]) -> Case:
    return _given().expects().model_copy(update={"expect": Expectation.model_validate(fields)})


def test_a_correct_expectation_passes() -> None:
    check(_expecting(TRUE))


@pytest.mark.parametrize("field", WRONG)
def test_a_wrong_expectation_fails(field: str) -> None:
    with pytest.raises(AssertionError):
        check(_expecting(TRUE | {field: WRONG[field]}))


@pytest.mark.parametrize("field", TRUE)
def test_an_omitted_field_is_expected_to_be_empty(field: str) -> None:
    with pytest.raises(AssertionError):
        check(_expecting({key: value for key, value in TRUE.items() if key != field}))


@pytest.mark.parametrize(
    "wrong",
    [
        unmet(Code.NO_CAPACITY, 2),
        unmet(Code.TIER_BLOCKED),
        unmet(Code.NO_CAPACITY, tasks="other"),
        unmet(Code.NO_CAPACITY, groups={"g": Code.BACKOFF}),
        unmet(Code.NO_CAPACITY).model_copy(update={"longest": 10}),
    ],
    ids=["entries", "code", "tasks", "groups", "longest"],
)
def test_each_part_of_unmet_is_compared(wrong: object) -> None:
    with pytest.raises(AssertionError):
        check(_expecting(TRUE | {"unmet": [wrong]}))


def test_fewer_slices_than_another_planner_are_accepted_and_more_are_not() -> None:
    two = scenario("two slices").group("g").wants(2, cpu=4).expects()
    check(two.model_copy(update={"expect": Expectation(no_more_than={"other": 2})}))
    with pytest.raises(AssertionError):
        check(two.model_copy(update={"expect": Expectation(no_more_than={"g": 1})}))


def test_no_more_than_fails_if_an_entry_is_not_placed() -> None:
    none = scenario("no slice").group("g", max_slices=0).wants(1, cpu=4).expects()
    with pytest.raises(AssertionError):
        check(none.model_copy(update={"expect": Expectation(no_more_than={"g": 1})}))


GROUPS = "config: {groups: [{name: g, max_slices: 1}]}"
REFUSED = {
    "expectation": "{id: X, title: t, config: {groups: []}, expect: {launch: {g: 1}}}",
    "code": "{id: X, title: t, config: {groups: []}, expect: {unmet: [{tasks: t, code: at_max_slices}]}}",
    "group": "{id: X, title: t, config: {groups: [{name: g, max_slices: 1, buffer_slices: 1}]}, expect: {}}",
    "case": "{id: X, title: t, config: {groups: []}, task: [], expect: {}}",
    "nothing expected": "{id: X, title: t, config: {groups: []}}",
    "exact and not": "{id: X, title: t, config: {groups: []}, expect: {placed: {g: 1}, no_more_than: {g: 1}}}",
    "one key twice": "{id: X, title: t, config: {groups: []}, expect: {placed: {}}, expect: {}}",
    "slice of no group": f"{{id: X, title: t, {GROUPS}, slices: [{{id: s, group: h, state: READY}}], expect: {{}}}}",
    "health of no group": f"{{id: X, title: t, {GROUPS}, health: {{h: backoff}}, expect: {{}}}}",
    "launches of no group": f"{{id: X, title: t, {GROUPS}, expect: {{launches: {{h: 0}}}}}}",
    "target of no group": f"{{id: X, title: t, {GROUPS}, expect: {{target: {{h: 0}}}}}}",
    "pending without a gang": f"{{id: X, title: t, {GROUPS}, tasks: [{{id: t, pending: 2}}], expect: {{}}}}",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_a_misspelt_case_is_rejected(text: str, tmp_path: Path) -> None:
    with pytest.raises((ValidationError, BadInput)):
        load_cases(_file(tmp_path, f"about: x\ncases: [{text}]"))


def test_a_misspelt_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="grop"):
        load_cases(_file(tmp_path, "about: x\ngrop: {}\ncases: []"))


def test_ids_are_unique(tmp_path: Path) -> None:
    case = "{id: X, title: t, config: {groups: []}, expect: {}}"
    with pytest.raises(AssertionError, match="ids must be unique"):
        load_cases(_file(tmp_path, f"about: x\ncases: [{case}, {case}]"))


def _file(folder: Path, text: str) -> Path:
    file = folder / "cases.yaml"
    file.write_text(text, encoding="utf-8")
    return file
