"""docs/files.md has a row for every key of a cluster file, and for no other."""

import re
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from penstock.model.cluster import ClusterConfig, ScaleGroup

MANUAL = (Path(__file__).parents[2] / "docs" / "files.md").read_text()
OF_CLUSTER, OF_GROUP = MANUAL.split("## demand.json")[0].split("\nA group:\n")
TABLES: list[tuple[str, type[BaseModel]]] = [(OF_CLUSTER, ClusterConfig), (OF_GROUP, ScaleGroup)]


def rows(table: str) -> dict[str, str]:
    """Rows of a table by the keys in their first column."""
    cells = [line.split("|", 2)[1:] for line in table.splitlines() if line.startswith("| `")]
    return {key: row for first, row in cells for key in re.findall(r"`([\w.]+)`", first)}


def keys(model: type[BaseModel]) -> Iterator[tuple[str, str | None]]:
    """Each key, and each key of the part under it."""
    for name, field in model.model_fields.items():
        key = field.alias or name
        yield key, None
        for part in (field.annotation, *typing.get_args(field.annotation)):
            if isinstance(part, type) and issubclass(part, BaseModel) and part is not ScaleGroup:
                yield from ((key, inner.alias or inner_name) for inner_name, inner in part.model_fields.items())


@pytest.mark.parametrize(("table", "model"), TABLES, ids=["cluster", "group"])
def test_every_key_has_a_row(table: str, model: type[BaseModel]) -> None:
    found = rows(table)
    known = set(found)
    parents = {key.split(".")[0] for key in known}

    missing = [
        f"{key}.{part}" if part else key
        for key, part in keys(model)
        if (key not in parents if part is None else f"{key}.{part}" not in known and f"`{part}`" not in found.get(key, ""))
    ]

    assert missing == []


@pytest.mark.parametrize(("table", "model"), TABLES, ids=["cluster", "group"])
def test_every_row_describes_a_key(table: str, model: type[BaseModel]) -> None:
    written = {key if part is None else f"{key}.{part}" for key, part in keys(model)}

    assert [key for key in rows(table) if key not in written] == []
