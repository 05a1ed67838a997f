"""`penstock sim` against a real simulated cloud."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.sim_calls import SimCalls
from tests.cli.running import Commands
from tests.emulators.running import RunningSim


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    cloud = RunningSim(tmp_path_factory.mktemp("cloud") / "cloud.sqlite")
    cloud.start()
    yield cloud.url
    cloud.kill()


@pytest.fixture
def penstock(url: str) -> Commands:
    return Commands({"PENSTOCK_SIM_URL": url})


def make(url: str, zone: str, name: str, **rest: object) -> None:
    SimCalls(url).call("POST", f"/zones/{zone}/resources", {"name": name, "hosts": 2} | rest)


def test_a_zone_is_told_what_to_do_bit_by_bit_and_shows_it(penstock: Commands) -> None:
    assert "gives everything at once" in penstock("sim", "show", "set-1").stdout
    assert penstock("sim", "set", "set-1", "capacity=2", "boot_latency=30s").returncode == 0
    shown = penstock("sim", "set", "set-1", "stockout=true", "quota={scope: region, limit: 3}").stdout
    assert " ".join(shown.split()) == "set-1: boot_latency: 30s capacity: 2 stockout: true quota: scope region, limit 3"
    assert penstock.json("sim", "show", "set-1")["capacity"] == 2
    assert "capacity" not in penstock("sim", "set", "set-1", "capacity=null").stdout
    assert "gives everything at once" in penstock("sim", "set", "set-1", "--reset").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("set", "z", "stockouts=true"), "stockouts: unknown key; did you mean stockout?"),
        (("set", "z", "capacity"), "'capacity' is not KEY=VALUE"),
        (("set", "z", "capacity=[1"), "the value of capacity cannot be read"),
        (("set", "z", "quota=3"), "quota: should be an object with keys such as limit, scope, not 3"),
        (("set", "z", "quota=3"), "Write it like stockout=true, boot_latency=30s or 'quota={scope: zone, limit: 3}'"),
        (("preempt",), "give the NAME of a resource or --zone"),
    ],
)
def test_what_a_zone_cannot_do_is_bad_input(penstock: Commands, arguments: tuple[str, ...], words: str) -> None:
    told = penstock("sim", *arguments)
    assert told.returncode == 2
    assert words in told.stderr


def test_resources_are_listed_taken_away_and_listed_as_gone(penstock: Commands, url: str) -> None:
    make(url, "list-1", "made-1", preemptible=True)
    make(url, "list-1", "made-2")
    listed = penstock("sim", "list", "--zone", "list-1").stdout
    assert "made-1" in listed
    assert "running" in listed
    assert "Preempted in list-1: made-1." in penstock("sim", "preempt", "--zone", "list-1").stdout
    assert "Deleting made-2." in penstock("sim", "delete", "made-2").stdout
    assert [item["name"] for item in penstock.json("sim", "list", "--zone", "list-1")] == ["made-1"]
    assert {item["name"] for item in penstock.json("sim", "list", "--zone", "list-1", "--all")} == {"made-1", "made-2"}


def test_hosts_die_and_the_queue_moves(penstock: Commands, url: str) -> None:
    penstock("sim", "set", "queue-1", "hold_queue=true")
    make(url, "queue-1", "waits", queued=True)
    assert penstock.json("sim", "list", "--zone", "queue-1")[0]["phase"] == "queued"
    assert penstock("sim", "admit", "waits").returncode == 0
    assert penstock("sim", "admit", "waits").returncode == 6
    assert penstock("sim", "kill-host", "waits", "1").stdout == "Host 1 of waits answers no more.\n"
    assert penstock("sim", "preempt", "waits").stdout == "Preempted waits.\n"


def test_programs_get_json(penstock: Commands, url: str) -> None:
    penstock("sim", "set", "json-1", "hold_queue=true")
    for name in ("one", "two"):
        make(url, "json-1", f"json-{name}", queued=True)
        assert penstock.json("sim", "admit", f"json-{name}") == {"admitted": f"json-{name}"}
    assert penstock.json("sim", "kill-host", "json-one", "1") == {"name": "json-one", "killed_host": 1}
    assert penstock.json("sim", "preempt", "json-one") == {"preempted": ["json-one"]}
    assert penstock.json("sim", "preempt", "--zone", "json-1") == {"preempted": []}
    assert penstock.json("sim", "delete", "json-two") == {"deleting": "json-two"}


def test_a_zone_that_is_probably_mistyped_is_told_and_shown_all_the_same(penstock: Commands, url: str) -> None:
    make(url, "us-typed1-c", "typed-1")
    for arguments in (
        ("show", "us-tpyed1-c"),
        ("set", "us-tpyed1-c", "stockout=true"),
        ("list", "--zone", "us-tpyed1-c"),
        ("preempt", "--zone", "us-tpyed1-c"),
    ):
        told = penstock("sim", *arguments)
        assert (told.returncode, told.stderr) == (
            0,
            "warning: nothing was ever made in us-tpyed1-c; did you mean us-typed1-c?\n",
        )
    assert penstock("sim", "show", "us-typed1-c").stderr == ""


def test_a_zone_like_no_other_is_told_beside_those_that_are_used_unless_it_is_being_set_up(penstock: Commands, url: str) -> None:
    make(url, "us-used1-c", "used-1")
    for arguments in (("show", "xyzzy"), ("list", "--zone", "xyzzy"), ("preempt", "--zone", "xyzzy")):
        told = penstock("sim", *arguments)
        assert told.stderr.startswith("warning: nothing was ever made in xyzzy; something was in ")
        assert told.returncode == 0
    assert penstock("sim", "set", "xyzzy", "capacity=1").stderr == ""


def test_a_resource_that_does_not_exist_is_refused_in_the_clouds_words(penstock: Commands) -> None:
    told = penstock("sim", "preempt", "nobody")
    assert (told.returncode, told.stderr) == (6, "error: the simulated cloud says: there is no nobody\n")


def test_no_cloud_is_status_4_and_says_how_to_start_or_point_to_one(tmp_path: Path) -> None:
    told = Commands(folder=tmp_path)("sim", "--url", "http://127.0.0.1:9", "list")
    assert told.returncode == 4
    assert "no simulated cloud answers at http://127.0.0.1:9" in told.stderr
    assert "make run" in told.stderr
    assert "PENSTOCK_SIM_URL" in told.stderr


def test_a_service_that_runs_in_this_directory_is_found_by_itself(tmp_path: Path, url: str) -> None:
    (tmp_path / ".penstock").mkdir()
    (tmp_path / ".penstock" / "sim").write_text(f"{url}\n")
    assert Commands(folder=tmp_path)("sim", "show", "found").returncode == 0
