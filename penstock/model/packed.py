"""Codec for long columns: a hundred thousand ids or five thousand slices become one compressed JSON string."""

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
"""LZMA's fastest preset: on sequential ids half the size of zlib's default, in half the time."""
_BYTES_EACH = 100
"""Average bytes per value that a received column may decompress to: kilobytes can decompress to gigabytes."""
_MOST_MEMORY = 1 << 26
"""Bytes of memory that LZMA may use to decompress: enough for its highest preset."""


def _compress(data: bytes) -> str:
    return base64.b64encode(lzma.compress(data, preset=_PRESET)).decode()


def _decompress(text: str, most: int | None = None) -> bytes:
    try:
        packed = base64.b64decode(text, validate=True)
        if most is None:
            return lzma.decompress(packed)
        decompressor = lzma.LZMADecompressor(memlimit=_MOST_MEMORY)
        data = decompressor.decompress(packed, most * _BYTES_EACH)
    except (lzma.LZMAError, ValueError) as error:
        raise ValueError(f"not a packed column: {error}") from None
    if not decompressor.eof:
        raise ValueError(_too_long(most))
    return data


def _too_long(most: int) -> str:
    return f"it decompresses to more than {most} values, the most that one message may hold"


def pack(columns: Any) -> str:
    """Encode any JSON value as one compressed string."""
    return _compress(json.dumps(columns, separators=(",", ":")).encode())


def unpack(text: str, most: int | None = None) -> Any:
    """Decode a string of `pack`. Raises `ValueError` if it is malformed, or a list of more than `most` values."""
    columns = json.loads(_decompress(text, most))
    if most is not None and isinstance(columns, list) and len(columns) > most:
        raise ValueError(_too_long(most))
    return columns


_SIZES = {"H": 2, "Q": 8}
"""Bytes of a packed integer, by the letter before its column."""


def pack_ints(numbers: Sequence[int]) -> str:
    """Encode integers of 0 or more: two bytes each if all fit, else eight, with all low bytes before all high bytes.

    In this layout zlib compresses an unsorted column as well as LZMA, in a tenth of the time.
    """
    kind = "H" if max(numbers, default=0) < 1 << 16 else "Q"
    raw, size = struct.pack(f"<{len(numbers)}{kind}", *numbers), _SIZES[kind]
    return kind + base64.b64encode(zlib.compress(b"".join(raw[i::size] for i in range(size)), level=1)).decode()


def unpack_ints(text: str, most: int | None = None) -> Sequence[int]:
    """Decode a string of `pack_ints`. Raises `ValueError` if it is malformed, or holds more than `most` integers."""
    kind = text[:1]
    if kind not in _SIZES:
        raise ValueError(f"not a packed column: a column of numbers begins with H or Q, not with {kind!r}")
    size = _SIZES[kind]
    try:
        planes = _inflate(text[1:], None if most is None else most * size)
        raw, count = bytearray(len(planes)), len(planes) // size
        for i in range(size):
            raw[i::size] = planes[i * count : (i + 1) * count]
        return struct.unpack(f"<{count}{kind}", raw)
    except (struct.error, zlib.error, ValueError) as error:
        raise ValueError(f"not a packed column: {error}") from None


def _inflate(text: str, largest: int | None) -> bytes:
    packed = base64.b64decode(text, validate=True)
    if largest is None:
        return zlib.decompress(packed)
    decompressor = zlib.decompressobj()
    data = decompressor.decompress(packed, largest + 1)
    if len(data) > largest or not decompressor.eof:
        raise ValueError("it is truncated, or longer than a message may hold")
    return data


_HEX = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|[0-9a-f]{16}")
_MARKS = {36: "\x00", 32: "\x01", 16: "\x02"}
"""Placeholders by length: a UUID, 32 digits, 16 digits. JSON text never contains these characters."""
_DIGITS = {mark: 16 if length == 16 else 32 for length, mark in _MARKS.items()}
_MARK = re.compile("[\x00-\x02]")


def pack_ids(ids: Sequence[str]) -> str:
    """Encode ids as one compressed string, with the UUIDs and long hexadecimal numbers in them as bytes.

    Two hexadecimal digits make one byte. The bytes are compressed apart from the text: they are random, so no compression
    makes them shorter, and zlib gives up on them fastest.
    """
    some = (ids[0], ids[len(ids) // 2], ids[-1]) if ids else ()
    if not any(found and not found[0].isdecimal() for found in map(_HEX.search, some)):
        return pack(ids)
    text = json.dumps(ids, separators=(",", ":"))
    digits = "".join(_HEX.findall(text)).replace("-", "")
    text = _HEX.sub(lambda found: _MARKS[len(found[0])], text)
    return f"x{_compress(text.encode())}.{base64.b64encode(zlib.compress(bytes.fromhex(digits), level=1)).decode()}"


def unpack_ids(text: str, most: int | None = None) -> Any:
    """Decode a string of `pack_ids`. Raises `ValueError` if it is malformed, or holds more than `most` ids."""
    text, _, digits = text.removeprefix("x").partition(".")
    listed = _decompress(text, most).decode()
    if most is not None and listed.count('","') >= most:
        raise ValueError(_too_long(most))
    return json.loads(_with_digits(listed, digits, most) if digits else listed)


def _with_digits(text: str, packed: str, most: int | None) -> str:
    """The text with every placeholder replaced by its digits."""
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
"""Key of the validation context for the most values that a packed column may hold. Without it there is no limit."""


def longest(info: ValidationInfo) -> int | None:
    """The most values that a packed column may hold; None if there is no limit."""
    return info.context[LONGEST_COLUMN] if info.context else None


def _read_ids(value: Any, info: ValidationInfo) -> Any:
    return unpack_ids(value, longest(info)) if isinstance(value, str) else value


Ids = Annotated[
    tuple[str, ...],
    BeforeValidator(_read_ids, json_schema_input_type=str | list[str]),
    PlainSerializer(pack_ids, return_type=str, when_used="json"),
]
"""Ids in order. In JSON: one packed string, or a plain list in hand-written input."""

PackedSchema = WithJsonSchema({"type": ["string", "array"], "description": "packed columns, or the plain list"})
