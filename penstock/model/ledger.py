"""JSON encoding of the ledger and of usage: packed columns that store equal locations and resources once."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import Annotated, Any

from pydantic import PlainSerializer, TypeAdapter, WrapValidator
from pydantic_core.core_schema import ValidatorFunctionWrapHandler

from penstock.model.gc_pause import gc_paused
from penstock.model.location import Location
from penstock.model.packed import PackedSchema, pack, unpack
from penstock.model.resources import Resources, Vector
from penstock.model.sightings import HostAddress
from penstock.model.slices import DrainTerms, HostUsage, Slice, SliceUsage
from penstock.model.value import Value

_SLICES: TypeAdapter[tuple[Slice, ...]] = TypeAdapter(tuple[Slice, ...])
_ADDRESSES: TypeAdapter[list[HostAddress]] = TypeAdapter(list[HostAddress])
_HOSTS: TypeAdapter[list[HostUsage]] = TypeAdapter(list[HostUsage])


_MOMENTS = (
    "since",
    "created_at",
    "unnamed",
    "unclaimed",
    "idle_since",
    "unneeded_since",
    "degraded_since",
    "received_at",
    "unconfirmed_at",
    "kept_until",
)
"""Fields of a slice that are moments: seconds in JSON."""


def _columns(values: Sequence[Value]) -> dict[str, list[Any]]:
    """A list per field."""
    fields = type(values[0]).model_fields if values else ()
    return {field: list(map(attrgetter(field), values)) for field in fields}


def _rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@gc_paused
def _pack_slices(slices: tuple[Slice, ...]) -> str:
    """Distinct locations, all hosts, and a column per field of `Slice`: `location` is a position, `hosts` a count."""
    if not slices:
        return pack({})
    columns, locations = _columns(slices), dict[str, int]()
    for moment in _MOMENTS:
        columns[moment] = [_seconds(getattr(piece, moment)) for piece in slices]
    for part in ("drain", "left", "notice"):
        columns[part] = [_plain(getattr(piece, part)) for piece in slices]
    columns["location"] = [
        None if piece.location is None else locations.setdefault(piece.location.model_dump_json(), len(locations))
        for piece in slices
    ]
    columns["hosts"] = [len(piece.hosts) for piece in slices]
    hosts = _columns([host for piece in slices for host in piece.hosts])
    return pack([[json.loads(location) for location in locations], hosts, columns])


@gc_paused
def _unpack_slices(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    if not isinstance(value, str):
        return validate(value)
    unpacked = unpack(value)
    if not unpacked:
        return ()
    described, addresses, columns = unpacked
    locations = [Location.model_validate(location) for location in described]
    hosts = iter(_ADDRESSES.validate_python(_rows(addresses)))
    columns["hosts"] = [tuple(islice(hosts, count)) for count in columns["hosts"]]
    columns["location"] = [None if i is None else locations[i] for i in columns["location"]]
    columns["drain"] = [_drain(terms) for terms in columns["drain"]]
    return _SLICES.validate_python(_rows(columns))


def _drain(terms: Any) -> DrainTerms | None:
    """The terms of a drain; earlier versions stored only cause and force."""
    if isinstance(terms, list):
        return DrainTerms(cause=terms[0], force=terms[1])
    return None if terms is None else DrainTerms.model_validate(terms)


@gc_paused
def _pack_usage(usage: Mapping[str, SliceUsage]) -> str:
    """Slice ids, hosts per slice, distinct resources, and a column per field of `HostUsage`: `reserved` is a position."""
    table: dict[Vector | None, int] = {}
    hosts = [host for hosts in usage.values() for host in hosts]
    columns = _columns(hosts)
    if hosts:
        columns["reserved"] = [table.setdefault(host.reserved.vector if host.reserved else None, len(table)) for host in hosts]
        columns["idle_since"] = [_seconds(host.idle_since) for host in hosts]
    return pack([list(usage), [len(hosts) for hosts in usage.values()], list(table), columns])


@gc_paused
def _unpack_usage(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    if not isinstance(value, str):
        return validate(value)
    names, counts, table, columns = unpack(value)
    reserved = [None if vector is None else Resources.of(vector) for vector in table]
    rows = [row | {"reserved": reserved[row["reserved"]]} for row in _rows(columns)]
    hosts = iter(_HOSTS.validate_python(rows))
    return {name: tuple(islice(hosts, count)) for name, count in zip(names, counts, strict=True)}


def _plain(value: Value | None) -> Any:
    return None if value is None else value.model_dump(mode="json", exclude_defaults=True)


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


Ledger = Annotated[
    tuple[Slice, ...],
    WrapValidator(_unpack_slices),
    PlainSerializer(_pack_slices, return_type=str, when_used="json"),
    PackedSchema,
]
"""Slices in launch order. In JSON: one packed string, or a plain list in hand-written input."""

UsageTable = Annotated[
    dict[str, SliceUsage],
    WrapValidator(_unpack_usage),
    PlainSerializer(_pack_usage, return_type=str, when_used="json"),
    PackedSchema,
]
"""Usage by slice id. In JSON: one packed string, or a plain object in hand-written input."""
