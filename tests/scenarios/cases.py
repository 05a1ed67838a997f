"""Cases: the input of a decision, the expected result, the comparison, and the YAML files of cases.

If an expectation omits placed, launches, deferred, unmet or standing, the decision must have none of them. The other
fields are compared only if they are given. Unknown keys are errors.
"""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from penstock.config.documents import read_document
from penstock.core.decision.decide import decide
from penstock.core.decision.held_for_gangs import digest_of
from penstock.model.cluster import ClusterConfig
from penstock.model.decision import Cause, Code, CostPerHour, Decision, KeptCode, Outcome, PoolDecision, Pressure, Tier
from penstock.model.demand import Demand, Task
from penstock.model.demand_builder import DemandBuilder, build_demand
from penstock.model.elasticity import Setback
from penstock.model.failures import Notice, NoticeKind
from penstock.model.pressure import PressureState
from penstock.model.runs import HostRef
from penstock.model.slices import Availability, DrainTerms, Health, RecentLaunch, Slice, SliceState, SliceUsage, StandingRequest
from penstock.model.snapshot import Snapshot, SourceTerms
from penstock.model.units import Moment, Seconds, parse_seconds
from penstock.model.value import Value

NOW = datetime(2026, 8, 24, 12, 0, tzinfo=UTC)
"""The moment at which every case is decided."""
SHORT = 200
"""Most characters of the message of an unmet entry, unless the case sets another limit."""

Counts = dict[str, int]


# --- the input ---------------------------------------------------------------------------------------------------


def _one_or_more(value: Any) -> Any:
    return value if value is None or isinstance(value, list | tuple) else (value,)


class GivenSlice(Value):
    """`count` slices of one group in one state. No usage report names a READY slice without `usage`."""

    id: str
    group: str
    state: SliceState
    count: int = 1
    usage: Annotated[SliceUsage | None, BeforeValidator(_one_or_more)] = None
    queued: bool = False
    drain: bool | str = False
    """Whether it drains, or for what cause."""
    started: bool = True
    age: Seconds | None = None
    idle: Seconds | None = None
    """For how long it has been idle."""
    stale_in: Seconds | None = None
    """When the word on its idleness is stale; 0: it is."""
    unneeded: Seconds | None = None
    """For how long nothing has needed it."""
    kept: Seconds | None = None
    """For how much longer an operator keeps it."""
    cordoned: bool = False
    unclaimed: Seconds | None = None
    made: str = ""
    """The fingerprint that it was made with; `now` is that of its group."""
    made_ago: Seconds | None = None
    degraded: Seconds | None = None
    """For how long one of its hosts has been degraded."""
    notice: str | None = None
    """What the cloud announces, and when: `maintenance 10m`."""
    replaces: str = ""
    home: str = ""
    joined: bool = False
    unconfirmed: Seconds | None = None
    """How long ago its last drain ended because nobody confirmed it."""

    def ids(self) -> list[str]:
        """The ids of the slices."""
        return [self.id] if self.count == 1 else [f"{self.id}/{n}" for n in range(self.count)]

    def slices(self, config: ClusterConfig) -> list[Slice]:
        """The slices of the snapshot."""
        lasting = {"since": self.age, "idle_since": self.idle, "unneeded_since": self.unneeded, "unclaimed": self.unclaimed}
        lasting |= {"unconfirmed_at": self.unconfirmed, "created_at": self.made_ago, "degraded_since": self.degraded}
        moments = {field: None if seconds is None else NOW - timedelta(seconds=seconds) for field, seconds in lasting.items()}
        fields: dict[str, Any] = {"group": self.group, "state": self.state, "queued": self.queued, "started": self.started}
        fields |= {"cordoned": self.cordoned, "kept_until": None if self.kept is None else NOW + timedelta(seconds=self.kept)}
        fields |= {"replaces": self.replaces, "home": self.home, "joined": self.joined, "notice": self._notice()}
        group = config.group(self.group)
        fields["fingerprint"] = group.fingerprint if group is not None and self.made == "now" else self.made
        return [Slice(id=i, drain=self._terms(number), **fields, **moments) for number, i in enumerate(self.ids())]

    def _notice(self) -> Notice | None:
        kind, _, ahead = (self.notice or "").partition(" ")
        return Notice(kind=NoticeKind(kind), until=NOW + timedelta(seconds=parse_seconds(ahead))) if kind else None

    def _terms(self, number: int) -> DrainTerms | None:
        return DrainTerms(cause="test" if self.drain is True else self.drain, number=number) if self.drain else None


