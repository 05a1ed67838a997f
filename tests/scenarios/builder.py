"""Builder of scenarios: one sentence, the facts it depends on, and the expected decision. All else has a default."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Self, TypedDict, Unpack

from penstock.model.cluster import ClusterConfig, Limits, Pool, ScaleGroup
from penstock.model.constraints import Constraint, Operator, Scalar
from penstock.model.decision import Cause, Code, CostPerHour, KeptCode, Outcome, Pressure, Tier
from penstock.model.elasticity import Setback
from penstock.model.pressure import PressureReport, PressureState
from penstock.model.slices import Availability, Health, HostUsage, RecentLaunch, SliceState, StandingItem, StandingRequest
from penstock.model.snapshot import SourceTerms
from penstock.model.units import parse_seconds
from tests.scenarios.cases import NOW, Case, Expectation, ExpectedDeferred, ExpectedPool, ExpectedUnmet, GivenSlice, GivenTask

_RESOURCES = ("cpu", "memory", "disk", "gpu", "tpu")
_HOST = {"cpu": 4, "memory": "16GiB", "disk": "100GiB"}
"""The default host: four cores, so that halves and quarters of it are easy to see."""
_MAX_SLICES = 10
_SLICES: dict[str, dict[str, Any]] = {
    "idle": {"state": "READY", "usage": "idle"},
    "busy": {"state": "READY", "usage": "busy"},
    "unreported": {"state": "READY"},
    "requesting": {"state": "REQUESTING"},
    "booting": {"state": "BOOTING"},
    "initializing": {"state": "INITIALIZING"},
    "queued": {"state": "REQUESTING", "queued": True},
    "draining": {"state": "DRAINING"},
    "deleting": {"state": "DELETING"},
}
"""Keyword arguments of `group` that add slices, with the fields of each slice."""


class Amounts(TypedDict, total=False):
    """Resources of a host or a task."""

    cpu: float
    memory: str
    disk: str
    gpu: float
    tpu: int


class GroupFields(Amounts, total=False):
    """Configuration of a group; the fields from `idle` on are numbers of slices by state."""

    variant: str
    hosts: int
    shared_tpu: bool
    min_slices: int
    max_slices: int
    warm_slices: int
    priority: int
    preemptible: bool
    zone: str
    attributes: dict[str, Scalar]
    price: float
    pool: str
    quota_pool: str
    quota_tier: int
    watermark: int
    limits: Limits
    patience: str
    idle_timeout: str
    cancel_after: str
    protect_first: bool
    keep_queued: bool
    hold_after_stockout: str
    max_unavailable: int | str
    window: dict[str, Any]
    max_age: str
    degraded_after: str
    drive: str
    slots: int
    grow_cooldown: str
    shrink_cooldown: str
    idle: int
    busy: int
    unreported: int
    requesting: int
    booting: int
    initializing: int
    queued: int
    draining: int
    deleting: int


class SliceFields(TypedDict, total=False):
    """Optional fields of a single slice."""

    count: int
    age: str
    queued: bool
    started: bool
    drain: bool | str
    idle: str
    stale_in: str
    unneeded: str
    kept: str
    cordoned: bool
    unclaimed: str
    unconfirmed: str
    made: str
    made_ago: str
    degraded: str
    notice: str
    replaces: str
    home: str
    joined: bool
    usage: str | HostUsage | Sequence[str | HostUsage]


class ReportFields(TypedDict, total=False):
    """Queue lengths of a group."""

    queued: int
    running: int
    capacity: int
    slices: int


class WantFields(Amounts, total=False):
    """A task, or a gang of such tasks if `gang` gives a size."""

    id: str
    source: str
    device: str
    variants: Sequence[str]
    constraints: Sequence[Constraint]
    preemptible: bool
    gang: int
    gang_id: str
    gang_placement: str
    tasks_per_host: int
    pending: int
    waits: str


class ClusterFields(TypedDict, total=False):
    """Configuration of the cluster."""

    placement: str
    max_slices: int
    max_cost_per_hour: float
    limits: Limits
    conserve_accelerators: bool
    patience: str
    ready_grace: str
    unclaimed_after: str
    scale_down: str
    max_unavailable: int | str
    window: dict[str, Any]
    replace_drifted: bool
    return_home: dict[str, Any]
    consolidation: dict[str, Any]


class Expected(TypedDict, total=False):
    """The fields of `Expectation`."""

    placed: dict[str, int]
    launches: dict[str, int]
    deferred: Sequence[ExpectedDeferred]
    unmet: Sequence[ExpectedUnmet]
    standing: dict[str, Code | str]
    tiers: dict[str, dict[Tier, int]]
    required: dict[str, int]
    target: dict[str, int]
    causes: dict[Cause, int]
    outcomes: dict[str, Outcome]
    availability: dict[str, Availability]
    why: dict[str, str]
    pressure: dict[str, Pressure]
    pools: dict[str, ExpectedPool]
    cost_per_hour: CostPerHour
    changes_in: str
    drains: Sequence[str] | dict[str, str]
    replaced: Sequence[str]
    withheld: dict[str, KeptCode]
    cancelled: Sequence[str]
    unneeded: Sequence[str]
    desired: dict[str, int]


class Scenario:
    """Collects facts; `expects` returns the finished case."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence
        self._cluster: dict[str, Any] = {}
        self._pools: list[Pool] = []
        self._groups: list[ScaleGroup] = []
        self._retired: list[str] = []
        self._slices: list[GivenSlice] = []
        self._health: dict[str, Health] = {}
        self._standing: list[StandingRequest] = []
        self._launched: list[RecentLaunch] = []
        self._tasks: list[GivenTask] = []
        self._sources: dict[str, SourceTerms] = {}
        self._stockouts: dict[str, datetime] = {}
        self._setbacks: dict[str, Setback] = {}
        self._reported: dict[str, PressureState] = {}

    def cluster(self, **fields: Unpack[ClusterFields]) -> Self:
        """Configure the cluster."""
        self._cluster |= fields
        return self

    def pool(self, name: str, chips: int, *, system: int = 0) -> Self:
        """Add a pool."""
        self._pools.append(Pool(name=name, chips=chips, system=system))
        return self

    def group(self, name: str, **fields: Unpack[GroupFields]) -> Self:
        """Add a group. Its slices were launched after those of earlier groups."""
        left: dict[str, Any] = dict(fields)
        counts = {word: left.pop(word) for word in _SLICES if word in left}
        host = _HOST | {key: left.pop(key) for key in _RESOURCES if key in left}
        device = {"type": _device_of(host)} | ({"variant": left.pop("variant")} if "variant" in left else {})
        renamed = {"hosts": "hosts_per_slice", "price": "price_per_hour", "slots": "slots_per_slice"}
        rest = {renamed.get(key, key): value for key, value in left.items()}
        facts = {"max_slices": _MAX_SLICES, "hosts_per_slice": 1} | rest | {"name": name, "device": device, "host": host}
        self._groups.append(ScaleGroup.model_validate(facts))
        for word, count in counts.items():
            given = {"id": f"{name}/{word}", "group": name, "count": count} | _SLICES[word]
            self._slices.append(GivenSlice.model_validate(given))
        return self

    def retired(self, name: str) -> Self:
        """Add the name of a removed group, which may still have slices."""
        self._retired.append(name)
        return self

    def slice(self, slice_id: str, group: str, state: SliceState, **fields: Unpack[SliceFields]) -> Self:
        """Add one slice of a configured or retired group."""
        self._slices.append(GivenSlice.model_validate({"id": slice_id, "group": group, "state": state} | fields))
        return self

    def health(self, group: str, availability: Availability, *, until: str | None = None) -> Self:
        """Block a group. `until` is relative to now; `-5m` is in the past."""
        end = None if until is None else NOW + _offset(until)
        self._health[group] = Health(availability=availability, until=end)
        return self

    def standing(self, owner: str, count: int, *, expires: str | None = None, **fields: Unpack[WantFields]) -> Self:
        """Add a standing request of one owner for `count` tasks or gangs."""
        item = StandingItem.model_validate(_shape(fields, gang_id=None) | {"count": count})
        end = None if expires is None else NOW + _offset(expires)
        self._standing.append(StandingRequest(owner=owner, wants=(item,), expires=end))
        return self

    def launched(self, group: str, slices: int, *, ago: str) -> Self:
        """Add slices to the recent launches."""
        self._launched.append(RecentLaunch(group, slices, NOW - _offset(ago)))
        return self

    def stockout(self, group: str, *, ago: str) -> Self:
        """Note when a group was last out of stock."""
        self._stockouts[group] = NOW - _offset(ago)
        return self

    def setback(self, group: str, *, ago: str, failed_returns: int = 0) -> Self:
        """Note when a group last failed, and how many returns to it failed."""
        self._setbacks[group] = Setback(at=NOW - _offset(ago), failed_returns=failed_returns)
        return self

    def source(
        self, name: str, *, lease_ends: str | None = None, usage_due: str | None = None, resync: str | None = None
    ) -> Self:
        """Set the terms of a source of demand, relative to now; `-5m` is in the past."""
        ends = {"lease_ends": lease_ends, "usage_due": usage_due}
        moments = {key: NOW + _offset(text) for key, text in ends.items() if text is not None}
        self._sources[name] = SourceTerms(**moments, resync=resync)
        return self

    def reports(
        self,
        group: str,
        *,
        ago: str = "0s",
        desired: int | None = None,
        acted: str | None = None,
        stale_in: str | None = None,
        **report: Unpack[ReportFields],
    ) -> Self:
        """Set the last report of pressure on a group; without tasks, the group has been idle since then.

        `acted` is how long ago reports changed `desired`; `stale_in` is when the report is stale, `-5m` if it is for 5 minutes.
        """
        at = NOW - _offset(ago)
        said = PressureReport.model_validate({"running": 0, "queued": 0, "capacity": 0, "slices": 0} | report)
        self._reported[group] = PressureState(
            report=said,
            at=at,
            desired=desired,
            acted_at=None if acted is None else NOW - _offset(acted),
            idle_from=at if said.idle else None,
            stale_at=None if stale_in is None else NOW + _offset(stale_in),
        )
        return self

    def wants(self, count: int, **fields: Unpack[WantFields]) -> Self:
        """Add `count` equal tasks or gangs to the end of the demand."""
        gang_id = fields.get("gang_id", f"gang-{len(self._tasks)}") if "gang" in fields else None
        extra = {"id": fields.get("id", "task"), "count": count, "pending": fields.get("pending")}
        extra |= {"source": fields.get("source", ""), "waits": fields.get("waits")}
        self._tasks.append(GivenTask.model_validate(_shape(fields, gang_id=gang_id) | extra))
        return self

    def expects(self, **fields: Unpack[Expected]) -> Case:
        """The case, with the expected decision."""
        facts = {"cluster": "scenario", "groups": self._groups, "pools": self._pools}
        return Case(
            title=self._sentence,
            config=ClusterConfig.model_validate(facts | self._cluster),
            retired=tuple(self._retired),
            slices=tuple(self._slices),
            health=self._health,
            standing=tuple(self._standing),
            launched=tuple(self._launched),
            sources=self._sources,
            stockouts=self._stockouts,
            setbacks=self._setbacks,
            reported=self._reported,
            tasks=tuple(self._tasks),
            expect=Expectation.model_validate(fields),
        )


