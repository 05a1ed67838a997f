"""Parse and format sizes (192GiB), durations (10m) and fractions (0.5), stored as bytes, seconds and thousandths."""

import re
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

MILLI = 1000
"""Milli-units in one core or one GPU."""
LARGEST = 1 << 60
"""Upper bound of every amount: sums of amounts below it stay exact and fast."""
LONGEST_SECONDS = 10 * 366 * 86400.0
"""Ten years: a longer duration is a mistake, and adding it to a moment could overflow."""
FIRST_YEAR, LAST_YEAR = 1970, 2500
"""Moments outside these years are mistakes."""
_LONGEST_WRITTEN = 100
"""Characters of an amount as people write it. Matching units in a text grows with the square of its length."""
_DECIMALS = 9
"""Decimals kept of a floating-point number, so that 0.1 + 0.2 is 0.3."""

_BYTE_UNITS = {"": 1, "B": 1} | {
    f"{prefix}{suffix}": base**power
    for suffix, base in (("", 1000), ("B", 1000), ("i", 1024), ("iB", 1024))
    for power, prefix in enumerate("KMGTP", start=1)
}
_DURATION_UNITS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600), "d": Decimal(86400)}
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def _check_length(value: object, example: str) -> None:
    if isinstance(value, str) and len(value) > _LONGEST_WRITTEN:
        raise ValueError(f"has {len(value)} characters; write it like {example}")


def _number(value: object, example: str) -> Decimal:
    _check_length(value, example)
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise ValueError(f"{value!r} is not a number; write it like {example}")
    if isinstance(value, int) and abs(value) > LARGEST:
        raise ValueError(f"a number of {value.bit_length()} bits is too large; write it like {example}")
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise ValueError(f"{value!r} is not a number; write it like {example}") from None
    if not number.is_finite() or number < 0:
        raise ValueError(f"{value!r} must be a finite number, 0 or more; write it like {example}")
    if number > LARGEST:
        raise ValueError(f"{value!r} is too large; write it like {example}")
    return round(number, _DECIMALS) if isinstance(value, float) else number


def parse_bytes(value: object) -> int:
    """Bytes from `192GiB`, `1.5TB` or a plain number of bytes."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST and value == int(value):
        return int(value)
    _check_length(value, "192GiB")
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in _BYTE_UNITS:
        raise ValueError(f"{value!r} is not a size; write it like 192GiB or 100GB, or as a number of bytes")
    size = Decimal(match[1]) * _BYTE_UNITS[match[2]]
    if size > LARGEST or size != int(size):
        raise ValueError(f"{value!r} is not a whole number of bytes; write it like 192GiB")
    return int(size)


def parse_milli(value: object) -> int:
    """Thousandths from a number of cores or GPUs such as `0.5`."""
    milli = _number(value, "0.5 or 4") * MILLI
    if milli != int(milli):
        raise ValueError(f"{value!r} is finer than a thousandth; write at most three decimals, like 0.125")
    return int(milli)


def parse_count(value: object) -> int:
    """A whole number, 0 or more."""
    number = _number(value, "4")
    if number != int(number):
        raise ValueError(f"{value!r} is not a whole number; write it like 4")
    return int(number)


def parse_seconds(value: object) -> float:
    """Seconds from `90s`, `10m`, `1h30m`, or a plain number of seconds."""
    _check_length(value, "90s, 10m or 1h30m")
    if isinstance(value, str) and value and _DURATION.sub("", value.replace(" ", "")) == "":
        parts = _DURATION.findall(value.replace(" ", ""))
        seconds = float(sum(Decimal(number) * _DURATION_UNITS[unit] for number, unit in parts))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(_number(value, "10m"))
    else:
        raise ValueError(f"{value!r} is not a duration; write it like 90s, 10m or 1h30m")
    if seconds > LONGEST_SECONDS:
        raise ValueError(f"{value!r} is longer than ten years; write it like 90s, 10m or 1h30m")
    return seconds


def format_bytes(size: int) -> str:
    """The shortest exact spelling: 206158430208 is 192GiB."""
    for power, prefix in reversed(list(enumerate("KMGTP", start=1))):
        if size and size % 1024**power == 0:
            return f"{size // 1024**power}{prefix}iB"
    for power, prefix in reversed(list(enumerate("KMGTP", start=1))):
        if size >= 1024**power:
            return f"{size / 1024**power:.1f}{prefix}iB"
    return f"{size}B"


def format_milli(milli: int) -> str:
    """Cores or GPUs as people write them: 500 is 0.5."""
    return f"{milli / MILLI:.3f}".rstrip("0").rstrip(".")


def format_seconds(seconds: float) -> str:
    """The two largest units: 5400 is 1h30m."""
    left, parts = round(seconds), []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    return "".join(parts[:2]) or "0s"


def _milli_to_number(milli: int) -> int | float:
    return milli // MILLI if milli % MILLI == 0 else milli / MILLI


def _in_utc(moment: datetime) -> datetime:
    """The moment in UTC. A moment without a time zone is UTC, not local time."""
    if FIRST_YEAR <= moment.year <= LAST_YEAR:
        in_utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        if FIRST_YEAR <= in_utc.year < LAST_YEAR:
            return in_utc
    raise ValueError(f"{moment} is not between the years {FIRST_YEAR} and {LAST_YEAR}")


Bytes = Annotated[
    int,
    BeforeValidator(parse_bytes),
    Field(ge=0),
    WithJsonSchema({"type": ["integer", "string"], "examples": ["192GiB"], "description": "bytes, or a size"}),
]
Milli = Annotated[
    int,
    BeforeValidator(parse_milli),
    PlainSerializer(_milli_to_number, return_type=float),
    WithJsonSchema({"type": ["number", "string"], "minimum": 0, "examples": [0.5], "description": "at most three decimals"}),
]
Count = Annotated[int, BeforeValidator(parse_count), WithJsonSchema({"type": ["integer", "string"], "minimum": 0})]
Positive = Annotated[Count, Field(ge=1), WithJsonSchema({"type": ["integer", "string"], "minimum": 1})]
Seconds = Annotated[
    float,
    BeforeValidator(parse_seconds),
    WithJsonSchema({"type": ["number", "string"], "examples": ["10m"], "description": "seconds, or a duration"}),
]
Moment = Annotated[datetime, AfterValidator(_in_utc)]
"""An aware moment in UTC; a moment written without a zone is UTC."""