class GivenTask(Task):
    """`count` equal tasks; or with a gang, `count` equal gangs with `pending` tasks each."""

    count: int = 1
    pending: int | None = None
    source: str = ""
    waits: Seconds | None = None
    """For how long gangs of this shape have been unmet."""

    @model_validator(mode="after")
    def _only_gangs_have_pending(self) -> Self:
        if self.pending is not None and (self.gang is None or self.pending < 1):
            raise ValueError("pending is how many tasks of a gang wait: at least one")
        return self

    def tasks(self, start: int) -> list[Task]:
        """The tasks as a controller sends them, numbered from `start` on."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in Task.model_fields}
        if self.gang is None:
            return [Task.model_construct(**fields | {"id": f"{self.id}/{start + n}"}) for n in range(self.count)]
        found: list[Task] = []
        for n in range(self.count):
            gang = self.gang.model_copy(update={"id": self.gang.id if self.count == 1 else f"{self.gang.id}-{n}"})
            for _ in range(self.pending or self.gang.size):
                found.append(Task.model_construct(**fields | {"id": f"{self.id}/{start + len(found)}", "gang": gang}))
        return found


# --- the expectation ---------------------------------------------------------------------------------------------


class ExpectedUnmet(Value):
    """Unmet entries of one task of the input, with their code and message."""

    tasks: str
    entries: int = 1
    code: Code
    says: tuple[str, ...] = ()
    never_says: tuple[str, ...] = ()
    longest: int = SHORT
    groups: dict[str, Code] | None = None


class ExpectedDeferred(Value):
    """Slices of a group that a limit defers."""

    group: str
    slices: int
    limit: str
    says: tuple[str, ...] = ()


class ExpectedPool(Value):
    """A pool, in chips: charged before, charged by the launches, and its pressure."""

    charged: int
    launching: int = 0
    pressure: Pressure = Pressure()


class Expectation(Value):
    """The expected decision.

    `placed: all` accepts any placement of all entries but the unmet ones. `no_more_than` replaces
    placed and launches if another planner's choice is a preference and not a rule: every entry must be placed, with at most
    as many slices launched in total as that planner launches.
    """

    placed: Counts | Literal["all"] = Field(default_factory=dict)
    launches: Counts = Field(default_factory=dict)
    no_more_than: Counts | None = None
    deferred: tuple[ExpectedDeferred, ...] = ()
    unmet: tuple[ExpectedUnmet, ...] = ()
    standing: dict[str, Code | Literal["met"]] = Field(default_factory=dict)
    tiers: dict[str, dict[Tier, int]] | None = None
    required: Counts | None = None
    target: Counts | None = None
    causes: dict[Cause, int] | None = None
    outcomes: dict[str, Outcome] | None = None
    availability: dict[str, Availability] | None = None
    why: dict[str, str] | None = None
    pressure: dict[str, Pressure] | None = None
    pools: dict[str, ExpectedPool] | None = None
    cost_per_hour: CostPerHour | None = None
    changes_in: Literal["never"] | Seconds | None = None
    drains: tuple[str, ...] | dict[str, str] | None = None
    """The slices that drain, in order, or with their causes."""
    replaced: tuple[str, ...] | None = None
    """The slices for which replacements are launched, in order."""
    withheld: dict[str, KeptCode] | None = None
    """What slices wait for that could go."""
    cancelled: tuple[str, ...] | None = None
    unneeded: tuple[str, ...] | None = None
    desired: Counts | None = None
    """Slices that reports of pressure want."""

    @model_validator(mode="after")
    def _no_more_than_excludes_exact_counts(self) -> Self:
        if self.no_more_than is not None and (self.placed or self.launches):
            raise ValueError("give either no_more_than, or placed and launches")
        return self

    def groups(self) -> set[str]:
        """The groups that it names, except in `no_more_than`, whose names are another planner's."""
        placed = {} if self.placed == "all" else self.placed
        named = (self.tiers, self.required, self.target, self.outcomes, self.availability, self.why, self.pressure, self.desired)
        causes = [item.groups for item in self.unmet]
        deferred = [item.group for item in self.deferred]
        return {name for names in (placed, self.launches, deferred, *named, *causes) for name in names or ()}


