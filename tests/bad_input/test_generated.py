"""Whatever is written in a file, a message, a query or a command line, the answer is a sentence, and it comes soon."""

from pathlib import Path

import pytest
from temporalio import workflow

from penstock.contract import names
from penstock.core.state import signals, updates
from tests.bad_input.__main__ import SHARES
from tests.bad_input.check import CHECKS
from tests.bad_input.findings import describe, findings
from tests.bad_input.queries import REQUESTS
from tests.bad_input.valid import QUERIES, SIGNALS, UPDATES
from workflows.autoscaler import AutoscalerWorkflow

CASES = {"files": 300, "messages": 250, "batches": 250, "queries": 250, "tasks of the client": 200, "command lines": 400}
"""`make check-input` runs 10,000 others."""


@pytest.mark.parametrize("kind", CHECKS)
def test_bad_input_is_answered_in_words(kind: str, tmp_path: Path) -> None:
    found = list(findings(kind, CHECKS[kind], 1, range(CASES[kind]), tmp_path))
    assert not found, describe(found)


def test_every_signal_update_and_query_is_generated() -> None:
    assert set(SIGNALS) == set(signals._SIGNALS)
    assert set(UPDATES) == set(updates._UPDATES)
    asked = workflow._Definition.must_from_class(AutoscalerWorkflow).queries
    assert set(QUERIES) == set(REQUESTS) == set(asked) - {names.DUMP}


def test_every_kind_has_its_share() -> None:
    assert set(SHARES) == set(CHECKS)
    assert sum(SHARES.values()) == pytest.approx(1)
