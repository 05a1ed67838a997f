"""docs/operations.md names only commands that exist, and explains every difference, block and reason."""

import re
from pathlib import Path

import click
import pytest

from penstock.cli.main import main
from penstock.core.slices import audit
from penstock.model.decision import Code
from penstock.model.slices import Availability, SliceState

DOCS = Path(__file__).parents[2] / "docs"
MANUAL = (DOCS / "operations.md").read_text()
DIFFERENCES = ("NO_WORKFLOW", "NO_RESOURCE", "NOT_IN_LEDGER", "NOWHERE", "STATE", "DOUBLED", "LOST", "FOREIGN")
OF_GROUPS = {Availability.AVAILABLE, Availability.AT_MAX, Availability.POOL_EXHAUSTED}
"""Not blocked."""


@pytest.mark.parametrize("line", sorted(set(re.findall(r"(?:^|`)penstock ([a-z][\w -]+)", MANUAL, flags=re.M))))
def test_a_command_of_the_manual_exists_with_its_options(line: str) -> None:
    name, *rest = line.split()
    assert name in main.list_commands(click.Context(main))
    command = main.get_command(click.Context(main), name)
    assert command is not None
    if isinstance(command, click.Group):
        command = command.get_command(click.Context(command), rest[0])
        assert command is not None
    known = {option for each in command.params for option in each.opts}
    assert [word for word in rest if word.startswith("--") and word not in known] == []


def test_every_difference_has_a_row() -> None:
    kinds = [getattr(audit, name) for name in DIFFERENCES]

    assert [kind for kind in kinds if f"| `{kind}` |" not in MANUAL] == []


def test_every_block_and_every_state_in_which_a_slice_can_stay_has_a_row() -> None:
    states = [state for state in SliceState if state not in (SliceState.TERMINATED, SliceState.FAILED)]
    wanted = [f"| `{each}`" for each in Availability if each not in OF_GROUPS] + [f"| {state}" for state in states]

    assert [text for text in wanted if text not in MANUAL] == []


def test_every_reason_for_unmet_demand_is_explained() -> None:
    reasons = [code for code in Code if not code.endswith("_mismatch") or code is Code.GANG_SIZE_MISMATCH]

    assert [code for code in reasons if f"`{code}`" not in MANUAL] == []


@pytest.mark.parametrize("name", ["operations.md", "upgrades.md", "running.md", "files.md"])
def test_links_lead_somewhere(name: str) -> None:
    text = (DOCS / name).read_text()
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", text):
        file = (DOCS / target).resolve() if target else DOCS / name
        assert file.exists(), target
        assert not anchor or anchor in _anchors(file.read_text()), f"{target}#{anchor}"


def _anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
