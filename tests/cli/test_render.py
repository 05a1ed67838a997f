"""Slices, checks, configurations and the simulated cloud on a terminal."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.cli.render_checks import doctor_view, verdict_view
from penstock.cli.render_config import changes_view, config_text
from penstock.cli.render_effects import effects_view
from penstock.cli.render_sim import behaviour_view, resources_view
from penstock.cli.render_slices import slices_view
from penstock.config.cluster import load_cluster
from penstock.contract.answers import Difference, DoctorReport, DrainSummary, Finding, SlicePage, Verdict
from penstock.contract.effects import BlockEffect, Effects, LaunchEffect, OutdatedEffect, UnmetEffect
from penstock.contract.slice_answers import AboutSlice
from penstock.model.cluster import ClusterConfig
from penstock.model.config_diff import config_changes
from penstock.model.sightings import HostAddress
from penstock.model.slices import DrainCause, Slice, SliceState
from tests.cli.statuses import NOW, ago, shown, words

CONFIG = load_cluster(Path("examples/cluster.yaml")).config


def changed(**groups_or_fields: Any) -> ClusterConfig:
    return ClusterConfig.model_validate(yaml.safe_load(config_text(CONFIG)) | groups_or_fields)


@pytest.mark.parametrize("width", [45, 80, 120])
def test_slices_fit_on_the_screen_with_their_whole_ids(width: int) -> None:
    ids = ("v5e-16-east-spot-261116-115900-00ff00ff", "cpu-16-261116-110000-12345678")
    page = SlicePage(
        total=2,
        page=1,
        pages=1,
        slices=(
            Slice(id=ids[0], group="v5e-16-east-spot", state=SliceState.REQUESTING, since=ago(60), queued=True),
            Slice(id=ids[1], group="cpu-16", state=SliceState.READY, since=ago(3600)),
        ),
    )
    text = shown(slices_view(page, NOW), width)
    assert all(slice_id in text for slice_id in ids)
    assert "REQUESTING (queued)" in text
    assert "1h" in text
    assert "2 slices." in text


@pytest.mark.parametrize("width", [45, 80, 200])
def test_slices_show_why_they_stay_their_age_their_price_and_their_addresses_at_any_width(width: int) -> None:
    slice_id = "cpu-16-261116-110000-12345678"
    hosts = tuple(HostAddress(name=f"h{i}", address=f"10.0.0.{i}") for i in range(4))
    piece = Slice(id=slice_id, group="cpu-16", state=SliceState.READY, since=ago(600), hosts=hosts)
    other = Slice(id="cpu-16-261116-115900-12345678", group="cpu-16", state=SliceState.DRAINING, since=ago(60))
    about = {
        slice_id: AboutSlice(why="idle timeout", goes_at=ago(-360), ordered_at=ago(3600), price_per_hour=2.5),
        other.id: AboutSlice(why="goes: idle"),
    }
    page = SlicePage(total=2, page=1, pages=1, slices=(piece, other), about=about)
    text = shown(slices_view(page, NOW), width)
    assert max(map(len, text.splitlines())) <= width
    whole = " ".join(text.replace("│", " ").split())
    for part in (slice_id, "idle timeout: goes in 6m", "2.50", "10.0.0.0, 10.0.0.1 and 2 more", "goes: idle", "1h"):
        assert part in whole


def test_a_page_names_the_next_one() -> None:
    page = SlicePage(total=450, page=2, pages=3, slices=(Slice(id="a", group="g", state=SliceState.READY),))
    assert "450 slices, page 2 of 3: --page 3 shows more." in words(slices_view(page, NOW))
    assert words(slices_view(SlicePage(total=0, page=1, pages=1, slices=()), NOW)) == "No slices."


def test_a_verdict_that_agrees_is_one_sentence() -> None:
    verdict = Verdict(cluster="demo", at=NOW, slices=3, resources=3, workflows=3, locations=1)
    assert words(verdict_view(verdict)) == (
        "demo agrees: 3 in the ledger, 3 slice workflows, 3 resources in 1 location, at 12:00:00Z."
    )


def test_a_verdict_that_differs_lists_each_difference_with_its_location() -> None:
    difference = Difference(slice_id="s-1", group="g", location="sim/a", kind="orphans", message="no workflow owns it")
    verdict = Verdict(
        cluster="demo", at=NOW, slices=0, resources=1, workflows=0, locations=2, differences=(difference,), unlisted=("sim/b",)
    )
    text = words(verdict_view(verdict))
    assert "demo does not agree" in text
    assert "s-1 │ orphans │ sim/a │ no workflow owns it" in text
    assert "No complete list of sim/b: it may hold more resources." in text


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_difference_names_its_slice_whole_however_narrow_the_screen_is(width: int) -> None:
    slice_id, location = "v5e-16-east-spot-261116-115900-00ff00ff", "gcp-tpu:my-project/us-east1-c"
    difference = Difference(
        slice_id=slice_id,
        group="v5e-16-east-spot",
        location=location,
        kind="lost",
        message="READY in the ledger, but not in the cloud",
    )
    verdict = Verdict(cluster="demo", at=NOW, slices=1, resources=0, workflows=1, locations=1, differences=(difference,))
    text = shown(verdict_view(verdict), width)
    assert all(part in text for part in (slice_id, location, "lost"))
    assert "1 in the ledger, 1 slice workflow, 0 resources in 1 location" in " ".join(text.split())
    assert difference.message in " ".join(text.replace("│", " ").split())


def test_the_doctor_gives_the_fix_of_each_failed_check() -> None:
    findings = (
        Finding(subject="server", ok=True, message="answers"),
        Finding(subject="sim", ok=False, message="no answer at http://x", fix="start it: make run"),
    )
    text = shown(doctor_view(DoctorReport(at=NOW, findings=findings)))
    assert text.splitlines() == [
        "✓ server: answers",
        "✗ sim: no answer at http://x",
        "  → start it: make run",
        "1 of 2 needs attention.",
    ]
    assert "All is well." in words(doctor_view(DoctorReport(at=NOW, findings=findings[:1])))


@pytest.mark.parametrize("width", [60, 100])
def test_effects_of_a_configuration_are_short_tables(width: int) -> None:
    drains = tuple(DrainSummary(slice=f"g-261116-115900-0000000{n:x}", group="g", cause="above maximum") for n in range(12))
    effects = Effects(
        at=NOW,
        held="The cluster is paused: nothing is launched or drained until it is resumed.",
        launches=(LaunchEffect(group="h", before=0, after=3),),
        drains=drains,
        cancelled=drains[:1],
        blocked=(BlockEffect(group="k", reason="at_max"),),
        unmet=UnmetEffect(before=1, after=4),
        cost_per_hour_before=10,
        cost_per_hour_after=14.5,
        removed={"old": 2},
    )
    text = " ".join(shown(effects_view(effects), width).split())
    assert text.startswith("The cluster is paused")
    for part in (
        "Slices that would drain",
        "and 2 more slices: --json lists them all",
        "Drains that would be cancelled",
        "Groups that would launch no more",
        "old has 2 slices",
        "Unmet: 1 task now, 4 if applied.",
        "10.00 now, 14.50 if applied",
    ):
        assert part in text


@pytest.mark.parametrize("width", [60, 100])
def test_slices_that_a_configuration_makes_outdated_are_a_table_with_their_pace(width: int) -> None:
    effects = Effects(
        at=NOW,
        outdated=(
            OutdatedEffect(group="web", cause=DrainCause.DRIFT, before=0, after=40, at_once=2),
            OutdatedEffect(
                group="night", cause=DrainCause.EXPIRY, before=1, after=3, at_once=1, opens_at=NOW + timedelta(hours=2)
            ),
            OutdatedEffect(group="stuck", cause=DrainCause.DRIFT, before=0, after=5, at_once=0),
            OutdatedEffect(group="fine", cause=DrainCause.DRIFT, before=4, after=0, at_once=1),
        ),
        unmet=UnmetEffect(before=0, after=0),
    )
    text = " ".join(shown(effects_view(effects), width).replace("│", " ").split())
    assert text.startswith("Slices that would be replaced, in all")
    for part in ("web drift 0 40 2 at once", "never: max_unavailable is 0", "fine drift 4 0 – –"):
        assert part in text
    if width == 100:
        assert "(in 2h)" in text
    assert "a busy one drains once its replacement is READY." in text


def test_a_configuration_without_effects_says_so() -> None:
    effects = Effects(at=NOW, unmet=UnmetEffect(before=1, after=1))
    assert words(effects_view(effects)) == "Nothing would be launched or drained for it now."


def test_slices_that_are_kept_and_cordoned_show_it() -> None:
    kept = Slice(id="g-1", group="g", state=SliceState.READY, kept_until=NOW + timedelta(hours=2), cordoned=True)
    page = SlicePage(total=1, page=1, pages=1, slices=(kept,))
    assert "READY (kept) (cordoned)" in words(slices_view(page, NOW))
    assert "kept" not in words(slices_view(page, NOW + timedelta(hours=2)))


def test_a_configuration_that_is_shown_can_be_applied_again() -> None:
    text = config_text(CONFIG)
    assert ClusterConfig.model_validate(yaml.safe_load(text)) == CONFIG
    assert "memory: 192GiB" in text


def test_defaults_are_not_shown() -> None:
    config = ClusterConfig.model_validate(
        {"cluster": "c", "patience": "1m", "groups": [{"name": "a", "max_slices": 2, "host": {"cpu": 4}}]}
    )
    assert yaml.safe_load(config_text(config)) == {
        "cluster": "c",
        "patience": "1m",
        "groups": [{"name": "a", "host": {"cpu": 4}, "max_slices": 2}],
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"evaluation": {"interval": "50ms"}},
        {"patience": "1h30m", "limits": {"growth": 0.5}},
        {"inventory": {"look": 90061}},
        {"max_unavailable": "25%", "window": {"hours": "22:00-06:00"}, "return_home": {}, "max_cost_per_hour": 0.1},
        {
            "groups": [
                {"name": "a", "max_slices": 1, "host": {"cpu": 0.125, "memory": 1001}, "provider": {"kind": "local", "n": 1}}
            ]
        },
    ],
)
def test_no_number_is_rounded_when_it_is_shown(fields: dict[str, Any]) -> None:
    config = changed(**fields)
    assert ClusterConfig.model_validate(yaml.safe_load(config_text(config))) == config


def test_differences_are_listed_field_by_field_and_groups_by_name() -> None:
    groups = yaml.safe_load(config_text(CONFIG))["groups"]
    groups[0]["max_slices"] = 16
    groups[1]["name"] = "v5e-16-north-spot"
    groups[2]["attributes"] = {"network": "faster"}
    after = changed(groups=groups[::-1], patience="1m", max_slices=None)
    assert shown(changes_view(config_changes(CONFIG, after))).splitlines() == [
        "- groups.v5e-16-east-spot: removed group",
        "+ groups.v5e-16-north-spot: new group",
        "~ max_slices: 60 → unset",
        "~ patience: 10m → 1m",
        "~ groups.l4-west.attributes.network: fast → faster",
        "~ groups.v5e-16-west.max_slices: 12 → 16",
    ]


def test_a_part_that_is_switched_on_or_off_is_listed_by_its_fields() -> None:
    on = changed(window={"days": ["sat", "sun"]}, return_home={}, max_unavailable="25%")
    assert shown(changes_view(config_changes(CONFIG, on))).splitlines() == [
        "~ max_unavailable: 1 → 25%",
        '+ window.days: ["sat", "sun"]',
        "+ window.hours: 00:00-24:00",
        "+ return_home.settle: 30m",
    ]
    assert shown(changes_view(config_changes(on, changed(max_unavailable="25%")))).splitlines() == [
        '- window.days: ["sat", "sun"]',
        "- window.hours: 00:00-24:00",
        "- return_home.settle: 30m",
    ]


def test_the_order_of_groups_is_no_difference() -> None:
    groups = yaml.safe_load(config_text(CONFIG))["groups"]
    assert config_changes(CONFIG, changed(groups=groups[::-1])) == ()


def test_a_zone_shows_the_settings_that_are_not_the_default() -> None:
    assert words(behaviour_view("z", {"stockout": False, "capacity": None, "create_latency": 0.0})) == (
        "z has default settings: it creates everything at once and never fails."
    )
    text = words(
        behaviour_view("z", {"capacity": 0, "boot_latency": 1.5, "quota": {"scope": "region", "limit": 2}, "stockout": True})
    )
    assert text == "z: capacity: 0 boot_latency: 1.5s quota: scope region, limit 2 stockout: true"


def test_resources_of_the_simulated_cloud_are_a_table() -> None:
    item = {"name": "s-1", "phase": "running", "hosts": [{}, {}], "zone": "a", "labels": {}, "created_at": ago(90).isoformat()}
    assert "s-1 │ running │ 2 │ 1m30s │ –" in words(resources_view([item], NOW))
    assert words(resources_view([], NOW)) == "No resources."
