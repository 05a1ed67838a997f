"""`penstock sim` against a real simulated cloud."""

import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from penstock.cli.sim_http import SimCalls
from tests.cli.running import Commands, in_process
from tests.emulators.running import RunningSim


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    cloud = RunningSim(tmp_path_factory.mktemp("cloud") / "cloud.sqlite")
    cloud.start()
    yield cloud.url
    cloud.kill()


class SimCommands:
    """`penstock sim` for one simulated cloud, in this process."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, *arguments: str) -> CompletedProcess[str]:
        return in_process("sim", *arguments, PENSTOCK_SIM_URL=self.url)

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json").stdout)


@pytest.fixture
def sim(url: str) -> SimCommands:
    return SimCommands(url)


def make(url: str, zone: str, name: str, **rest: object) -> None:
    SimCalls(url).call("POST", f"/zones/{zone}/resources", {"name": name, "hosts": 2} | rest)


def test_settings_of_a_zone_are_changed_one_by_one_and_shown(sim: SimCommands) -> None:
    assert "has default settings" in sim("show", "set-1").stdout
    assert sim("set", "set-1", "capacity=2", "boot_latency=30s").returncode == 0
    shown = sim("set", "set-1", "stockout=true", "quota={scope: region, limit: 3}").stdout
    assert " ".join(shown.split()) == "set-1: boot_latency: 30s capacity: 2 stockout: true quota: scope region, limit 3"
    assert sim.json("show", "set-1")["capacity"] == 2
    assert "capacity" not in sim("set", "set-1", "capacity=null").stdout
    assert "has default settings" in sim("set", "set-1", "--reset").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("set", "z", "stockouts=true"), "stockouts: unknown key; did you mean stockout?"),
        (("set", "z", "capacity"), "'capacity' is not KEY=VALUE"),
        (("set", "z", "capacity=[1"), "the value of capacity is not YAML: '[1'"),
        (("set", "z", "quota=3"), "quota: should be an object with keys such as limit, scope, not 3"),
        (("set", "z", "quota=3"), "Write it like stockout=true, boot_latency=30s or 'quota={scope: zone, limit: 3}'"),
        (("preempt",), "give either the NAME of a resource or --zone"),
        (("notice", "n"), "give --kind and --in, such as --kind maintenance --in 10m, or --off alone"),
        (("notice", "n", "--kind", "maintenance"), "give --kind and --in"),
        (("notice", "n", "--off", "--in", "10m"), "or --off alone"),
        (("notice", "n", "--kind", "flood", "--in", "10m"), "'flood' is not one of"),
        (("notice", "n", "--kind", "preemption", "--in", "soon"), "--in: 'soon' is not a duration; write it like 90s"),
    ],
)
def test_a_setting_that_no_zone_has_is_bad_input(sim: SimCommands, arguments: tuple[str, ...], words: str) -> None:
    done = sim(*arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_resources_are_listed_preempted_and_listed_as_gone(sim: SimCommands, url: str) -> None:
    make(url, "list-1", "made-1", preemptible=True)
    make(url, "list-1", "made-2")
    listed = sim("list", "--zone", "list-1").stdout
    assert "made-1" in listed
    assert "running" in listed
    assert "Preempted in list-1: made-1." in sim("preempt", "--zone", "list-1").stdout
    assert "Deleting made-2." in sim("delete", "made-2").stdout
    assert [item["name"] for item in sim.json("list", "--zone", "list-1")] == ["made-1"]
    assert {item["name"] for item in sim.json("list", "--zone", "list-1", "--all")} == {"made-1", "made-2"}


def test_hosts_die_and_the_queue_moves(sim: SimCommands, url: str) -> None:
    sim("set", "queue-1", "hold_queue=true")
    make(url, "queue-1", "waits", queued=True)
    assert sim.json("list", "--zone", "queue-1")[0]["phase"] == "queued"
    assert sim("admit", "waits").returncode == 0
    assert sim("admit", "waits").returncode == 6
    assert sim("kill-host", "waits", "1").stdout == "Host 1 of waits stopped answering.\n"
    assert sim("preempt", "waits").stdout == "Preempted waits.\n"


def test_a_notice_is_announced_listed_and_taken_back(sim: SimCommands, url: str) -> None:
    make(url, "notice-1", "noticed")
    make(url, "notice-1", "quiet")
    assert "notice" not in sim("list", "--zone", "notice-1").stdout.splitlines()[2]
    done = sim("notice", "noticed", "--kind", "maintenance", "--in", "10m")
    assert (done.returncode, done.stdout[:36]) == (0, "noticed: maintenance announced for 2")
    assert "maintenance at" in " ".join(sim("list", "--zone", "notice-1").stdout.split())
    found = {item["name"]: item["notice"] for item in sim.json("list", "--zone", "notice-1")}
    assert (found["noticed"]["kind"], found["quiet"]) == ("maintenance", None)
    assert sim("notice", "noticed", "--off").stdout == "noticed: nothing is announced any more.\n"
    assert {item["notice"] for item in sim.json("list", "--zone", "notice-1")} == {None}
    assert sim.json("notice", "noticed", "--off") == {"name": "noticed", "notice": None}
    assert sim.json("notice", "noticed", "--kind", "preemption", "--in", "1h")["notice"]["kind"] == "preemption"


def test_a_notice_comes_true_and_then_it_is_too_late_to_take_it_back(sim: SimCommands, url: str) -> None:
    make(url, "notice-2", "taken")
    assert sim("notice", "taken", "--kind", "preemption", "--in", "0s").returncode == 0
    assert sim.json("list", "--zone", "notice-2")[0]["phase"] == "preempted"
    refused = sim("notice", "taken", "--off")
    assert (refused.returncode, "taken: preemption has come at" in refused.stderr) == (6, True)


def test_json_names_what_was_done(sim: SimCommands, url: str) -> None:
    sim("set", "json-1", "hold_queue=true")
    for name in ("one", "two"):
        make(url, "json-1", f"json-{name}", queued=True)
        assert sim.json("admit", f"json-{name}") == {"admitted": f"json-{name}"}
    assert sim.json("kill-host", "json-one", "1") == {"name": "json-one", "killed_host": 1}
    assert sim.json("preempt", "json-one") == {"preempted": ["json-one"]}
    assert sim.json("preempt", "--zone", "json-1") == {"preempted": []}
    assert sim.json("delete", "json-two") == {"deleting": "json-two"}


def test_a_zone_that_looks_mistyped_is_shown_with_a_warning(sim: SimCommands, url: str) -> None:
    make(url, "us-typed1-c", "typed-1")
    for arguments in (
        ("show", "us-tpyed1-c"),
        ("set", "us-tpyed1-c", "stockout=true"),
        ("list", "--zone", "us-tpyed1-c"),
        ("preempt", "--zone", "us-tpyed1-c"),
    ):
        done = sim(*arguments)
        assert (done.returncode, done.stderr) == (
            0,
            "warning: nothing was ever created in us-tpyed1-c; did you mean us-typed1-c?\n",
        )
    assert sim("show", "us-typed1-c").stderr == ""


def test_an_unused_zone_is_shown_with_the_zones_in_use_unless_it_is_being_set_up(sim: SimCommands, url: str) -> None:
    make(url, "us-used1-c", "used-1")
    for arguments in (("show", "xyzzy"), ("list", "--zone", "xyzzy"), ("preempt", "--zone", "xyzzy")):
        done = sim(*arguments)
        assert done.stderr.startswith("warning: nothing was ever created in xyzzy; zones in use: ")
        assert done.returncode == 0
    assert sim("set", "xyzzy", "capacity=1").stderr == ""


def test_a_resource_that_does_not_exist_is_refused_in_the_clouds_words(sim: SimCommands) -> None:
    done = sim("preempt", "nobody")
    assert (done.returncode, done.stderr) == (6, "error: the simulated cloud refused: there is no nobody\n")


def test_failures_under_json_are_json(sim: SimCommands) -> None:
    assert sim.json("preempt", "nobody") == {
        "error": {"code": "refused", "message": "the simulated cloud refused: there is no nobody"}
    }
    assert sim.json("set", "z", "capacity")["error"]["code"] == "bad_input"
    usage = sim("list", "--zoen", "a", "--json")
    assert (usage.returncode, usage.stderr) == (2, "")
    assert "No such option" in json.loads(usage.stdout)["error"]["message"]
    away = in_process("sim", "--url", "http://127.0.0.1:9", "list", "--json")
    error = json.loads(away.stdout)["error"]
    assert (away.returncode, error["code"], "make run" in error["fix"]) == (4, "no_simulated_cloud", True)


def test_no_cloud_is_status_4_and_says_how_to_start_or_point_to_one(tmp_path: Path) -> None:
    done = Commands(folder=tmp_path)("sim", "--url", "http://127.0.0.1:9", "list")
    assert done.returncode == 4
    assert "no simulated cloud answers at http://127.0.0.1:9" in done.stderr
    assert "make run" in done.stderr
    assert "PENSTOCK_SIM_URL" in done.stderr


def test_the_simulated_cloud_of_a_service_in_this_directory_is_found(tmp_path: Path, url: str) -> None:
    (tmp_path / ".penstock").mkdir()
    (tmp_path / ".penstock" / "sim").write_text(f"{url}\n")
    assert Commands(folder=tmp_path)("sim", "show", "found").returncode == 0
