"""Run Ray's planner on one case: a script for an environment that has Ray and not Penstock.

    python -I ray_side.py CASE.json    prints {case, cpu_seconds, nodes, cost, unplaced, launched, measured}

The request to `ResourceDemandScheduler.schedule`: node types are worker groups, existing nodes are running nodes with their
free resources, demands have counts, and a STRICT_SPREAD gang is a set of bundles with anti-affinity to a label of the gang.
Only `schedule` is timed, with a new request for every call.
"""

import importlib
import json
import logging
import statistics
import sys
import time
from pathlib import Path
from typing import Any

REPEATS = 3
"""The median of three, as for Penstock."""
LONG_SECONDS = 2.0
"""A call that takes longer than this is not repeated: warm-up effects are negligible in it."""


def main() -> None:
    """Plan the case named on the command line."""
    logging.disable(logging.WARNING)
    case = json.loads(Path(sys.argv[1]).read_text())
    seconds: list[float] = []
    while len(seconds) < REPEATS and not (seconds and seconds[0] > LONG_SECONDS):
        scheduler, request = _scheduler(), _request(case)
        start = time.process_time()
        reply = scheduler.schedule(request)
        seconds.append(time.process_time() - start)
    print(json.dumps(_result(case, reply, statistics.median(seconds))))


def _scheduler() -> Any:
    return importlib.import_module("ray.autoscaler.v2.scheduler").ResourceDemandScheduler()


def _request(case: Any) -> Any:
    schedule = importlib.import_module("ray.autoscaler.v2.scheduler")
    return schedule.SchedulingRequest(
        disable_launch_config_check=True,
        node_type_configs={name: _node_type(name, spec) for name, spec in case["node_types"].items()},
        resource_requests=[_demand(demand) for demand in case["demands"]],
        gang_resource_requests=[_gang(gang) for gang in case["gangs"]],
        current_instances=[_running(node) for node in case["existing"]],
    )


def _node_type(name: str, spec: Any) -> Any:
    config = importlib.import_module("ray.autoscaler.v2.instance_manager.config")
    return config.NodeTypeConfig(
        name=name,
        min_worker_nodes=spec["min"],
        max_worker_nodes=spec["max"],
        resources=dict(spec["resources"]),
        labels=dict(spec["labels"]),
    )


def _running(node: Any) -> Any:
    schema = importlib.import_module("ray.autoscaler.v2.schema")
    messages = importlib.import_module("ray.core.generated.autoscaler_pb2")
    manager = importlib.import_module("ray.core.generated.instance_manager_pb2")
    return schema.AutoscalerInstance(
        cloud_instance_id=node["id"],
        ray_node=messages.NodeState(
            node_id=node["id"].encode(),
            ray_node_type_name=node["node_type"],
            total_resources=node["total"],
            available_resources=node["available"],
        ),
        im_instance=manager.Instance(
            instance_id=node["id"],
            instance_type=node["node_type"],
            node_id=node["id"],
            status=manager.Instance.RAY_RUNNING,
        ),
    )


def _demand(demand: Any) -> Any:
    messages = importlib.import_module("ray.core.generated.autoscaler_pb2")
    request = importlib.import_module("ray.autoscaler.v2.utils").ResourceRequestUtil.make(demand["resources"])
    return messages.ResourceRequestByCount(request=request, count=demand["count"])


def _gang(gang: Any) -> Any:
    if gang["strategy"] != "STRICT_SPREAD":
        raise ValueError(f"gang {gang['id']}: strategy {gang['strategy']} is not supported by this benchmark")
    make = importlib.import_module("ray.autoscaler.v2.utils").ResourceRequestUtil
    messages = importlib.import_module("ray.core.generated.autoscaler_pb2")
    apart = [(make.PlacementConstraintType.ANTI_AFFINITY, f"_PG_{gang['id']}", "")]
    bundles = [make.make(bundle["resources"], apart) for bundle in gang["bundles"] for _ in range(bundle["count"])]
    return messages.GangResourceRequest(requests=bundles)


def _result(case: Any, reply: Any, cpu_seconds: float) -> dict[str, Any]:
    launched = {request.instance_type: request.count for request in reply.to_launch}
    prices = {name: spec["price_per_hour"] for name, spec in case["node_types"].items()}
    unplaced_gangs = reply.infeasible_gang_resource_requests
    return {
        "case": case["name"],
        "cpu_seconds": cpu_seconds,
        "nodes": sum(launched.values()),
        "cost": round(sum(prices[name] * count for name, count in launched.items()), 6),
        "unplaced": len(reply.infeasible_resource_requests) + sum(len(gang.requests) for gang in unplaced_gangs),
        "launched": dict(sorted(launched.items())),
        "measured": True,
    }


if __name__ == "__main__":
    main()
