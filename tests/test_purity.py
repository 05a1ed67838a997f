"""The core has no clock, randomness, I/O, logging or Temporal: not only by its imports, also by its names."""

import ast
from pathlib import Path

import pytest

FORBIDDEN_CALLS = {"open", "print", "input", "exec", "eval", "breakpoint", "__import__", "id", "hash"}
FORBIDDEN_ATTRIBUTES = {"now", "utcnow", "today"}
MODULES = sorted([*Path("penstock/core").rglob("*.py"), *Path("penstock/model").glob("*.py")])


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_nothing_here_reads_a_clock_does_io_or_depends_on_addresses(path: Path) -> None:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    named = {call.id for call in calls if isinstance(call, ast.Name)}
    methods = {call.attr for call in calls if isinstance(call, ast.Attribute)}
    assert not named & FORBIDDEN_CALLS
    assert not methods & FORBIDDEN_ATTRIBUTES
