"""Parsing and formatting of sizes, durations and fractions."""

from collections.abc import Callable

import pytest
from pydantic import TypeAdapter, ValidationError

from penstock.model.resources import Resources
from penstock.model.shape import Device, DeviceType, Shape
from penstock.model.slices import HostUsage
from penstock.model.units import (
    Moment,
    format_bytes,
    format_milli,
    format_seconds,
    parse_bytes,
    parse_count,
    parse_milli,
    parse_seconds,
)


@pytest.mark.parametrize(
    ("written", "held"),
    [
        ("192GiB", 192 * 1024**3),
        ("100GB", 100 * 10**9),
        ("1.5TiB", 3 * 512 * 1024**3),
        ("64Gi", 64 * 1024**3),
        (4096, 4096),
        ("0", 0),
    ],
)
def test_a_size_is_held_in_bytes(written: object, held: int) -> None:
    assert parse_bytes(written) == held


@pytest.mark.parametrize("written", ["64Gib", "lots", -1, 1.5, None, True, "1.0001B"])
def test_an_invalid_size_is_rejected_with_an_example(written: object) -> None:
    with pytest.raises(ValueError, match="192GiB"):
        parse_bytes(written)


@pytest.mark.parametrize(("written", "held"), [(0.5, 500), ("0.125", 125), (4, 4000), (0, 0)])
def test_cores_and_gpus_are_held_in_thousandths(written: object, held: int) -> None:
    assert parse_milli(written) == held


@pytest.mark.parametrize("written", [0.0005, -1, "x", True, float("nan")])
def test_an_invalid_fraction_is_rejected(written: object) -> None:
    with pytest.raises(ValueError, match="write"):
        parse_milli(written)


@pytest.mark.parametrize(
    ("written", "held"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172800), (15, 15), ("250ms", 0.25)]
)
def test_a_duration_is_held_in_seconds(written: object, held: float) -> None:
    assert parse_seconds(written) == held


@pytest.mark.parametrize("written", ["soon", "", "10", "5 parsecs", -1, None])
def test_an_invalid_duration_is_rejected(written: object) -> None:
    with pytest.raises(ValueError, match="10m"):
        parse_seconds(written)


def test_formatted_values_can_be_parsed_again() -> None:
    assert [format_bytes(n) for n in (192 * 1024**3, 1536 * 1024**2, 1000, 0)] == ["192GiB", "1536MiB", "1000B", "0B"]
    assert [format_seconds(n) for n in (0, 59, 5400, 90061)] == ["0s", "59s", "1h30m", "1d1h"]
    assert [format_milli(n) for n in (500, 4000, 1_000_001_000, 125)] == ["0.5", "4", "1000001", "0.125"]


def test_resources_survive_json() -> None:
    held = Resources(cpu=0.5, memory="192GiB", gpu=0.25)
    assert Resources.model_validate_json(held.model_dump_json()) == held


def test_a_task_needs_a_fraction_of_one_gpu_or_whole_gpus_while_a_host_may_report_any_fraction_in_use() -> None:
    with pytest.raises(ValidationError, match=r"1\.5 is neither a share of one GPU"):
        Shape(resources=Resources(gpu=1.5), device=Device(type=DeviceType.GPU))
    assert HostUsage(reserved=Resources(gpu=1.5)).reserved == Resources(gpu="1.5")


def test_floating_point_noise_is_rounded_away() -> None:
    assert (parse_milli(0.1 + 0.2), parse_bytes(1e9)) == (300, 10**9)


@pytest.mark.parametrize("parse", [parse_milli, parse_count, parse_bytes, parse_seconds])
def test_absurdly_large_values_are_rejected(parse: Callable[[object], object]) -> None:
    for written in ("1e400000", 10**30, float("inf"), "99999999999d"):
        with pytest.raises(ValueError, match="write it like"):
            parse(written)


def test_a_moment_without_a_time_zone_is_utc_in_every_local_time_zone() -> None:
    read = TypeAdapter(Moment).validate_python
    assert read("2026-11-16T12:00:00") == read("2026-11-16T12:00:00Z") == read("2026-11-16T13:00:00+01:00")
    with pytest.raises(ValidationError, match="not between the years"):
        read("9999-12-31T00:00:00Z")
