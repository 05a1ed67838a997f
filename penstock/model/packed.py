"""Columns that travel compressed: a hundred thousand ids or five thousand slices as one short JSON string."""

import base64
import json
import lzma
import re
import struct
import zlib
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, ValidationInfo, WithJsonSchema

_PRESET = 0
"""LZMA's fastest: half the size of zlib's default on ids that count up, in half the time."""
_BYTES_EACH = 100
"""Bytes that one value of a column from outside may unfold to, on average: a few kilobytes can unfold to gigabytes."""
_MOST_MEMORY = 1 << 26
"""Bytes that LZMA may take to unfold: as much as its most thorough preset needs."""


def _compress(data: bytes) -> str:
    return base64.b64encode(lzma.compress(data, preset=_PRESET)).decode()


def _decompress(text: str, most: int | None = None) -> bytes:
    try:
        packed = base64.b64decode(text, validate=True)
        if most is None:
            return lzma.decompress(packed)
        unfolding = lzma.LZMADecompressor(memlimit=_MOST_MEMORY)
        data = unfolding.decompress(packed, most * _BYTES_EACH)
    except (lzma.LZMAError, ValueError) as error:
        raise ValueError(f"not a packed column: {error}") from None
    if not unfolding.eof:
        raise ValueError(_too_long(most))
    return data


def _too_long(most: int) -> str:
    return f"it unfolds to more than the {most} values that one message may hold"


def pack(columns: Any) -> str:
    """Anything that JSON can hold, as one compressed string."""
    return _compress(json.dumps(columns, separators=(",", ":")).encode())


def unpack(text: str, most: int | None = None) -> Any:
    """What was packed, `most` values if it is a list; a string that was not, or is longer, is a `ValueError`."""
    columns = json.loads(_decompress(text, most))
    if most is not None and isinstance(columns, list) and len(columns) > most:
        raise ValueError(_too_long(most))
    return columns


def pack_ints(numbers: Sequence[int]) -> str:
    """Numbers from 0 on, two bytes each where they fit, all low bytes before all high ones.

    zlib then takes a tenth of LZMA's time on a column without order, and leaves no more of it.
    """
    kind = "H" if max(numbers, default=0) < 1 << 16 else "Q"
    raw, size = struct.pack(f"<{len(numbers)}{kind}", *numbers), struct.calcsize(f"<{kind}")
    return kind + base64.b64encode(zlib.compress(b"".join(raw[i::size] for i in range(size)), level=1)).decode()


def unpack_ints(text: str, most: int | None = None) -> Sequence[int]:
    """Numbers that were packed; a string that was not, or of more than `most`, is a `ValueError`."""
    try:
        kind, size = text[:1], struct.calcsize(f"<{text[0]}")
        planes = _inflate(text[1:], None if most is None else most * size)
        raw, count = bytearray(len(planes)), len(planes) // size
        for i in range(size):
            raw[i::size] = planes[i * count : (i + 1) * count]
        return struct.unpack(f"<{count}{kind}", raw)
    except (IndexError, struct.error, zlib.error, ValueError) as error:
        raise ValueError(f"not a packed column: {error}") from None


def _inflate(text: str, largest: int | None) -> bytes:
    packed = base64.b64decode(text, validate=True)
    if largest is None:
        return zlib.decompress(packed)
    unfolding = zlib.decompressobj()
    data = unfolding.decompress(packed, largest + 1)
    if len(data) > largest or not unfolding.eof:
        raise ValueError("it is cut off, or longer than a message may hold")
    return data


_HEX = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|[0-9a-f]{16}")
_MARKS = {36: "\x00", 32: "\x01", 16: "\x02"}
"""What stands for a UUID and for digits: no JSON has these characters."""
_DIGITS = {mark: 16 if length == 16 else 32 for length, mark in _MARKS.items()}
_MARK = re.compile("[\x00-\x02]")


def pack_ids(ids: Sequence[str]) -> str:
    """Ids as one compressed string; UUIDs and long hexadecimal numbers in them as bytes, half of what is left of their digits.

    They are taken out of the text and packed for themselves: nothing makes random bytes shorter, and zlib finds it out soonest.
    """
    some = (ids[0], ids[len(ids) // 2], ids[-1]) if ids else ()
    if not any(found and not found[0].isdecimal() for found in map(_HEX.search, some)):
        return pack(ids)
    text = json.dumps(ids, separators=(",", ":"))
    digits = "".join(_HEX.findall(text)).replace("-", "")
    text = _HEX.sub(lambda found: _MARKS[len(found[0])], text)
    return f"x{_compress(text.encode())}.{base64.b64encode(zlib.compress(bytes.fromhex(digits), level=1)).decode()}"


def unpack_ids(text: str, most: int | None = None) -> Any:
    """Ids that were packed; a string that was not, or of more than `most`, is a `ValueError`."""
    text, _, digits = text.removeprefix("x").partition(".")
    listed = _decompress(text, most).decode()
    if most is not None and listed.count('","') >= most:
        raise ValueError(_too_long(most))
    return json.loads(_with_digits(listed, digits, most) if digits else listed)


def _with_digits(text: str, packed: str, most: int | None) -> str:
    """The text with the digits that were taken out of it."""
    try:
        digits = _inflate(packed, None if most is None else most * _BYTES_EACH).hex()
    except (zlib.error, ValueError) as error:
        raise ValueError(f"not a packed column: {error}") from None
    at = 0

    def next_digits(found: re.Match[str]) -> str:
        nonlocal at
        taken, at = digits[at : at + _DIGITS[found[0]]], at + _DIGITS[found[0]]
        if found[0] != _MARKS[36]:
            return taken
        return f"{taken[:8]}-{taken[8:12]}-{taken[12:16]}-{taken[16:20]}-{taken[20:]}"

    whole = _MARK.sub(next_digits, text)
    if at != len(digits):
        raise ValueError("not a packed column: its digits do not fit its ids")
    return whole


LONGEST_COLUMN = "longest_column"
"""In the context of a validation: the most values that a packed column may unfold to. Without it any number."""


def longest(info: ValidationInfo) -> int | None:
    """The most values that a column may unfold to, if that is limited."""
    return info.context[LONGEST_COLUMN] if info.context else None


def _read_ids(value: Any, info: ValidationInfo) -> Any:
    return unpack_ids(value, longest(info)) if isinstance(value, str) else value


Ids = Annotated[
    tuple[str, ...],
    BeforeValidator(_read_ids, json_schema_input_type=str | list[str]),
    PlainSerializer(pack_ids, return_type=str, when_used="json"),
]
"""Ids in order; in JSON one packed string, or a plain list where someone else wrote it."""

PackedSchema = WithJsonSchema({"type": ["string", "array"], "description": "packed columns, or the plain list"})
