"""slices.yaml: slices, their usage, and the problems of such a file."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.config.cluster import load_cluster
from penstock.config.problems import BadInput
from penstock.config.slices import SlicesFile, load_slices
from penstock.model.pressure import PressureReport
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
    ("text", "problem"),
    [
        ("slices: [{id: a, group: cpu-16, state: SLEEPING}]", "slices[0].state"),
        (
            "slices: [{id: a, group: v5e-16-west, state: READY, usage: {reserved: {cpu: 1}}}]",
            "slices[0].usage: 1 given, but a slice of v5e-16-west has 4 hosts; give one for each",
        ),
        (
            "slices: [{id: a, group: cpu-16, state: READY}, {id: a, group: cpu-16, state: READY}]",
            "slice id 'a' appears twice",
        ),
        ("slices: [{id: a, group: cpu-16, state: READY, usage: []}]", "slices[0].usage"),
        ("now: 9999-12-31", "is not between the years"),
        ("launched: [[cpu-16, -1, 2026-11-16T12:00:00Z]]", "launched[0]"),
        ("health: {cpu-16: at_max}", "at_max follows from the configuration and the slices"),
        ("health: {cpu-16: sick}", "health.cpu-16.availability"),
        ("standing: [{owner: o, wants: []}, {owner: o, wants: []}]", "'o' has a request already; merge them"),
        ("pressure: {cpu-16: {queued: 1}}", "pressure.cpu-16.running: is missing; add it"),
        (
            "pressure: {cpu-16: {queued: 1, running: 1, capacity: 1, slices: 1}}",
            "pressure.cpu-16: cpu-16 is driven by entries; remove it here, or set drive: pressure and slots_per_slice",
        ),
    ],
)
def test_a_problem_names_its_path_and_its_fix(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(BadInput) as bad:
        load(tmp_path, text)
    assert problem in str(bad.value)


def test_a_group_that_is_no_longer_configured_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "slices.yaml"
    pressure = "pressure: {old: {queued: 1, running: 1, capacity: 1, slices: 1}}"
    path.write_text(f"slices: [{{id: a, group: gone, state: READY}}]\nhealth: {{l4-wes: backoff}}\n{pressure}")
    gone, typo, old = map(str, load_slices(path).check(CONFIG))
    assert "there is no group 'old'" in old
    assert "there is no group 'gone'" in gone
    assert "there is no group 'l4-wes'; did you mean l4-west?" in typo


def test_pressure_of_a_group_is_now_and_has_no_history_unless_the_file_says_so(tmp_path: Path) -> None:
    report = "queued: 0, running: 0, capacity: 4, slices: 2"
    times = "at: 2026-11-16T11:50:00Z, desired: 3, acted_at: 2026-11-16T11:40:00Z, idle_from: 2026-11-16T11:30:00Z"
    now = datetime(2026, 11, 16, 12, tzinfo=UTC)
    path = tmp_path / "slices.yaml"
    path.write_text(f"pressure:\n  a: {{{report}}}\n  b: {{{report}, {times}}}\n")
    items = load_slices(path).content.pressure
    plain, full = items["a"].state(now), items["b"].state(now)
    assert (plain.at, plain.desired, plain.acted_at, plain.idle_from, plain.stale_at) == (now, None, None, now, None)
    assert (full.at.minute, full.desired, full.acted_at, full.idle_from) == (
        50,
        3,
        now - timedelta(minutes=20),
        now - timedelta(minutes=30),
    )
    assert full.report == PressureReport(queued=0, running=0, capacity=4, slices=2)