class Case(Value):
    """One decision: its input and the expected result. Groups in `retired` were removed from the configuration."""

    id: str = ""
    title: str
    note: str = ""
    later: str = ""
    config: ClusterConfig
    retired: tuple[str, ...] = ()
    slices: tuple[GivenSlice, ...] = ()
    health: dict[str, Health] = Field(default_factory=dict)
    standing: tuple[StandingRequest, ...] = ()
    launched: tuple[RecentLaunch, ...] = ()
    stockouts: dict[str, Moment] = Field(default_factory=dict)
    setbacks: dict[str, Setback] = Field(default_factory=dict)
    sources: dict[str, SourceTerms] = Field(default_factory=dict)
    reported: dict[str, PressureState] = Field(default_factory=dict)
    """What reports of pressure said, by group."""
    tasks: tuple[GivenTask, ...] = ()
    expect: Expectation

    @model_validator(mode="after")
    def _groups_exist(self) -> Self:
        configured = {group.name for group in self.config.groups}
        held = {given.group for given in self.slices} | {order.group for order in self.launched}
        unknown = (held - configured - set(self.retired)) | ((self.expect.groups() | set(self.health)) - configured)
        if unknown:
            raise ValueError(f"no such groups: {', '.join(sorted(unknown))}")
        return self

    def __str__(self) -> str:
        return f"{self.id} {self.title}".strip()

    def demand(self) -> Demand:
        """The demand. Gangs that run in part must not use their current hosts again."""
        tasks: list[Task] = []
        sources: dict[str, str] = {}
        for given in self.tasks:
            tasks += given.tasks(len(tasks))
            sources |= {task.id: given.source for task in tasks if task.id not in sources}
        found, builder = build_demand(tasks), DemandBuilder()
        for entry in found.entries():
            run = found.workload.runs[entry.run]
            gang_ids = () if entry.gang_id is None else (entry.gang_id,)
            apart = () if entry.gang_id is None else self._hosts_of(entry.gang_id)
            shape = found.workload.shapes[run.shape]
            source = sources[entry.task_ids[0]]
            builder.add(shape, entry.task_ids, gang_ids=gang_ids, apart=apart, fault=run.fault, source=source)
        return builder.build()

    def _hosts_of(self, gang_id: str) -> tuple[HostRef, ...]:
        """Hosts on which tasks of the gang run, from the usage."""
        usages = [(i, given.usage or ()) for given in self.slices for i in given.ids()]
        return tuple(HostRef(i, h) for i, usage in usages for h, host in enumerate(usage) if gang_id in host.gangs)

    def snapshot(self, demand: Demand) -> Snapshot:
        """The snapshot of the decision."""
        usage = {i: given.usage for given in self.slices if given.usage is not None for i in given.ids()}
        return Snapshot(
            config=self.config,
            now=NOW,
            workload=demand.workload,
            slices=tuple(piece for given in self.slices for piece in given.slices(self.config)),
            usage=usage,
            stale_at={i: NOW + timedelta(seconds=s.stale_in) for s in self.slices if s.stale_in is not None for i in s.ids()},
            health=self.health,
            standing=self.standing,
            launched=self.launched,
            stockouts=self.stockouts,
            setbacks=self.setbacks,
            sources=self.sources,
            waiting_since={
                digest_of(task.alone()): NOW - timedelta(seconds=task.waits) for task in self.tasks if task.waits is not None
            },
            pressure=self.reported,
        )


# --- the comparison ----------------------------------------------------------------------------------------------


def check(case: Case) -> None:
    """Decide, and compare the decision with the expectation."""
    demand = case.demand()
    decision = decide(case.snapshot(demand))
    expect = case.expect
    if expect.no_more_than is None:
        assert expect.placed == "all" or _placed(decision) == _nonzero(expect.placed)
        assert decision.launched() == _nonzero(expect.launches)
    else:
        launched = decision.launched()
        assert sum(launched.values()) <= sum(expect.no_more_than.values()), launched
    _check_unmet(demand, decision, expect)
    _check_deferred(decision, expect)
    assert {item.owner: "met" if item.met else item.code for item in decision.standing} == expect.standing
    _check_details(decision, expect)


def _placed(decision: Decision) -> Counts:
    counts: Counter[str] = Counter()
    for placed in decision.placed:
        counts[placed.group] += placed.span.entries
    return dict(counts)


def _nonzero(counts: Counts) -> Counts:
    return {name: count for name, count in counts.items() if count}


def _check_unmet(demand: Demand, decision: Decision, expect: Expectation) -> None:
    found: dict[tuple[str, Code], tuple[int, str, dict[str, Code]]] = {}
    for unmet in decision.unmet:
        entries = [(span.run, position) for span in unmet.spans for position in range(span.first, span.first + span.entries)]
        names = Counter(demand.span_task_ids(run, position, 1)[0].rsplit("/", 1)[0] for run, position in entries)
        for name, count in names.items():
            assert (name, unmet.code) not in found, f"{name} is unmet twice with one code; give the tasks different ids"
            found[name, unmet.code] = (count, unmet.message, unmet.groups)
    messages = {key: (count, message) for key, (count, message, _) in found.items()}
    wanted = {(item.tasks, item.code): item.entries for item in expect.unmet}
    assert {key: count for key, (count, _) in messages.items()} == wanted, messages
    for item in expect.unmet:
        _, message, groups = found[item.tasks, item.code]
        assert [words for words in item.says if words not in message] == [], message
        assert [words for words in item.never_says if words in message] == [], message
        assert len(message) <= item.longest, message
        assert item.groups is None or groups == item.groups
    placed = sum(_placed(decision).values())
    assert placed + sum(unmet.entries for unmet in decision.unmet) == demand.workload.entries


