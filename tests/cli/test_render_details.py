"""One slice, the demand of each source, and the clusters of a namespace on a terminal."""

import pytest

from penstock.cli.render_clusters import ClusterSummary, clusters_view
from penstock.cli.render_demand import demand_view, source_details
from penstock.cli.render_slices import SliceDetails, slice_view, slices_view
from penstock.cli.ui_links import UiLinks, ui_address
from penstock.contract.answers import SlicePage
from penstock.contract.slices import SliceLifecycle, SliceSpec, Transition
from penstock.contract.tasks import demand_of
from penstock.core.state.state import SourceDemand
from penstock.model.failures import Failure, FailureKind
from penstock.model.location import Location
from penstock.model.sightings import HostAddress
from penstock.model.slices import DrainTerms, HostUsage, Slice, SliceState
from tests.cli.statuses import NOW, ago, later, shown, words

SLICE_ID = "v5e-16-east-spot-261116-115900-00ff00ff"
GROUP = "v5e-16-east-spot"
LIFECYCLE = SliceLifecycle(
    spec=SliceSpec(
        cluster="demo",
        group=GROUP,
        slice_id=SLICE_ID,
        location=Location(provider="sim", account="sim", name="us-east1-c"),
        hosts=4,
        variant="v5litepod-16",
        preemptible=True,
        cause="demand",
    ),
    state=SliceState.READY,
    since=ago(30),
    ordered_at=ago(60),
    created_at=ago(50),
    transitions=(
        Transition(state=SliceState.BOOTING, at=ago(50), why="the cloud lists it"),
        Transition(state=SliceState.READY, at=ago(30), why="every host answers its health check"),
    ),
)
LEDGER = Slice(id=SLICE_ID, group=GROUP, state=SliceState.READY, since=ago(30))


def details(ledger: Slice | None = LEDGER, lifecycle: SliceLifecycle | None = LIFECYCLE, *usage: HostUsage) -> SliceDetails:
    return SliceDetails(
        cluster="demo",
        slice_id=SLICE_ID,
        group=GROUP,
        ledger=ledger,
        lifecycle=lifecycle,
        usage=usage,
        workflow_id=f"penstock/demo/{GROUP}/{SLICE_ID}",
        ui="http://ui",
    )


def test_a_slice_says_in_whose_place_it_was_ordered_where_its_demand_would_rather_be_and_why_it_drains() -> None:
    drain = DrainTerms(cause="notice", detail="maintenance at 2026-11-16 12:30:00Z", number=4)
    spec = LIFECYCLE.spec.model_copy(update={"cause": "replacement"})
    ledger = LEDGER.changed(replaces="old", home="west", drain=drain)
    text = words(slice_view(details(ledger, LIFECYCLE.model_copy(update={"spec": spec})), NOW))
    assert "(1m ago), as a replacement" in text
    assert "replaces old" in text
    assert f"home west, which its demand prefers to {GROUP}" in text
    assert "drain notice, maintenance at 2026-11-16 12:30:00Z (number 4); deleted at the deadline even if work is left" in text


def test_a_slice_says_until_when_it_is_kept_and_who_asked_not_to_disturb_it() -> None:
    ledger = LEDGER.changed(kept_until=later(7200), cordoned=True)
    text = words(slice_view(details(ledger, LIFECYCLE, HostUsage(do_not_disrupt=True)), NOW))
    assert "(for 2h): no voluntary drain begins" in text
    assert "nothing more is placed on it" in text
    assert "do_not_disrupt: no voluntary drain begins" in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_slice_is_shown_with_its_facts_and_its_timeline(width: int) -> None:
    lines = [line.rstrip() for line in shown(slice_view(details(), NOW), width).splitlines()]
    assert lines[:9] == [
        f"{SLICE_ID}: READY for 30s",
        "  cluster   demo",
        f"  group     {GROUP}",
        "  location  sim/us-east1-c",
        "  hosts     4 (v5litepod-16, preemptible)",
        "  ordered   11:59:00Z (1m ago), for demand",
        "  created   11:59:10Z (10s after the order)",
        "  usage     never reported",
        "  UI        http://ui",
    ]
    timeline = " ".join(" ".join(lines[9:]).split())
    assert timeline.index("11:59:10Z │ BOOTING │ 10s │ the cloud lists it") < timeline.index(
        "11:59:30Z │ READY │ 20s │ every host"
    )


@pytest.mark.parametrize("width", [80, 120])
def test_the_hosts_of_a_slice_are_shown_with_their_addresses_and_usage(width: int) -> None:
    hosts = (
        HostAddress(name="node-w-0", address="10.0.0.2", external_address="34.1.2.3"),
        HostAddress(name="node-w-1", address="10.0.0.3"),
    )
    found = LIFECYCLE.model_copy(update={"hosts": hosts})
    lines = shown(slice_view(details(LEDGER, found, HostUsage(tasks=("t1",))), NOW), width).splitlines()
    facts = [line for line in lines if "10.0.0." in line]
    assert [[word in line for word in ("34.1.2.3", "busy", "t1")] for line in facts] == [[True] * 3, [False] * 3]
    assert sum("node-w-" in line for line in lines) == 2
    assert not any("external address" in line for line in shown(slice_view(details(), NOW), width).splitlines())


