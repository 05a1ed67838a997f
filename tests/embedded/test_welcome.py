"""The text that an embedded service prints once it runs."""

from pathlib import Path

from embedded.data_dir import DataDir
from embedded.welcome import welcome


def _lines(*, data_dir: str = ".penstock", **files: Path) -> list[str]:
    named = dict.fromkeys(("demand", "controller", "changed")) | files
    return welcome(DataDir(Path(data_dir)), address="a:1", ui="http://a:2", **named).splitlines()


def test_a_file_that_differs_from_the_active_configuration_is_named_after_the_commands() -> None:
    lines = _lines(changed=Path("my.yaml"))
    begin = lines.index(
        "my.yaml differs from the cluster's active configuration, which stays in force. Compare them, or apply the file:"
    )
    assert lines[begin - 2].endswith("workflow list")
    assert [line.partition("penstock ")[2] for line in lines[begin + 1 : begin + 3]] == [
        "config diff my.yaml",
        "config apply my.yaml",
    ]
    assert lines[:begin] + lines[begin + 4 :] == _lines()


def test_data_that_commands_do_not_find_on_their_own_needs_an_address() -> None:
    export = "  export TEMPORAL_ADDRESS=a:1"
    assert export not in _lines()
    assert export not in _lines(data_dir=".penstock/gcp-emulator")
    assert export in _lines(data_dir="elsewhere")


def test_a_controller_that_runs_the_example_s_tasks_is_named_as_it_can_be_started() -> None:
    lines = _lines(demand=Path("tasks.json"), controller=Path("runs/them.py"))
    assert [line.split()[-1] for line in lines if ".json" in line or ".py" in line] == ["tasks.json", "runs/them.py"]
    assert next(line for line in lines if "them.py" in line).split()[0].endswith("python")
