"""Numbers that only a typing mistake makes are refused in messages too, before they are unfolded."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.contract.problems import BadMessage
from penstock.core.state.signals import read_signal
from penstock.core.state.state import AutoscalerState
from penstock.core.state.updates import read_update
from tests.bad_input.valid import CLUSTER

AT = datetime(2026, 11, 17, 5, tzinfo=UTC)
GROUP: dict[str, Any] = {"name": "a", "host": {"cpu": 1}, "max_slices": 10**9}


@pytest.mark.parametrize(
    ("name", "message", "problem"),
    [
        (
            "submit_demand",
            [{"id": "t", "count": 10**8}],
            "tasks: 100000000 tasks are more than the 200000 that one file or message",
        ),
        ("request_capacity", {"owner": "o", "wants": [{"count": 10**8}]}, "wants: 100000000 tasks are more than the 200000"),
        (
            "request_capacity",
            {"owner": "o", "wants": [{"gang": {"size": 10**8}}]},
            "wants[0].gang.size: should be 200000 or less",
        ),
        ("apply_config", CLUSTER | {"groups": [GROUP | {"min_slices": 10**8}]}, "groups[0].min_slices: should be 50000 or less"),
        (
            "apply_config",
            CLUSTER | {"patience": "9" * 100_000},
            "patience: has 100000 characters; write it like 90s, 10m or 1h30m",
        ),
        (
            "apply_config",
            CLUSTER | {"groups": [GROUP | {"attributes": {"a": "x" * 100_000}}]},
            "groups[0].attributes.a: has 100000 characters, the limit is 200; shorten it",
        ),
        ("apply_config", CLUSTER | {"pools": [{"name": "a/\u0007b", "chips": 1}]}, "pools[0].name: 'a/\\x07b' may have only"),
        ("apply_config", CLUSTER | {"groups": [GROUP | {"quota_pool": "Q" * 99}]}, "groups[0].quota_pool: "),
        ("request_capacity", {"owner": "a\u001b[31m"}, "owner: 'a\\x1b[31m' contains control characters"),
        (
            "apply_config",
            CLUSTER | {"groups": [GROUP | {"provider": {"kind": "sim", "url": "htp:/x y"}}]},
            "groups[0].provider: url 'htp:/x y' is not an address of at most 300 characters; write it like http://127.0.0.1:7234",
        ),
        ("resume", {"reason": "done"}, "reason: unknown key"),
        ("submit_demand", {"source": "a\nb", "tasks": []}, "source: 'a\\nb' contains control characters"),
    ],
)
def test_an_update_with_a_mistyped_number_is_refused(name: str, message: Any, problem: str) -> None:
    with pytest.raises(BadMessage) as refused:
        read_update(AutoscalerState(), name, json.dumps(message).encode(), AT)
    assert str(refused.value).startswith(problem)


def test_a_constraint_on_a_number_that_no_float_holds_is_demand_like_any_other() -> None:
    task = {"id": "t", "constraints": [{"attribute": "rank", "op": "gt", "value": 10**400}]}
    (event,) = read_signal(AutoscalerState(), "demand", json.dumps([task]).encode(), AT)
    (run,) = event.demand.workload.runs  # type: ignore[union-attr]
    assert run.fault is None


def test_a_signal_with_a_mistyped_count_is_rejected_and_a_mistyped_gang_is_a_fault_of_its_task() -> None:
    (event,) = read_signal(AutoscalerState(), "demand", b'[{"id": "t", "count": 100000000}]', AT)
    assert "check count and gang.size" in getattr(event, "problem", "")
    (event,) = read_signal(AutoscalerState(), "demand", b'[{"id": "t", "gang": {"id": "g", "size": 100000000}}]', AT)
    (run,) = event.demand.workload.runs  # type: ignore[union-attr]
    assert run.fault is not None
    assert run.fault.message == "gang.size: should be 200000 or less, not 100000000"