def test_a_drain_and_a_failure_are_shown_with_their_cause() -> None:
    drained = LEDGER.model_copy(update={"drain": DrainTerms(cause="noisy fan", force=True, number=3)})
    failed = LIFECYCLE.model_copy(update={"failure": Failure(kind=FailureKind.PREEMPTED, message="taken by the cloud")})
    text = words(slice_view(details(drained, failed), NOW))
    assert "drain noisy fan (number 3); deleted at the deadline even if work is left" in text
    assert "failure preempted: taken by the cloud" in text


def test_each_host_is_shown_with_its_usage_and_tasks() -> None:
    busy, idle = HostUsage.model_validate({"state": "busy", "tasks": ["a/0", "a/1"]}), HostUsage.model_validate("idle")
    text = words(slice_view(details(LEDGER, LIFECYCLE, busy, idle), NOW))
    assert "usage 1 of 2 hosts busy" in text
    assert "│ 0 │ busy │ – │ a/0, a/1 │ │ 1 │ idle │ – │ – │" in text


def test_a_slice_that_only_the_ledger_or_only_temporal_knows_says_so() -> None:
    assert "ledger not in the ledger: the cloud confirmed that it is gone" in words(slice_view(details(None), NOW))
    assert "workflow none runs: penstock verify describes the difference" in words(slice_view(details(LEDGER, None), NOW))


def test_demand_is_shown_by_shape_with_tasks_that_could_not_be_parsed_apart() -> None:
    tasks = [
        {"id": "a", "count": 3, "resources": {"cpu": 2}},
        {"id": "b", "cpus": 1},
        {"id": "c", "resources": {"cpu": 2}},
    ]
    found = source_details(
        "ci", SourceDemand(epoch=5, revision=2, demand=demand_of(tasks), resync_needed="revision 3 is missing")
    )
    text = words(demand_view([found]))
    assert "ci: 5 tasks, 0 gangs, 2 shapes; epoch 5, revision 2 Resync needed: revision 3 is missing" in text
    assert "cpu 2 │ 4 │ 4 │ a/0" in text
    assert "cpus: unknown key" in text
    assert [shape.first_task_ids for shape in found.shapes] == [("a/0", "a/1", "a/2"), ("b",)]


def test_shapes_beyond_twenty_are_counted() -> None:
    demand = demand_of([{"id": f"t{i}", "resources": {"cpu": i + 1}} for i in range(23)])
    text = words(demand_view([source_details("ci", SourceDemand(epoch=0, revision=0, demand=demand))]))
    assert ("cpu 20 │" in text, "cpu 21 │" in text) == (True, False)
    assert "and 3 more shapes, 3 tasks: --json lists them" in text


def test_clusters_show_a_dash_for_numbers_that_are_not_known() -> None:
    clusters = [
        ClusterSummary(cluster="demo", state="running", since=ago(7200), slices=1200, tasks=10, unmet=0, worker_answers=True),
        ClusterSummary(cluster="gone", state="deleted", since=ago(7200), ended=ago(3600)),
        ClusterSummary(cluster="mute", state="no answer", since=ago(60)),
    ]
    text = words(clusters_view(clusters, "127.0.0.1:7233", NOW))
    assert "demo │ running │ 1,200 │ 10 │ 0 │ 2h │ answers" in text
    assert "gone │ deleted │ – │ – │ – │ 1h │ ended 11:00:00Z" in text
    assert "mute │ no answer │ – │ – │ – │ 1m │ no answer" in text
    assert words(clusters_view([], "there:1", NOW)) == "No cluster runs at there:1. Start one: penstock config apply FILE"


@pytest.mark.parametrize(
    ("server", "ui"),
    [
        ("127.0.0.1:7233", "http://127.0.0.1:8233"),
        ("temporal.example:9000", "http://temporal.example:10000"),
        ("ns.a1b2c.tmprl.cloud:7233", "https://cloud.temporal.io"),
    ],
)
def test_the_ui_of_a_server_is_guessed_from_its_address(server: str, ui: str) -> None:
    assert ui_address(server) == ui


def test_links_escape_ids_and_queries() -> None:
    links = UiLinks("http://ui", "team.a")
    assert links.workflow("penstock/demo") == "http://ui/namespaces/team.a/workflows/penstock%2Fdemo"
    assert links.filtered("A='b c'") == "http://ui/namespaces/team.a/workflows?query=A%3D%27b%20c%27"


def test_a_slice_that_did_not_join_says_so_in_the_list_and_by_itself() -> None:
    stranger = LEDGER.model_copy(update={"unclaimed": ago(10)})
    text = words(slice_view(details(stranger), NOW))
    assert f"{SLICE_ID}: READY (not joined) for 30s" in text
    assert "usage not joined: the controller reports usage and has not named it by 11:59:50Z; it holds nothing" in text
    page = SlicePage(total=1, page=1, pages=1, slices=(stranger,))
    assert "READY (not joined)" in words(slices_view(page, NOW))