def _check_deferred(decision: Decision, expect: Expectation) -> None:
    found = {(held.group, held.limit): held for held in decision.deferred}
    assert {key: held.slices for key, held in found.items()} == {(d.group, d.limit): d.slices for d in expect.deferred}
    for item in expect.deferred:
        message = found[item.group, item.limit].message
        assert [words for words in item.says if words not in message] == [], message


def _check_details(decision: Decision, expect: Expectation) -> None:
    groups = {group.name: group for group in decision.groups}
    if expect.tiers is not None:
        assert _tiers(decision) == expect.tiers
    if expect.required is not None:
        assert _nonzero({name: group.required for name, group in groups.items()}) == _nonzero(expect.required)
    if expect.causes is not None:
        assert _causes(decision) == expect.causes
    assert expect.desired in (None, decision.desired)
    for field in ("target", "availability", "pressure"):
        wanted: dict[str, object] | None = getattr(expect, field)
        if wanted is not None:
            assert {name: getattr(groups[name], field) for name in wanted} == wanted
    if expect.outcomes is not None:
        assert {name: groups[name].outcome for name in expect.outcomes} == expect.outcomes
    for name, words in (expect.why or {}).items():
        assert words in groups[name].why
    if expect.pools is not None:
        assert {pool.name: _figures(pool) for pool in decision.pools} == expect.pools
    if expect.cost_per_hour is not None:
        assert decision.cost_per_hour == expect.cost_per_hour
    if expect.changes_in is not None:
        moment = decision.next_change_at
        assert ("never" if moment is None else (moment - NOW).total_seconds()) == expect.changes_in
    _check_given_back(decision, expect)


def _check_given_back(decision: Decision, expect: Expectation) -> None:
    causes = {drain.slice_id: drain.cause for drain in decision.drains}
    if expect.drains is not None:
        assert (causes if isinstance(expect.drains, dict) else tuple(causes)) == expect.drains
    if expect.replaced is not None:
        assert tuple(launch.replaces for launch in decision.launches if launch.replaces) == expect.replaced
    if expect.withheld is not None:
        assert {each.slice_id: each.code for each in decision.withheld} == expect.withheld
    if expect.cancelled is not None:
        assert decision.cancelled_drains == expect.cancelled
    if expect.unneeded is not None:
        assert decision.unneeded == expect.unneeded


def _tiers(decision: Decision) -> dict[str, dict[Tier, int]]:
    found: dict[str, dict[Tier, int]] = {}
    for placed in decision.placed:
        tiers = found.setdefault(placed.group, {})
        tiers[placed.tier] = tiers.get(placed.tier, 0) + placed.span.entries
    return found


def _causes(decision: Decision) -> dict[Cause, int]:
    counts: Counter[Cause] = Counter()
    for launch in decision.launches:
        counts[launch.cause] += launch.slices
    return dict(counts)


def _figures(pool: PoolDecision) -> ExpectedPool:
    return ExpectedPool(charged=pool.charged, launching=pool.launching, pressure=pool.pressure)


# --- files --------------------------------------------------------------------------------------------------------


class CaseFile(Value):
    """A file of cases. `config` and `group` are defaults for every case and every group."""

    about: str
    config: dict[str, Any] = Field(default_factory=dict)
    group: dict[str, Any] = Field(default_factory=dict)
    cases: tuple[dict[str, Any], ...]

    def parsed(self) -> list[Case]:
        """The cases, with the file's defaults filled in."""
        return [Case.model_validate(case | {"config": self._config(case.get("config", {}))}) for case in self.cases]

    def _config(self, given: dict[str, Any]) -> dict[str, Any]:
        config = {"cluster": "scenario"} | self.config | given
        return config | {"groups": [self.group | group for group in config.get("groups", ())]}


def load_cases(path: Path) -> list[Case]:
    """The cases of a file. Duplicate ids and duplicate keys are errors."""
    cases = CaseFile.model_validate(read_document(path).data).parsed()
    repeated = [i for i, count in Counter(case.id for case in cases).items() if count > 1 or not i]
    assert not repeated, f"{path.name}: case ids must be unique and not empty: {repeated}"
    return cases
