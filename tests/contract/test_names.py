"""Ids of slices: they carry the group and the time of the order."""

from datetime import UTC, datetime

import pytest

from penstock.contract import names

AT = datetime(2026, 8, 24, 12, 5, 7, tzinfo=UTC)


def test_a_slice_id_says_of_which_group_it_is_and_when_it_was_ordered() -> None:
    slice_id = names.slice_id("us-west4-a", AT, "0badcafe")
    assert (names.group_named_in(slice_id), names.ordered_at(slice_id)) == ("us-west4-a", AT)


@pytest.mark.parametrize("text", ["", "a", "g-260824-120507-0badcaf", "g-261324-120507-0badcafe"])
def test_other_texts_have_no_time(text: str) -> None:
    assert names.ordered_at(text) is None
