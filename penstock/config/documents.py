"""Read YAML and JSON documents, from files or standard input, with the line of every part."""

import json
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from penstock.config.json_line_numbers import Located, located
from penstock.config.problems import BadInput, Problem, line_of
from penstock.contract.problems import path_text
from penstock.model.cluster import Where


class Document:
    """The data of a file, and the line of each part, computed on first use."""

    def __init__(self, file: str, data: Any, find_lines: Callable[[], dict[Where, int]]) -> None:
        self.file = file
        self.data = data
        self._find_lines = find_lines

    @cached_property
    def lines(self) -> dict[Where, int]:
        """The line of every part, by its path."""
        return self._find_lines()

    def under(self, key: str) -> "Document":
        """The same file, as if its content were under a key."""
        return Document(self.file, {key: self.data}, lambda: {(key, *where): line for where, line in self.lines.items()})

    def problem(self, where: Where, message: str) -> Problem:
        """A problem at a path of the file."""
        return Problem(self.file, line_of(where, self.lines), path_text(where), message)


def read_document(path: Path) -> Document:
    """Read a YAML or JSON file, or standard input for `-`; raises `BadInput` if it cannot be read or parsed."""
    if str(path) == "-":
        return _read_standard_input()
    file = str(path)
    try:
        text = path.read_text(encoding="utf-8")
        return _parse(file, text, is_json=path.suffix == ".json")
    except FileNotFoundError:
        raise BadInput([Problem(file, None, "", "no such file")]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput([Problem(file, None, "", f"cannot be read: {error}")]) from None


def _read_standard_input() -> Document:
    """Parse JSON or YAML. Text that begins like JSON but is invalid may still be YAML, which also has braces."""
    file = "standard input"
    try:
        text = sys.stdin.read()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput([Problem(file, None, "", f"cannot be read: {error}")]) from None
    if text.lstrip().startswith(("[", "{")):
        with suppress(json.JSONDecodeError):
            json.loads(text)
            return _parse(file, text, is_json=True)
    return _parse(file, text, is_json=False)


def _parse(file: str, text: str, *, is_json: bool) -> Document:
    try:
        return _read_json(file, text) if is_json else _read_yaml(file, text)
    except RecursionError:
        raise BadInput([Problem(file, None, "", "is nested too deeply, or refers to itself")]) from None


def _read_json(file: str, text: str) -> Document:
    repeated: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        repeated.extend(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        return dict(pairs)

    try:
        data = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise BadInput([Problem(file, error.lineno, "", f"is not JSON: {error.msg}")]) from None
    except ValueError as error:
        raise BadInput([Problem(file, None, "", f"is not JSON: {error}")]) from None
    if repeated:
        raise BadInput(_repetitions(file, located(text)))
    return Document(file, data, lambda: located(text).lines)


def _repetitions(file: str, found: Located) -> list[Problem]:
    return [Problem(file, line, path_text(where), "appears twice; remove one") for where, line in found.repeated]


def _read_yaml(file: str, text: str) -> Document:
    lines: dict[Where, int] = {}
    repeated: list[Problem] = []
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None:
            _note_lines(root, (), file, lines, repeated)
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or error
        raise BadInput([Problem(file, mark.line + 1 if mark else None, "", f"is not YAML: {problem}")]) from None
    if repeated:
        raise BadInput(repeated)
    return Document(file, {} if data is None else data, lambda: lines)


def _note_lines(node: yaml.Node, where: Where, file: str, lines: dict[Where, int], repeated: list[Problem]) -> None:
    lines[where] = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            _note_lines(item, (*where, i), file, lines, repeated)
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            path = (*where, name)
            if name in seen:
                repeated.append(Problem(file, key.start_mark.line + 1, path_text(path), "appears twice; remove one"))
            seen.add(name)
            _note_lines(value, path, file, lines, repeated)
            lines[path] = key.start_mark.line + 1
