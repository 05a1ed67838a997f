"""docs/gcp-emulator.md lists every key of behaviours and faults, and its examples are valid."""

import re
from pathlib import Path

import pytest

from emulators.gcp.behaviour import Behaviour
from emulators.gcp.faults import Fault
from penstock.model.value import Value

PAGE = (Path(__file__).parents[3] / "docs" / "gcp-emulator.md").read_text()


@pytest.mark.parametrize("text", re.findall(r'`(\{"method".*?\})`', PAGE))
def test_every_fault_on_the_page_is_valid(text: str) -> None:
    Fault.model_validate_json(text)


@pytest.mark.parametrize(("title", "model"), [("## How zones behave", Behaviour), ("## Faults for single calls", Fault)])
def test_every_key_is_on_the_page_and_no_other(title: str, model: type[Value]) -> None:
    table = PAGE.split(title)[1].split("|---|---|---|")[1].split("\n\n")[0]
    documented = [key for row in table.splitlines() if row for key in re.findall(r"`(\w+)`", row.split("|")[1])]
    known = [field.alias or name for name, field in model.model_fields.items()]
    assert sorted(documented) == sorted(known)
