"""Slices files: slices, usage and health for `penstock plan`."""

from pathlib import Path

import pytest

from penstock.config.cluster import load_cluster
from penstock.config.problems import BadInput
from penstock.config.slices import SlicesFile, load_slices
from penstock.model.slices import SliceState

CONFIG = load_cluster(Path("examples/cluster.yaml")).config


def load(folder: Path, text: str) -> SlicesFile:
    path = folder / "slices.yaml"
    path.write_text(text)
    loaded = load_slices(path)
    loaded.check(CONFIG)
    return loaded.content


def test_usage_is_per_host_for_the_slice_or_unknown(tmp_path: Path) -> None:
    text = """
now: 2026-11-16T12:00:00Z
slices:
  - {id: a, group: cpu-16, state: ready, usage: busy}
  - {id: b, group: v5e-16-west, state: READY, usage: [idle, busy, degraded, {reserved: {cpu: 4}}]}
  - {id: c, group: cpu-16, state: READY}
"""
    loaded = load(tmp_path, text)
    assert [piece.state for piece in loaded.all_slices()] == [SliceState.READY] * 3
    assert {name: len(usage) for name, usage in loaded.usage().items()} == {"a": 1, "b": 4}
    assert [host.idle for host in loaded.usage()["b"]] == [True, False, False, False]


def test_count_repeats_a_slice(tmp_path: Path) -> None:
    loaded = load(tmp_path, "slices: [{id: a, group: cpu-16, state: READY, usage: busy, count: 3}]")
    assert [piece.id for piece in loaded.all_slices()] == ["a/0", "a/1", "a/2"]
    assert sorted(loaded.usage()) == ["a/0", "a/1", "a/2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slices: [{id: a, group: cpu-16, state: SLEEPING}]", "slices[0].state"),
        (
            "slices: [{id: a, group: v5e-16-west, state: READY, usage: {reserved: {cpu: 1}}}]",
            "slices[0].usage: 1 given, but a slice of v5e-16-west has 4 hosts; give one for each",
        ),
        (
            "slices: [{id: a, group: cpu-16, state: READY}, {id: a, group: cpu-16, state: READY}]",
            "slice id 'a' stands",
        ),
        ("slices: [{id: a, group: cpu-16, state: READY, usage: []}]", "slices[0].usage"),
        ("now: 9999-12-31", "is not between the years"),
        ("launched: [[cpu-16, -1, 2026-11-16T12:00:00Z]]", "launched[0]"),
        ("health: {cpu-16: at_max}", "at_max follows from the configuration and the slices"),
        ("health: {cpu-16: sick}", "health.cpu-16.availability"),
        ("standing: [{owner: o, wants: []}, {owner: o, wants: []}]", "'o' has a request already; put both in one"),
    ],
)
def test_an_error_names_the_path_and_the_fix(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadInput) as bad:
        load(tmp_path, text)
    assert message in str(bad.value)


def test_a_group_that_is_no_longer_configured_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "slices.yaml"
    path.write_text("slices: [{id: a, group: gone, state: READY}]\nhealth: {l4-wes: backoff}")
    gone, typo = map(str, load_slices(path).check(CONFIG))
    assert "no group is called 'gone'" in gone
    assert "no group is called 'l4-wes'; did you mean l4-west?" in typo
