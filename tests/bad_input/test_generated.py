"""Whatever is written in a file, a message or a command line, the answer is a sentence, and it comes soon."""

from pathlib import Path

import pytest

from tests.bad_input.check import CHECKS, describe, findings

CASES = {"files": 300, "messages": 600, "tasks of the client": 300, "command lines": 400}
"""`make check-input` runs 10,000 others."""


@pytest.mark.parametrize("kind", CHECKS)
def test_bad_input_is_answered_in_words(kind: str, tmp_path: Path) -> None:
    found = list(findings(kind, 0, CASES[kind], tmp_path))
    assert not found, describe(found)
