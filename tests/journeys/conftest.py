"""Whatever a journey killed runs again for the tests after it."""

from collections.abc import Iterator

import pytest

from tests.workflows.machine import Machine


@pytest.fixture
def hurt(machine: Machine) -> Iterator[Machine]:
    """The shared machine, to be hurt: its worker and its cloud run again afterwards."""
    yield machine
    machine.sim.kill()
    machine.sim.start()
    assert machine.worker is not None
    if machine.worker.pid is None or machine.worker.exit_code is not None:
        machine.start_worker()
