"""Commands with the stand-in for a server: what they name reaches the core, and they end."""

import json

import pytest

from penstock.contract.answers import Done
from tests.bad_input.check import run_served
from tests.bad_input.service import Service
from tests.bad_input.states import states


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("demand", "forget", "train"), 0, "demo: Forgot source train: 35 tasks, and its word on 1 slice.\n"),
        (("demand", "forget", "trian"), 6, "error: source: there is no source 'trian'; did you mean train?\n"),
        (("demand", "forget", ""), 2, "error: source: is empty; write a text\n"),
        (("explain", "x" * 600), 2, "error: task_id: should be at most 512 characters long, not 'xxx"),
        (("drain", "cpu-1"), 0, "demo: Draining slice cpu-1.\n"),
        (("restore", "demo"), 6, "error: cluster demo runs already\n"),
        (("restore", "nobody"), 5, "error: no cluster 'nobody' runs at 127.0.0.1:7233\n"),
        (("restore", "x" * 100_000), 5, "error: no cluster 'xxx"),
        (("delete", "demo", "--yes"), 0, "demo: Draining and deleting 5 slices, then the cluster.\nCluster demo is gone.\n"),
        (("status", "--watch"), 130, ""),
    ],
)
def test_a_command_is_answered_by_the_core(words: tuple[str, ...], status: int, said: str) -> None:
    done = run_served(Service([]), *words)
    assert done.returncode == status
    assert (done.stderr or done.stdout).startswith(said)
    assert max(map(len, done.stderr.splitlines()), default=0) < 1100


def test_an_autoscaler_that_was_terminated_is_restored_whatever_signals_it_was_sent() -> None:
    service = Service([("demand", json.dumps([{"id": "late"}]).encode()), ("demand", b"{"), ("no such signal", b"")])
    done = run_served(service, "restore", "gone")
    assert (done.returncode, done.stdout) == (0, "gone: Restored with configuration revision 1.\n")
    (restored,) = service.started
    assert restored.demand["default"].demand.task_ids == ("late",)
    assert (restored.slices, restored.config) == ((), states()[1].config)


def test_an_answer_that_cannot_be_read_is_not_blamed_on_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.bad_input.service.answer_of", lambda *_: Done(message="done", config_revision=1))
    done = run_served(Service([]), "status")
    assert (done.returncode, "a bug in Penstock: ValidationError" in done.stderr) == (70, True)
