"""Read YAML and JSON documents, from files or standard input, with the line of every part."""

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from penstock.config.file_text import read_standard_input, read_text
from penstock.config.json_line_numbers import Located, located
from penstock.config.problems import BadInput, Problem, line_of
from penstock.contract.problems import path_text
from penstock.model.cluster import Where
from penstock.wording import shortened

_SHOWN = 60
"""Characters of an offending value that are shown."""


MOST_ALIASED = 100_000
"""Parts that the aliases of one YAML file may repeat. A few lines of aliases to aliases can stand for billions of parts."""
MOST_NESTED = 100
"""Lists and mappings inside each other. The parser in C ends the process where Python's raises a RecursionError."""
_TOO_MANY_DIGITS = "a number has thousands of digits"
_TOO_DEEP = "is nested too deeply, or refers to itself"
_Parsed: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser in C, where PyYAML was built with it: ten times as fast."""


class _Loader(_Parsed):  # type: ignore[misc]
    """PyYAML's safe loader; a value that does not fit its tag is a YAML error with a line, whatever its conversion raises."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (yaml.YAMLError, RecursionError, MemoryError):
            raise
        except Exception:
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                None, None, f"{shortened(repr(node.value), _SHOWN)} is not a value of type {kind}", node.start_mark
            ) from None


class _TooManyAliases(Exception):
    """The aliases of a file repeat more than `MOST_ALIASED` parts."""


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
        text = read_text(path)
        return _parse(file, text, is_json=path.suffix == ".json")
    except FileNotFoundError:
        raise BadInput([Problem(file, None, "", "no such file")]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput([Problem(file, None, "", f"cannot be read: {error}")]) from None


def parse_value(name: str, text: str) -> Any:
    """One value written in YAML, such as that of an option; raises `BadInput`."""
    try:
        return _yaml(name, text)[0]
    except RecursionError:
        raise BadInput([Problem(name, None, "", _TOO_DEEP)]) from None


def _read_standard_input() -> Document:
    """Parse JSON or YAML. Text that begins like JSON but is invalid may still be YAML, which also has braces."""
    file = "standard input"
    try:
        text = read_standard_input()
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
        raise BadInput([Problem(file, None, "", _TOO_DEEP)]) from None


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
        problem = _TOO_MANY_DIGITS if "set_int_max_str_digits" in str(error) else str(error)
        raise BadInput([Problem(file, None, "", f"is not JSON: {problem}")]) from None
    if repeated:
        raise BadInput(_repetitions(file, located(text)))
    return Document(file, data, lambda: located(text).lines)


def _repetitions(file: str, found: Located) -> list[Problem]:
    return [Problem(file, line, path_text(where), "appears twice; remove one") for where, line in found.repeated]


def _read_yaml(file: str, text: str) -> Document:
    data, lines = _yaml(file, text)
    return Document(file, {} if data is None else data, lambda: lines)


def _yaml(file: str, text: str) -> tuple[Any, dict[Where, int]]:
    """The data of a YAML text, and the line of each part."""
    walk = _LineWalk(file)
    try:
        _check_depth(file, text)
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is not None:
            walk.note(root, ())
        data = None if root is None else loader.construct_document(root)
    except _TooManyAliases:
        message = f"its aliases repeat more than {MOST_ALIASED:,} parts; write the parts out, or use fewer aliases"
        raise BadInput([Problem(file, None, "", message)]) from None
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = min(mark.line + 1, len(text.splitlines())) if mark else None  # The end of the file is behind its last line.
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise BadInput([Problem(file, line, "", f"is not YAML: {problem}")]) from None
    if walk.repeated:
        raise BadInput(walk.repeated)
    return data, walk.lines


def _check_depth(file: str, text: str) -> None:
    """Refuse a file that is nested too deeply to be parsed, by its events, which are read without recursion."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_NESTED:
            raise BadInput([Problem(file, event.start_mark.line + 1, "", _TOO_DEEP)])


class _LineWalk:
    """A walk through the nodes of a YAML file that notes their lines, the repeated keys, and how much aliases repeat."""

    def __init__(self, file: str) -> None:
        self.lines: dict[Where, int] = {}
        self.repeated: list[Problem] = []
        self._file = file
        self._met: set[int] = set()
        self._aliased = 0

    def note(self, node: yaml.Node, where: Where) -> None:
        """Note a node and all that it contains; raises `_TooManyAliases`."""
        if id(node) in self._met:
            self._aliased += 1
            if self._aliased > MOST_ALIASED:
                raise _TooManyAliases
        self._met.add(id(node))
        self.lines[where] = node.start_mark.line + 1
        if isinstance(node, yaml.SequenceNode):
            for i, item in enumerate(node.value):
                self.note(item, (*where, i))
        elif isinstance(node, yaml.MappingNode):
            self._note_mapping(node, where)

    def _note_mapping(self, node: yaml.MappingNode, where: Where) -> None:
        seen: set[str] = set()
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else f"line {key.start_mark.line + 1}"
            path = (*where, name)
            if name in seen:
                self.repeated.append(Problem(self._file, key.start_mark.line + 1, path_text(path), "appears twice; remove one"))
            seen.add(name)
            self.note(value, path)
            self.lines[path] = key.start_mark.line + 1
