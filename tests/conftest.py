"""Machines for tests: one per test process, and further ones with other server limits."""

import os
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.workflows.machine import Machine, running_machine

Machines = Callable[..., Machine]

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")  # Laws hold on a busy machine too: how long an example takes is no part of them.


# A shell without job control starts background jobs with SIGINT ignored, and children inherit that. Tests press Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers() -> int:
    """Two processes more than cores: many tests wait for servers most of the time."""
    return (os.cpu_count() or 1) + 2


@pytest.fixture(scope="session")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Machines by their server's dynamic configuration, each started when first asked for."""
    started: dict[tuple[tuple[str, str], ...], Machine] = {}
    with ExitStack() as running:

        def machine_with(**dynamic: str) -> Machine:
            key = tuple(sorted(dynamic.items()))
            if key not in started:
                folder: Path = tmp_path_factory.mktemp("machine")
                started[key] = running.enter_context(running_machine(folder, dynamic=dict(dynamic)))
            return started[key]

        yield machine_with


@pytest.fixture(scope="session")
def machine(machines: Machines) -> Machine:
    """The machine that most tests share."""
    return machines()


@pytest.fixture(scope="session")
def machine_of_short_runs(machines: Machines) -> Machine:
    """A machine whose server suggests to continue as new after 20 events."""
    return machines(**{"limit.historyCount.suggestContinueAsNew": "20"})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows the end of its machines' logs."""
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, Machine):
                logs = [child for child in (value.worker, value.server) if child is not None]
                report.sections += [(f"{name}: {child.log.name}", child.tail) for child in logs]
    return report
