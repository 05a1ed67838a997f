"""Reading slices.yaml: what exists, what is known of it, and when."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from penstock.config.documents import Document, read_document
from penstock.config.problems import BadInput, Problem, line_of, path_text, problems_of
from penstock.model.cluster import ClusterConfig, Where
from penstock.model.slices import Health, Launched, Slice, SliceUsage, StandingRequest
from penstock.model.units import Moment
from penstock.model.value import Value


class SliceItem(Slice):
    """A slice with its usage: per host, or one for all of its hosts; absent when unknown. `count` repeats it."""

    usage: SliceUsage | None = None
    count: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="before")
    @classmethod
    def _one_usage_will_do(cls, data: Any) -> Any:
        usage = data.get("usage") if isinstance(data, dict) else None
        return data | {"usage": [usage]} if isinstance(usage, str | dict) else data

    def slices(self) -> list[Slice]:
        """The slices this item stands for."""
        fields = {name: getattr(self, name) for name in Slice.model_fields}
        names = [self.id] if self.count == 1 else [f"{self.id}/{i}" for i in range(self.count)]
        return [Slice.model_construct(**fields | {"id": name}) for name in names]


class SlicesFile(Value):
    """What exists at a moment. Slices stand in the order in which they were ordered."""

    now: Moment | None = None
    slices: tuple[SliceItem, ...] = ()
    health: dict[str, Health] = Field(default_factory=dict)
    standing: tuple[StandingRequest, ...] = ()
    launched: tuple[Launched, ...] = ()

    def all_slices(self) -> tuple[Slice, ...]:
        """Every slice, repeated ones one by one."""
        return tuple(piece for item in self.slices for piece in item.slices())

    def usage(self) -> dict[str, SliceUsage]:
        """Usage by slice id, where it is known."""
        return {piece.id: item.usage for item in self.slices if item.usage is not None for piece in item.slices()}


def load_slices(path: Path, config: ClusterConfig) -> tuple[SlicesFile, tuple[Problem, ...]]:
    """Read a slices file and what looks wrong with it; raises `BadInput` with every mistake."""
    document = read_document(path)
    try:
        loaded = SlicesFile.model_validate(document.data)
    except ValidationError as error:
        raise BadInput(problems_of(error, SlicesFile, document.file, document.lines)) from None
    problems = _problems(document, loaded, config)
    if problems:
        raise BadInput(problems)
    return loaded, tuple(_warnings(document, loaded, config))


def _problems(document: Document, loaded: SlicesFile, config: ClusterConfig) -> list[Problem]:
    repeated = [name for name, times in Counter(piece.id for piece in loaded.all_slices()).items() if times > 1]
    found = [Problem(document.file, None, "slices", f"slice id {name!r} stands here twice; ids are unique") for name in repeated]
    owners = [request.owner for request in loaded.standing]
    for i, owner in enumerate(owners):
        if owner in owners[:i]:
            found.append(_problem(document, ("standing", i, "owner"), f"{owner!r} has a request already; put both in one"))
    for i, item in enumerate(loaded.slices):
        group = config.group(item.group)
        if group is None or item.usage is None:
            continue
        if len(item.usage) != group.hosts_per_slice and (len(item.usage) > 1 or item.usage[0].reserved is not None):
            message = f"{len(item.usage)} given, but a slice of {group.name} has {group.hosts_per_slice} hosts; give one for each"
            found.append(_problem(document, ("slices", i, "usage"), message))
    return found


def _warnings(document: Document, loaded: SlicesFile, config: ClusterConfig) -> list[Problem]:
    unknown: list[tuple[Where, str]] = [(("slices", i, "group"), item.group) for i, item in enumerate(loaded.slices)]
    unknown += [(("health", name), name) for name in loaded.health]
    unknown = [(where, name) for where, name in unknown if config.group(name) is None]
    return [_problem(document, where, f"no group is called {name!r} any more") for where, name in unknown]


def _problem(document: Document, where: Where, message: str) -> Problem:
    return Problem(document.file, line_of(where, document.lines), path_text(where), message)
