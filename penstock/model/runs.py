"""Runs: consecutive entries of one shape, their faults, and the JSON encoding of a long list of runs."""

from enum import StrEnum
from itertools import groupby, repeat
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

from pydantic import PlainSerializer, TypeAdapter, ValidationInfo, WrapValidator
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


_RARE: TypeAdapter[tuple[tuple[HostRef, ...], Fault | None]] = TypeAdapter(tuple[tuple[HostRef, ...], Fault | None])


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
    *numbers, rare = value[:4]
    shapes, entries, pending = (unpack_ints(column, longest(info)) for column in numbers)
    sources = [source for name, count in (value[4] if len(value) > 4 else ()) for source in repeat(name, count)]
    columns = zip(shapes, entries, pending, repeat(()), repeat(None), sources or repeat(""))
    runs = list(map(Run._make, columns))
    for position, (apart, fault) in rare.items():
        apart, fault = _RARE.validate_python((apart, fault))
        runs[int(position)] = runs[int(position)]._replace(apart=apart, fault=fault)
    return tuple(runs)


Runs = Annotated[
    tuple[Run, ...], WrapValidator(_unpack_runs), PlainSerializer(_pack_runs, return_type=list, when_used="json"), PackedSchema
]
"""Runs in order. In JSON: three packed columns, or a plain list in hand-written input."""
