"""Runs: consecutive entries of one shape, their faults, and the JSON encoding of a long list of runs."""

from enum import StrEnum
from itertools import chain, groupby, repeat
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

from pydantic import Field, PlainSerializer, TypeAdapter, ValidationError, ValidationInfo, WrapValidator
from pydantic_core.core_schema import ValidatorFunctionWrapHandler

from penstock.model.gc_pause import gc_paused
from penstock.model.packed import PackedSchema, longest, pack_ints, unpack_ints
from penstock.model.value import Value


class FaultCode(StrEnum):
    """Why an entry cannot be placed until its controller corrects it."""

    INCONSISTENT_GANG = "inconsistent_gang"
    INVALID = "invalid"
    NO_CAPACITY = "no_capacity"
    """Set on a snapshot only: slices that are not known yet may hold the entry already."""


class Fault(Value):
    """An error in an entry itself: a code, a message, and the field at fault if it is a single one."""

    code: FaultCode
    message: str
    field: str | None = None


class HostRef(NamedTuple):
    """One host of one slice."""

    slice_id: str
    host: int


class Run(NamedTuple):
    """Consecutive entries of one shape, with `pending` tasks each. They must not use the hosts in `apart`.

    `source` is the source of the demand. Only snapshots set it: in a state, the demand of each source is kept apart.
    """

    shape: int
    entries: int
    pending: int = 1
    apart: tuple[HostRef, ...] = ()
    fault: Fault | None = None
    source: str = ""


_Rare = tuple[tuple[HostRef, ...], Fault | None]
_RARE: TypeAdapter[_Rare] = TypeAdapter(_Rare)


class _Packed(NamedTuple):
    """Runs as they are written: three columns of numbers, then what few runs have."""

    shapes: str
    entries: str
    pending: str
    rare: dict[int, _Rare]
    """`apart` and `fault`, by position."""
    sources: tuple[tuple[str, Annotated[int, Field(ge=0, lt=1 << 31)]], ...] = ()
    """Each source with the number of its runs, in order."""


_PACKED: TypeAdapter[_Packed] = TypeAdapter(_Packed)
_MALFORMED = "not packed runs: write packed columns of shapes, entries and pending tasks, then an object of faults by position"


@gc_paused
def _pack_runs(runs: tuple[Run, ...]) -> list[Any]:
    """Integer fields as packed columns; `apart` and `fault`, which few runs have, by position; sources, if any, with counts."""
    rare = {i: _RARE.dump_python((run.apart, run.fault), mode="json") for i, run in enumerate(runs) if run.apart or run.fault}
    numbers = [list(map(attrgetter(field), runs)) for field in ("shape", "entries", "pending")]
    if not any(map(attrgetter("source"), runs)):
        return [*map(pack_ints, numbers), rare]
    sources = [(source, len(list(same))) for source, same in groupby(map(attrgetter("source"), runs))]
    return [*map(pack_ints, numbers), rare, sources]


@gc_paused
def _unpack_runs(value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """Decode packed runs. A plain list is hand-written input, so each run of it is validated."""
    if isinstance(value, tuple) and all(type(run) is Run for run in value):
        return value
    if not (isinstance(value, list) and value and isinstance(value[0], str)):
        return validate(value)
    try:
        packed = _PACKED.validate_python(value)
    except ValidationError:
        raise ValueError(_MALFORMED) from None
    columns = [unpack_ints(column, longest(info)) for column in packed[:3]]
    sources = chain.from_iterable(repeat(name, count) for name, count in packed.sources) if packed.sources else repeat("")
    # The shortest column ends the runs, whatever number of them the sources count.
    runs = list(map(Run._make, zip(*columns, repeat(()), repeat(None), sources, strict=False)))
    if not all(0 <= position < len(runs) for position in packed.rare):
        raise ValueError(_MALFORMED)
    for position, (apart, fault) in packed.rare.items():
        runs[position] = runs[position]._replace(apart=apart, fault=fault)
    return tuple(runs)


Runs = Annotated[
    tuple[Run, ...], WrapValidator(_unpack_runs), PlainSerializer(_pack_runs, return_type=list, when_used="json"), PackedSchema
]
"""Runs in order. In JSON: three packed columns, or a plain list in hand-written input."""
