"""How thousands of slices and their usage travel: as columns, with equal resources written once."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import Annotated, Any

from pydantic import PlainSerializer, TypeAdapter, WrapValidator
from pydantic_core.core_schema import ValidatorFunctionWrapHandler

from penstock.model.bulk import in_bulk
from penstock.model.packed import PackedSchema, pack, unpack
from penstock.model.resources import Resources, Vector
from penstock.model.slices import HostUsage, Slice, SliceUsage
from penstock.model.value import Value

_SLICES: TypeAdapter[tuple[Slice, ...]] = TypeAdapter(tuple[Slice, ...])
_HOSTS: TypeAdapter[list[HostUsage]] = TypeAdapter(list[HostUsage])


def _columns(values: Sequence[Value]) -> dict[str, list[Any]]:
    """The fields of equal values, one list each."""
    fields = type(values[0]).model_fields if values else ()
    return {field: list(map(attrgetter(field), values)) for field in fields}


def _rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@in_bulk
def _pack_slices(slices: tuple[Slice, ...]) -> str:
    columns = _columns(slices)
    return pack(columns | {"since": [_seconds(piece.since) for piece in slices]} if slices else columns)


@in_bulk
def _unpack_slices(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    return _SLICES.validate_python(_rows(unpack(value))) if isinstance(value, str) else validate(value)


@in_bulk
def _pack_usage(usage: Mapping[str, SliceUsage]) -> str:
    """Slices by name with their number of hosts, and a row a host; resources by position in a table."""
    table: dict[Vector | None, int] = {}
    hosts = [host for hosts in usage.values() for host in hosts]
    columns = _columns(hosts)
    if hosts:
        columns["reserved"] = [table.setdefault(host.reserved.vector if host.reserved else None, len(table)) for host in hosts]
        columns["idle_since"] = [_seconds(host.idle_since) for host in hosts]
    return pack([list(usage), [len(hosts) for hosts in usage.values()], list(table), columns])


@in_bulk
def _unpack_usage(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    if not isinstance(value, str):
        return validate(value)
    names, counts, table, columns = unpack(value)
    reserved = [None if vector is None else Resources.of(vector) for vector in table]
    rows = [row | {"reserved": reserved[row["reserved"]]} for row in _rows(columns)]
    hosts = iter(_HOSTS.validate_python(rows))
    return {name: tuple(islice(hosts, count)) for name, count in zip(names, counts, strict=True)}


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


Ledger = Annotated[
    tuple[Slice, ...],
    WrapValidator(_unpack_slices),
    PlainSerializer(_pack_slices, return_type=str, when_used="json"),
    PackedSchema,
]
"""Slices in the order they were ordered; in JSON one packed string, or a plain list where someone else wrote it."""

UsageTable = Annotated[
    dict[str, SliceUsage],
    WrapValidator(_unpack_usage),
    PlainSerializer(_pack_usage, return_type=str, when_used="json"),
    PackedSchema,
]
"""Usage by slice id; in JSON one packed string, or a plain object where someone else wrote it."""
