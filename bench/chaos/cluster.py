"""The cluster under churn: its groups and its intervals, short enough that minutes hold hundreds of orders."""

from typing import Any

from penstock.model.cluster import ClusterConfig

ZONES = ("chaos-a", "chaos-b", "chaos-c")
_TIMEOUTS = {"requesting": "30s", "boot": "30s", "init": "20s", "drain": "3s"}
HOST_CPUS = 4


def _group(name: str, zone: str, *, max_slices: int, priority: int, **rest: Any) -> dict[str, Any]:
    host = {"cpu": HOST_CPUS, "memory": "16GiB"}
    return {"name": name, "zone": zone, "max_slices": max_slices, "priority": priority, "host": host} | rest


def cluster_config(name: str) -> ClusterConfig:
    """Three groups in three zones: machines, spot machines, and slices of two hosts."""
    groups = (
        _group("steady", ZONES[0], max_slices=30, priority=1, timeouts=_TIMEOUTS),
        _group("spot", ZONES[1], max_slices=30, priority=2, preemptible=True, timeouts=_TIMEOUTS),
        _group("pair", ZONES[2], max_slices=10, priority=3, hosts_per_slice=2, timeouts=_TIMEOUTS),
    )
    return ClusterConfig.model_validate(
        {
            "cluster": name,
            "groups": list(groups),
            "evaluation": {"interval": "500ms"},
            "backoff": {"first": "500ms", "longest": "2s"},
            "inventory": {
                "look": "500ms",
                "rest": "2s",
                "audit": "2s",
                "lost_misses": 2,
                "lost_after": "2s",
                "orphan_grace": "3s",
            },
        }
    )