def scenario(sentence: str) -> Scenario:
    """Start a scenario with its sentence."""
    return Scenario(sentence)


def must(attribute: str, op: Operator, *values: Scalar) -> Constraint:
    """A hard constraint."""
    return Constraint(attribute=attribute, op=op, values=values)


def should(attribute: str, op: Operator, *values: Scalar) -> Constraint:
    """A soft constraint."""
    return Constraint(attribute=attribute, op=op, values=values, soft=True)


def unmet(
    code: Code,
    entries: int = 1,
    *,
    tasks: str = "task",
    says: Sequence[str] = (),
    never_says: Sequence[str] = (),
    groups: dict[str, Code] | None = None,
) -> ExpectedUnmet:
    """Unmet entries: code, texts that the message contains or must not contain, and the code of every group."""
    return ExpectedUnmet(tasks=tasks, entries=entries, code=code, says=tuple(says), never_says=tuple(never_says), groups=groups)


def deferred(group: str, slices: int, limit: str, *, says: Sequence[str] = ()) -> ExpectedDeferred:
    """Slices that a limit defers, and texts that the message contains."""
    return ExpectedDeferred(group=group, slices=slices, limit=limit, says=tuple(says))


def reserved(*, gangs: Sequence[str] = (), **amounts: Unpack[Amounts]) -> HostUsage:
    """Usage of a host with reserved resources."""
    return HostUsage.model_validate({"reserved": amounts, "gangs": tuple(gangs)})


def _device_of(host: dict[str, Any]) -> str:
    return next((name for name in ("tpu", "gpu") if host.get(name)), "cpu")


def _shape(fields: WantFields, *, gang_id: str | None) -> dict[str, Any]:
    """The fields of a shape. Only gangs of the demand have an id."""
    facts: dict[str, Any] = {"resources": {key: value for key, value in fields.items() if key in _RESOURCES}}
    facts |= {key: value for key, value in fields.items() if key in ("constraints", "preemptible")}
    if "device" in fields or "variants" in fields:
        device = fields.get("device", _device_of(facts["resources"]))
        facts["device"] = {"type": device, "variants": tuple(fields.get("variants", ()))}
    if "gang" in fields:
        gang = {"size": fields["gang"], "placement": fields.get("gang_placement", "whole_slices")}
        gang |= {"tasks_per_host": fields.get("tasks_per_host")}
        facts["gang"] = gang | ({} if gang_id is None else {"id": gang_id})
    return facts


def _offset(text: str) -> timedelta:
    sign = -1 if text.startswith("-") else 1
    return sign * timedelta(seconds=parse_seconds(text.removeprefix("-")))
