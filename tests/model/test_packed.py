"""Columns survive being packed, and what was never packed is refused."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.packed import pack, pack_ints, unpack, unpack_ints


@given(st.lists(st.integers(0, 1 << 63)))
def test_numbers_survive(numbers: list[int]) -> None:
    assert list(unpack_ints(pack_ints(numbers))) == numbers


@given(st.lists(st.text()))
def test_words_survive(words: list[str]) -> None:
    assert unpack(pack(words)) == words


@pytest.mark.parametrize("text", ["", "H", "nonsense", "Habcd", "H!!!!", "Zabcd", "QQUJDRA=="])
@pytest.mark.parametrize("read", [unpack, unpack_ints])
def test_what_was_never_packed_is_refused(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError, match="not a packed column"):
        read(text)
