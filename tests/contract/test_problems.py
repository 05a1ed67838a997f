"""Messages of validation errors, and the keys that they suggest."""

import pytest

from penstock.config.demand import DemandFile
from penstock.config.slices import SlicesFile
from penstock.contract.messages import DecisionRequest, ExplainRequest, ReportMessage, SlicesRequest, StatusRequest
from penstock.contract.problems import BadMessage, known_keys, read
from penstock.model.cluster import ClusterConfig, Where
from penstock.model.value import Value


@pytest.mark.parametrize(
    ("model", "where", "keys"),
    [
        (ClusterConfig, ("pools", 0), {"name", "chips", "system"}),
        (ClusterConfig, ("groups", 3, "limits"), {"in_flight", "creates_per_minute", "growth"}),
        (ClusterConfig, ("groups", 0, "timeouts"), {"requesting", "boot", "init", "drain"}),
        (SlicesFile, ("health", "a-group"), {"availability", "until", "reason"}),
        (SlicesFile, ("slices", 0, "usage", 1), {"state", "reserved", "tasks", "idle_since"}),
        (DemandFile, ("tasks", 0, "gang"), {"id", "pending", "size", "placement", "tasks_per_host"}),
        (ReportMessage, ("demand", "DemandMessage", "demand"), {"workload", "task_ids", "gang_ids"}),
        (ClusterConfig, ("max_slices",), set()),
    ],
)
def test_keys_are_found_through_lists_dictionaries_and_optional_values(model: type, where: Where, keys: set[str]) -> None:
    assert set(known_keys(model, where)) >= keys
    assert bool(known_keys(model, where)) is bool(keys)


def test_a_contradiction_in_the_configuration_is_described_without_quoting_the_whole_configuration() -> None:
    group = '{"name": "a", "max_slices": 1}'
    with pytest.raises(BadMessage) as rejected:
        read(ClusterConfig, f'{{"cluster": "x", "groups": [{group}, {group}]}}'.encode())
    assert str(rejected.value) == "groups.1.name: 'a' is already in use; choose another name"


@pytest.mark.parametrize(
    ("model", "raw", "problem"),
    [
        (StatusRequest, b'{"since": true}', "since: True is not a number"),
        (SlicesRequest, b'{"page_size": true}', "page_size: True is not a number"),
        (SlicesRequest, b'{"page_size": 0}', "page_size: should be 1 or more, not 0"),
        (SlicesRequest, b'{"state": "redy"}', "state: should be 'REQUESTING', 'BOOTING'"),
        (ExplainRequest, b'""', "task_id: is empty"),
        (DecisionRequest, b'{"task": "a"}', "task: unknown key"),
    ],
)
def test_a_mistake_in_a_query_is_refused_with_its_field(model: type[Value], raw: bytes, problem: str) -> None:
    with pytest.raises(BadMessage) as refused:
        read(model, raw)
    assert str(refused.value).startswith(problem)
