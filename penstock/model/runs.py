"""Runs: consecutive entries of one shape, and how a long list of them travels."""

from enum import StrEnum
from itertools import repeat
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

from pydantic import PlainSerializer, TypeAdapter, ValidationInfo, WrapValidator
from pydantic_core.core_schema import ValidatorFunctionWrapHandler

from penstock.model.bulk import in_bulk
from penstock.model.packed import PackedSchema, longest, pack_ints, unpack_ints
from penstock.model.value import Value


class FaultCode(StrEnum):
    """Why an entry can never be placed as it was sent."""

    INCONSISTENT_GANG = "inconsistent_gang"
    INVALID = "invalid"


class Fault(Value):
    """What is wrong with an entry itself: a code, a sentence, and the field, where it is one."""

    code: FaultCode
    message: str
    field: str | None = None


class HostRef(NamedTuple):
    """One host of one slice."""

    slice_id: str
    host: int


class Run(NamedTuple):
    """Consecutive entries of one shape; `pending` tasks each, kept off the hosts in `apart`."""

    shape: int
    entries: int
    pending: int = 1
    apart: tuple[HostRef, ...] = ()
    fault: Fault | None = None


_RARE: TypeAdapter[tuple[tuple[HostRef, ...], Fault | None]] = TypeAdapter(tuple[tuple[HostRef, ...], Fault | None])


@in_bulk
def _pack_runs(runs: tuple[Run, ...]) -> list[Any]:
    """Numbers as columns; what few runs have goes by position."""
    rare = {i: _RARE.dump_python((run.apart, run.fault), mode="json") for i, run in enumerate(runs) if run.apart or run.fault}
    numbers = [list(map(attrgetter(field), runs)) for field in ("shape", "entries", "pending")]
    return [*map(pack_ints, numbers), rare]


@in_bulk
def _unpack_runs(value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """Runs that were packed here are trusted; anything else is checked one by one."""
    if isinstance(value, tuple) and all(type(run) is Run for run in value):
        return value
    if not (isinstance(value, list) and value and isinstance(value[0], str)):
        return validate(value)
    *numbers, rare = value
    shapes, entries, pending = (unpack_ints(column, longest(info)) for column in numbers)
    columns = zip(shapes, entries, pending, repeat(()), repeat(None))
    runs = list(map(Run._make, columns))
    for position, (apart, fault) in rare.items():
        apart, fault = _RARE.validate_python((apart, fault))
        runs[int(position)] = runs[int(position)]._replace(apart=apart, fault=fault)
    return tuple(runs)


Runs = Annotated[
    tuple[Run, ...], WrapValidator(_unpack_runs), PlainSerializer(_pack_runs, return_type=list, when_used="json"), PackedSchema
]
"""Runs in order; in JSON three packed columns, or a plain list of runs where someone else wrote it."""
