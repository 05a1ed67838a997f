"""Remedies: find one change to the configuration that meets unmet demand, and check it by deciding again."""

from collections import Counter
from collections.abc import Iterator, Sequence

from penstock.contract.answers import Remedy, Setting
from penstock.core.decision.decide import decide
from penstock.core.decision.fleet import Fleet
from penstock.model.cluster import ClusterConfig, Placement, Pool, ScaleGroup
from penstock.model.decision import Code, Decision, Unmet
from penstock.model.snapshot import Snapshot

TRIED_GROUPS = 3
"""Candidate groups whose maximum is tried: the most preferred ones."""
LARGEST = 10
"""Unmet shapes for which remedies are searched: the largest ones."""
EFFORT = 200_000
"""Budget of the search, in units of `_cost_of`: a few seconds, however large the demand is."""
LEAST_TRIED = 2
"""Decisions that the full budget always allows: one to find the value, one to check it."""
BRIEF_EFFORT = 50_000
"""Budget of a query that blocks a workflow: a fraction of a second. Larger demand gets no remedy there."""
PLENTY = 1_000_000
"""Added to a setting to see how much of it the demand uses."""


def remedies_for(snapshot: Snapshot, decision: Decision, *, effort: int = EFFORT) -> dict[int, Remedy]:
    """Remedies for the largest unmet shapes, keyed by position in `decision.unmet`."""
    trials = _Trials(snapshot, decision, effort)
    sizes = sorted(range(len(decision.unmet)), key=lambda i: (-decision.unmet[i].entries, i))
    found = {i: trials.remedy_for(decision.unmet[i]) for i in sizes[:LARGEST]}
    return {i: remedy for i, remedy in found.items() if remedy is not None}


def remedy_for(snapshot: Snapshot, decision: Decision, unmet: Unmet, *, effort: int = EFFORT) -> Remedy | None:
    """The first single change that meets these entries and makes no others unmet, preferred groups first."""
    return _Trials(snapshot, decision, effort).remedy_for(unmet)


def _settings(snapshot: Snapshot, unmet: Unmet) -> Iterator[tuple[Setting, int]]:
    """The settings that keep candidates from adding slices, with their values."""
    config = snapshot.config
    fleet = Fleet(snapshot)
    order = [fleet.groups[g] for g in fleet.matcher.candidates(snapshot.workload.shapes[unmet.shape]).order]
    for group in [group for group in order if unmet.groups.get(group.name) is Code.AT_MAX][:TRIED_GROUPS]:
        yield Setting("group", group.name, "max_slices"), group.max_slices
    if config.max_slices is not None and Code.CLUSTER_AT_MAX in unmet.groups.values():
        yield Setting("cluster", "", "max_slices"), config.max_slices
    exhausted = [group.pool for group in order if unmet.groups.get(group.name) is Code.POOL_EXHAUSTED]
    for pool in config.pools:
        if pool.name in exhausted:
            yield Setting("pool", pool.name, "chips"), pool.chips


class _Trials:
    """Decisions with one setting changed, each made once, as many as the budget allows."""

    def __init__(self, snapshot: Snapshot, decision: Decision, effort: int) -> None:
        self._snapshot = snapshot
        self._unmet = _unmet_entries(decision)
        self._effort = effort
        self._least_tried = LEAST_TRIED if effort >= EFFORT else 0
        self._cost = _cost_of(snapshot)
        self._made: dict[tuple[Setting, int], Decision] = {}

    def remedy_for(self, unmet: Unmet) -> Remedy | None:
        if unmet.code is not Code.NO_CAPACITY:
            return None
        for setting, before in _settings(self._snapshot, unmet):
            after = self._least(setting, before, unmet)
            if after is not None:
                return Remedy(setting=setting, before=before, after=after)
        return None

    def _least(self, setting: Setting, before: int, unmet: Unmet) -> int | None:
        """The least value with which the demand is met: an upper bound from a plentiful setting, then bisection."""
        plenty = self._decide(setting, before + PLENTY)
        if plenty is None or not self._helps(plenty, unmet):
            return None
        low, high = before + 1, _amount(self._snapshot, plenty, setting)
        if high < low or not self._meets(setting, high, unmet):
            return None
        while low < high:
            middle = (low + high) // 2
            if self._meets(setting, middle, unmet):
                high = middle
            else:
                low = middle + 1
        return high

    def _meets(self, setting: Setting, value: int, unmet: Unmet) -> bool:
        decision = self._decide(setting, value)
        return decision is not None and self._helps(decision, unmet)

    def _helps(self, decision: Decision, unmet: Unmet) -> bool:
        """Whether the shape is met, and no other shape has more unmet entries than before."""
        left = _unmet_entries(decision)
        return not left[unmet.shape] and all(count <= self._unmet[shape] for shape, count in left.items())

    def _decide(self, setting: Setting, value: int) -> Decision | None:
        """The decision with that value, or None once the budget is spent."""
        if (setting, value) not in self._made:
            if self._effort < self._cost and len(self._made) >= self._least_tried:
                return None
            self._effort -= self._cost
            config = with_setting(self._snapshot.config, setting, value)
            self._made[setting, value] = decide(self._snapshot.model_copy(update={"config": config}))
        return self._made[setting, value]


def _cost_of(snapshot: Snapshot) -> int:
    """Rough cost of one decision: the entries and slices; for packing and cost also every shape on every group."""
    work = 1 + len(snapshot.workload.runs) + len(snapshot.slices)
    if snapshot.config.placement is Placement.PRIORITY:
        return work
    return 2 * work + len(snapshot.workload.shapes) * len(snapshot.config.groups)


def _unmet_entries(decision: Decision) -> Counter[int]:
    """Unmet entries of each shape, without faulty ones."""
    counts: Counter[int] = Counter()
    for item in decision.unmet:
        counts[item.shape] += item.entries if item.groups else 0
    return counts


def _amount(snapshot: Snapshot, decision: Decision, setting: Setting) -> int:
    """How much of a setting a decision uses."""
    planned = {group.name: group.launch + group.deferred for group in decision.groups}
    if setting.kind == "cluster":
        return len(snapshot.slices) + sum(planned.values())
    if setting.kind == "pool":
        chips = {group.name: group.chips_per_slice for group in snapshot.config.groups if group.pool == setting.name}
        planned_chips = sum(planned[name] * each for name, each in chips.items())
        return next(pool.system + pool.charged + planned_chips for pool in decision.pools if pool.name == setting.name)
    return sum(piece.group == setting.name for piece in snapshot.slices) + planned[setting.name]


def with_setting(config: ClusterConfig, setting: Setting, value: int) -> ClusterConfig:
    """The configuration with one setting changed."""
    kind, name, field = setting
    if kind == "cluster":
        return config.model_copy(update={field: value})
    parts: Sequence[ScaleGroup | Pool] = config.groups if kind == "group" else config.pools
    changed = tuple(part.model_copy(update={field: value}) if part.name == name else part for part in parts)
    return config.model_copy(update={f"{kind}s": changed})
