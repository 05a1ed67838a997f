"""Packed columns: encoding and decoding, limits, and malformed input."""

import base64
import lzma
import random
import uuid
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.packed import pack, pack_ids, pack_ints, unpack, unpack_ids, unpack_ints


@given(st.lists(st.integers(0, 1 << 63)))
def test_numbers_survive(numbers: list[int]) -> None:
    assert list(unpack_ints(pack_ints(numbers))) == numbers


@given(st.lists(st.text()))
def test_words_survive(words: list[str]) -> None:
    assert unpack(pack(words)) == words


HEX = st.one_of(st.uuids().map(str), st.binary(min_size=1, max_size=40).map(bytes.hex))


@given(st.lists(st.one_of(st.text(), HEX, st.tuples(st.text(), HEX, st.text(), HEX).map("".join))))
def test_ids_with_any_digits_survive(ids: list[str]) -> None:
    assert unpack_ids(pack_ids(ids)) == ids
    assert unpack_ids(pack(ids)) == ids


def test_a_packed_uuid_takes_no_more_than_its_bytes() -> None:
    chance = random.Random(7)
    ids = [str(uuid.UUID(int=chance.getrandbits(128))) for _ in range(3_000)]
    for written in (ids, [f"job/{name}/0" for name in ids], [name.replace("-", "") for name in ids]):
        assert unpack_ids(pack_ids(written)) == written
        assert len(pack_ids(written)) < 3_000 * 16 * 4 / 3 + 500


def test_sequential_ids_are_packed_as_text() -> None:
    ids = [f"job-{number:016}" for number in range(3_000)]
    assert pack_ids(ids) == pack(ids)


BOMB = 100_000_000


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (unpack, pack([{}] * 1_001)),
        (unpack, base64.b64encode(lzma.compress(b"[" + b" " * BOMB + b"]", preset=1)).decode()),
        (unpack_ids, pack(["a"] * 1_001)),
        (unpack_ids, f"{pack_ids([32 * 'a'])}".partition(".")[0] + "." + pack_ints([0] * 1_000_000)[1:]),
        (unpack_ints, pack_ints([0] * 1_001)),
        (unpack_ints, "H" + base64.b64encode(zlib.compress(bytes(BOMB), level=1)).decode()),
    ],
)
def test_a_received_column_is_not_decompressed_beyond_its_limit(read: Callable[..., object], text: str) -> None:
    with pytest.raises(ValueError, match="may hold"):
        read(text, 1_000)


def test_a_column_at_its_limit_is_read() -> None:
    assert len(unpack_ids(pack_ids(["a"] * 1_000), 1_000)) == 1_000
    assert len(unpack_ints(pack_ints([1] * 1_000), 1_000)) == 1_000


TOO_FEW_DIGITS = pack_ids([32 * "a"]).partition(".")[0] + ".eJwDAAAAAAE="


@pytest.mark.parametrize("text", ["x", "xnonsense.", f"{pack(['a'])}.AAAA", TOO_FEW_DIGITS])
def test_malformed_packed_ids_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="not a packed column"):
        unpack_ids(text)


@pytest.mark.parametrize("kind", "sdfqcx?")
def test_a_column_of_anything_but_whole_numbers_from_0_on_is_rejected(kind: str) -> None:
    with pytest.raises(ValueError, match=f"begins with H or Q, not with '[{kind}]'"):
        unpack_ints(kind + pack_ints([1, 2])[1:])


@pytest.mark.parametrize("text", ["", "H", "nonsense", "Habcd", "H!!!!", "Zabcd", "QQUJDRA=="])
@pytest.mark.parametrize("read", [unpack, unpack_ints])
def test_malformed_columns_are_rejected(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError, match="not a packed column"):
        read(text)
