"""The timelines themselves: an expectation that is wrong is found, and a case that is misspelt is refused."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from penstock.config.problems import BadInput
from penstock.model.decision import Code
from penstock.model.failures import FailureKind
from penstock.model.slices import Availability, SliceState
from tests.workflows.timelines import Expectation, Look, load_file

NOW = datetime(2026, 8, 24, 12, 0, tzinfo=UTC)
LOOK = Look(
    now=NOW,
    states={"g/1": SliceState.READY, "g/2": SliceState.DRAINING, "g/3": SliceState.DELETING},
    phases={"g/1": "running", "g/2": "running", "g/3": "deleting", "g/4": "gone"},
    failures=(("g/4", FailureKind.PREEMPTED),),
    unmet={Code.NO_CAPACITY: 2},
    deferred=1,
    availability={"g": Availability.BACKOFF, "h": Availability.DISABLED, "i": Availability.AVAILABLE},
    blocked_until={"g": NOW + timedelta(minutes=5), "h": None},
    standing={"ana": "met"},
    rejected=3,
    resync=True,
    strangers=("someone",),
)
HOLDS: dict[str, Any] = {
    "ready": {"g": 1},
    "slices": {"g": 3},
    "made": {"g": 4},
    "serving": ["g/1"],
    "draining": ["g/2"],
    "leaving": ["g/3"],
    "alive": ["g/1", "g/3"],
    "gone": ["g/4"],
    "failed": {"g/4": "preempted"},
    "kinds": ["preempted"],
    "unmet": {"no_capacity": 2},
    "deferred": 1,
    "availability": {"g": "backoff", "h": "disabled", "i": "available"},
    "until": {"g": "5m", "h": None},
    "standing": {"ana": "met"},
    "rejected": 3,
    "resync": True,
    "untouched": ["someone"],
}
WRONG: list[dict[str, Any]] = [
    {"ready": {"g": 2}},
    {"ready": {"h": 1}},
    {"slices": {"g": 4}},
    {"made": {"g": 3}},
    {"serving": ["g/2"]},
    {"draining": ["g/1"]},
    {"leaving": ["g/4"]},
    {"alive": ["g/4"]},
    {"alive": ["g/5"]},
    {"gone": ["g/3"]},
    {"gone": ["g/5"]},
    {"failed": {"g/4": "host_lost"}},
    {"failed": {"g/3": "preempted"}},
    {"kinds": ["quota"]},
    {"unmet": {}},
    {"unmet": {"no_capacity": 1}},
    {"deferred": 0},
    {"availability": {"g": "available"}},
    {"until": {"g": "4m"}},
    {"until": {"g": None}},
    {"until": {"h": "5m"}},
    {"until": {"i": "5m"}},
    {"standing": {}},
    {"standing": {"ana": "no_capacity"}},
    {"rejected": 0},
    {"resync": False},
    {"untouched": ["another"]},
]

STEP = "{expect: {ready: {g: 0}}}"
REFUSED = {
    "a word of a step": "steps: [{tick: 1, expect: {ready: {g: 0}}}]",
    "a word of an expectation": "steps: [{expect: {created: {g: 1}}}]",
    "a word of a case": f"pool: [], steps: [{STEP}]",
    "a word of a cluster": f"cluster: {{max_slice: 1}}, steps: [{STEP}]",
    "a word of a zone": "steps: [{cloud: {a: {stockuot: true}}, expect: {ready: {g: 0}}}]",
    "no steps": "steps: []",
    "no expectation": "steps: [{demand: []}]",
    "nothing expected": "steps: [{demand: [], expect: {}}]",
    "one key twice": "steps: [{expect: {ready: {g: 9}}, expect: {ready: {g: 0}}}]",
    "an unknown zone": "steps: [{cloud: {b: {}}, expect: {ready: {g: 0}}}]",
    "an unknown stranger": "steps: [{expect: {untouched: [someone]}}]",
    "most": f"most: {{typo: 1}}, steps: [{STEP}]",
} | {
    f"an unknown group in {word}": f"steps: [{{{word}: {value}, expect: {{ready: {{g: 0}}}}}}]"
    for word, value in {
        "retire": "[typo]",
        "usage": "{typo/1: busy}",
        "drain": "[typo/1]",
        "confirm": "[typo/1]",
        "preempt": "[typo/1]",
        "kill_host": "[typo/1/2]",
        "admit": "[typo/1]",
        "clear_block": "typo",
    }.items()
}
REFUSED |= {
    f"an unknown group in expected {word}": f"steps: [{{expect: {{{word}: {value}}}}}]"
    for word, value in {
        "ready": "{typo: 0}",
        "slices": "{typo: 0}",
        "made": "{typo: 0}",
        "availability": "{typo: available}",
        "until": "{typo: 1s}",
        "gone": "[typo/1]",
        "failed": "{typo/1: gone}",
    }.items()
}


def test_what_is_so_has_no_shortfalls() -> None:
    assert LOOK.shortfalls(Expectation.model_validate(HOLDS)) == []


def test_every_word_of_an_expectation_is_tried() -> None:
    words = set(Expectation.model_fields)
    assert words == set(HOLDS) == {word for wrong in WRONG for word in wrong}


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_what_is_not_so_is_one_shortfall(wrong: dict[str, Any]) -> None:
    assert len(LOOK.shortfalls(Expectation.model_validate(HOLDS | wrong))) == 1


@pytest.mark.parametrize("rest", REFUSED.values(), ids=REFUSED)
def test_a_misspelt_case_is_refused(rest: str, tmp_path: Path) -> None:
    with pytest.raises((ValidationError, BadInput)):
        load_file(_file(tmp_path, f"cases: [{{id: X, title: t, groups: [{{name: g}}], {rest}}}]")).parsed()


def test_a_misspelt_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="leftout"):
        load_file(_file(tmp_path, "leftout: {}\ncases: []"))


def test_ids_are_unique(tmp_path: Path) -> None:
    case = f"{{id: X, title: t, groups: [{{name: g}}], steps: [{STEP}]}}"
    assert len(load_file(_file(tmp_path, f"cases: [{case}]")).parsed()) == 1
    with pytest.raises(AssertionError, match="repeated"):
        load_file(_file(tmp_path, f"cases: [{case}, {case}]")).parsed()


def _file(folder: Path, cases: str) -> Path:
    file = folder / "timelines.yaml"
    file.write_text(f"about: x\ngroup: {{max_slices: 1, host: {{cpu: 4}}, zone: a}}\n{cases}\n", encoding="utf-8")
    return file
