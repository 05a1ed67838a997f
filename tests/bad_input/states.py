"""The states in which messages find an autoscaler, and good messages with the effect that they have in any of them."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from penstock.core.state.apply import replay
from penstock.core.state.events import AnyEvent, Closed, ConfigApplied, DrainOrdered, Paused, RecoveryBegan
from penstock.core.state.inbox import Received, fold
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.slices import DrainTerms, Slice
from tests.bad_input.generate import raw_of
from tests.bad_input.valid import CLUSTER, DEMAND_MESSAGE

AT = datetime(2026, 11, 17, 5, tzinfo=UTC)
DRAINING, UNTOUCHED = "cpu-3", "cpu-4"
"""A slice that drains in every state; another that does, and that only good messages name."""
_SLICES = ("cpu-1", "cpu-2", DRAINING, UNTOUCHED, "v5e-1")
_USAGE = {"source": "train", "epoch": 5, "revision": 1, "usage": {"cpu-1": [{"tasks": ["r"], "reserved": {"cpu": 4}}]}}
_AFTER: tuple[tuple[AnyEvent, ...], ...] = (
    (),
    (),
    (Paused(at=AT, reason="maintenance"),),
    (RecoveryBegan(at=AT, id="recovery-1", reason="reset"),),
    (Closed(at=AT),),
)


@cache
def states() -> tuple[AutoscalerState, ...]:
    """One without anything; one that works, with demand, usage and drains; and the same paused, recovering and deleted."""
    slices = tuple(Slice(id=id_, group=id_[:-2], state="READY", since=AT) for id_ in _SLICES)
    drains = (DrainOrdered(at=AT, slice_id=id_, terms=DrainTerms(cause="test")) for id_ in (DRAINING, UNTOUCHED))
    works = replay([ConfigApplied(at=AT, config=ClusterConfig.model_validate(CLUSTER)), *drains], AutoscalerState(slices=slices))
    said = (("demand", DEMAND_MESSAGE | {"revision": 1}), ("usage", _USAGE))
    works = fold(works, [Received(name, raw_of(body), AT) for name, body in said])
    return (AutoscalerState(), *(replay(events, works) for events in _AFTER))


class Good(NamedTuple):
    """A message that generated ones have nothing to do with, and whether a state shows its effect."""

    name: str
    body: Any
    holds: Callable[[AutoscalerState], bool]


_REPORT: dict[str, Any] = {"slice_id": "v5e-7", "group": "v5e", "state": "BOOTING", "sequence": 1}
_REPORT |= {"since": "2026-11-17T05:00:00Z", "ordered_at": "2026-11-17T04:00:00Z"}
_SILENT: dict[str, Any] = {"location": {"provider": "sim", "account": "sim", "name": "anywhere"}, "complete": False}
_SILENT |= {"at": "2026-11-17T05:00:00Z", "problem": {"kind": "no_answer", "since": "2026-11-17T05:00:00Z", "message": "x"}}


def good_messages(state: AutoscalerState) -> tuple[Good, ...]:
    """Good messages for this state: a cluster that is deleted takes no demand, and one without slices hears of none."""
    good = [Good("slices_reported", {"reports": [_REPORT]}, lambda after: "v5e-7" in after.by_id)]
    if not state.closing:
        good += [Good("demand", _wanted("plain"), _has_demand("plain"))]
        good += [Good("demand", _wanted("numbered") | {"epoch": 7, "revision": 1}, _has_demand("numbered"))]
        good += [Good("report", {"demand": _wanted("reported")}, _has_demand("reported"))]
    if UNTOUCHED in state.by_id:
        good += [Good("usage", {"source": "watcher", "usage": {UNTOUCHED: "busy"}}, lambda after: UNTOUCHED in after.usage)]
        good += [Good("confirm_drain", [UNTOUCHED], lambda after: after.by_id[UNTOUCHED].confirmed_empty)]
        good += [Good("location_reported", _SILENT, lambda after: "sim/anywhere" in after.location_problems)]
    return tuple(good)


def _wanted(source: str) -> dict[str, Any]:
    return {"source": source, "tasks": [{"id": f"{source}/0"}]}


def _has_demand(source: str) -> Callable[[AutoscalerState], bool]:
    return lambda after: source in after.demand and after.demand[source].demand.task_ids == (f"{source}/0",)
