"""Why a slice stays, asked through the client: from the workflow, or from the dump where deciding takes too long for a query."""

import asyncio
from typing import Any, cast

import pytest

from penstock.client import AutoscalerClient
from penstock.client.errors import Refused
from penstock.contract import names
from penstock.contract.error_codes import ErrorCode
from penstock.contract.slice_answers import SliceOutlook
from tests.core.answers.test_explain_slice import idle


class Answering:
    """Stands in for the calls of a client: a cluster too large for a query that decides."""

    def __init__(self, code: ErrorCode) -> None:
        self._code = code

    async def query(self, name: str, *_: object) -> object:
        if name == names.DUMP:
            return idle(4)
        raise Refused("no", self._code)


def asked(code: ErrorCode) -> Any:
    client = AutoscalerClient(cast(Any, None), "c")
    client._calls = cast(Any, Answering(code))
    return asyncio.run(client.explain_slice("s"))


def test_a_slice_of_a_large_cluster_is_explained_from_the_dump() -> None:
    found = asked(ErrorCode.CLUSTER_TOO_LARGE)
    assert found.status in (SliceOutlook.KEPT, SliceOutlook.GOING)
    assert found.text.startswith("Slice s of cpu is ")


def test_another_refusal_is_raised() -> None:
    with pytest.raises(Refused):
        asked(ErrorCode.BAD_INPUT)
