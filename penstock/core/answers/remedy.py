"""Remedies: find the least single change to the configuration that meets unmet demand, and check it by planning again."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import gcd
from typing import NamedTuple

from penstock.contract.answers import Remedy, Setting
from penstock.core.decision.decide import PlanFigures, plan_figures
from penstock.core.decision.effort import MOST_STEPS, Effort, GivenUp
from penstock.core.decision.match import Matcher, in_rank_order
from penstock.model.cluster import ClusterConfig, Placement, Pool, ScaleGroup
from penstock.model.decision import Code, Decision, Unmet
from penstock.model.demand import Workload
from penstock.model.snapshot import Snapshot
from penstock.wording import counted

LARGEST = 10
"""Unmet shapes for which `plan` searches remedies: the largest ones."""
EFFORT = 5_200_000
"""Steps of one asker: under two seconds at full size."""
BRIEF_EFFORT = 250_000
"""Steps of a query that blocks a workflow: a tenth of a second. Larger demand gets no remedy there."""
PLANS = 5
"""Plans, each cheaper than a decision, that the remedies of one decision may cost together."""
SMALL_EFFORT = 240_000
"""Steps that small decisions get even if that is more than `PLANS` of them: some 60 ms."""
SNAPSHOT_STEPS = 400
"""Steps of beginning any plan."""
RUN_STEPS, SLICE_STEPS = 4, 10
"""Least steps of a plan for each of its runs and slices: a plan that the budget cannot pay for is not begun."""
FEW = 40
"""Plans for values, beside one for each setting, below which the search is brief: it stops at the first setting that helps."""
PLENTY = 1_000_000
"""Added to a setting to see how much of it the demand uses."""


class Asked(NamedTuple):
    """One entry: its run, and its position in the run."""

    run: int
    position: int


class RemedySearch(NamedTuple):
    """The least change that was found, and what the effort did not cover."""

    remedy: Remedy | None = None
    not_tried: str = ""

    @property
    def text(self) -> str:
        """The remedy as an instruction, with what was not tried; empty if there is nothing to say."""
        if self.remedy is None:
            return f"none found; {self.not_tried}" if self.not_tried else ""
        return f"{self.remedy.message} ({self.not_tried})" if self.not_tried else self.remedy.message


def remedies_for(snapshot: Snapshot, decision: Decision, *, effort: int | None = None) -> dict[int, RemedySearch]:
    """Remedies for all entries of each of the largest unmet shapes, keyed by position in `decision.unmet`."""
    trials = _Trials(snapshot, decision, effort)
    sizes = sorted(range(len(decision.unmet)), key=lambda i: (-decision.unmet[i].entries, i))
    return {i: trials.search(decision.unmet[i], None) for i in sizes[:LARGEST]}


def remedy_for(
    snapshot: Snapshot, decision: Decision, unmet: Unmet, *, asked: Asked | None = None, effort: int = EFFORT
) -> RemedySearch:
    """The least single change that meets the asked entry (or all entries) of the shape and makes no others unmet."""
    return _Trials(snapshot, decision, effort).search(unmet, asked)


class _Limit(NamedTuple):
    """A setting that keeps candidates from adding slices, its value, and the larger values at which a plan may differ."""

    setting: Setting
    before: int
    values: range


class _Trials:
    """Plans with one setting changed, each made once, as many as the budget of steps allows."""

    def __init__(self, snapshot: Snapshot, decision: Decision, effort: int | None) -> None:
        """Without an effort: a small multiple of the plan that the decision made."""
        self._snapshot = snapshot
        self._decision = decision
        self._unmet = Counter({item.shape: 0 for item in decision.unmet})
        for item in decision.unmet:
            self._unmet[item.shape] += item.entries if item.groups or item.code is Code.EFFORT_SPENT else 0
        self._left = MOST_STEPS if effort is None else effort
        self._per_plan = 1
        """Steps of the most expensive plan so far."""
        self._made: dict[tuple[Setting, int, Asked | None], PlanFigures] = {}
        if effort is None:
            self._figures(snapshot)
            self._left = max((PLANS - 1) * self._per_plan, SMALL_EFFORT)

    def search(self, unmet: Unmet, asked: Asked | None) -> RemedySearch:
        """Try every setting upward from its next value, because a larger value may leave unmet what a smaller one meets.

        The first value that helps is the least change. Where the effort does not reach that far, the value that plentiful
        slices would use is checked and narrowed down, and what lies between was not tried.
        """
        if unmet.code is not Code.NO_CAPACITY:
            return RemedySearch()
        settings = list(_settings(self._snapshot, unmet))
        limits, ample = self._useful(settings, asked, unmet)
        others = len(settings) - self._measured
        untried = f"{counted(others, 'other setting')} not tried" if others else ""
        most = max((len(limit.values) for limit in limits), default=0)
        reserve = 1 + len(ample.values).bit_length() if ample else 0  # to check and narrow down the value that plenty uses
        for step in range(most):
            for limit in (limit for limit in limits if step < len(limit.values)):
                helps = self._helps(limit.setting, limit.values[step], unmet, asked, reserve=reserve if step else 1)
                if helps is None:
                    found = self._narrowed(ample, step, unmet, asked) or RemedySearch(None, _beyond(limit, step))
                    return found._replace(not_tried="; ".join(filter(None, (found.not_tried, untried))))
                if helps:
                    return RemedySearch(_remedy(limit, step), untried)
        return RemedySearch(None, untried or ("larger values not tried" if ample is not None else ""))

    def _useful(
        self, settings: Sequence[tuple[Setting, int]], asked: Asked | None, unmet: Unmet
    ) -> tuple[list[_Limit], _Limit | None]:
        """The settings of which the demand would use more, and the first that helps if there is plenty of it."""
        limits: list[_Limit] = []
        ample: _Limit | None = None
        upto = self._asked_alone(settings, asked)
        self._measured = 0
        for setting, before in settings:
            if ample is not None and self._is_brief(len(settings) - self._measured):
                break
            figures = self._plan(setting, before + PLENTY, upto=upto, reserve=1 if limits else 0)
            if figures is None:
                break
            self._measured += 1
            limit = _Limit(setting, before, self._values(setting, before, figures))
            if limit.values:
                if upto is None:  # With more than what plenty uses, no plan would differ.
                    self._made[setting, limit.values[-1], None] = figures
                limits.append(limit)
                if ample is None and self._is_met(figures, unmet, asked):
                    ample = limit
        return limits, ample

    def _asked_alone(self, settings: Sequence[tuple[Setting, int]], asked: Asked | None) -> Asked | None:
        """The asked entry, if the effort is too small to measure with the demand that comes after it."""
        if asked is None or not settings or self._snapshot.config.placement is not Placement.PRIORITY:
            return None
        last = self._snapshot.workload.runs[-1]
        if asked == Asked(len(self._snapshot.workload.runs) - 1, last.entries - 1):
            return None
        setting, before = settings[0]
        self._plan(setting, before + PLENTY, upto=asked)
        share = (asked.run + 1) / len(self._snapshot.workload.runs)
        return asked if share < 1 and self._is_brief(len(settings), self._per_plan / share) else None

    def _is_brief(self, settings: int, per_plan: float | None = None) -> bool:
        """Whether the effort is too small to measure so many settings and then try values."""
        return self._left < (settings + FEW) * (self._per_plan if per_plan is None else per_plan)

    def _narrowed(self, limit: _Limit | None, first: int, unmet: Unmet, asked: Asked | None) -> RemedySearch | None:
        """The least value of a bisection between the first that was not tried and the one that plenty uses."""
        if limit is None or first >= len(limit.values):
            return None
        low, high = first, len(limit.values) - 1
        if not self._helps(limit.setting, limit.values[high], unmet, asked):
            return None
        while low < high:
            middle = (low + high) // 2
            helps = self._helps(limit.setting, limit.values[middle], unmet, asked)
            if helps is None:
                break
            low, high = (low, middle) if helps else (middle + 1, high)
        note = f"not all values from {limit.values[first]} to {limit.values[high - 1]} were tried" if high > first else ""
        return RemedySearch(_remedy(limit, high), note)

    def _helps(self, setting: Setting, value: int, unmet: Unmet, asked: Asked | None, *, reserve: int = 0) -> bool | None:
        figures = self._plan(setting, value, reserve=reserve)
        return None if figures is None else self._is_met(figures, unmet, asked)

    def _is_met(self, figures: PlanFigures, unmet: Unmet, asked: Asked | None) -> bool:
        """Whether the entry, or the whole shape, is met, and no shape has more unmet entries than before."""
        left: Counter[int] = Counter()
        for run, _, count in figures.unplaced:
            left[self._snapshot.workload.runs[run].shape] += count
        if any(count > self._unmet[shape] for shape, count in left.items()):
            return False
        if asked is None:
            return not left[unmet.shape]
        spans = (span for span in figures.unplaced if span[0] == asked.run)
        return not any(first <= asked.position < first + count for _, first, count in spans)

    def _plan(self, setting: Setting, value: int, *, upto: Asked | None = None, reserve: int = 0) -> PlanFigures | None:
        """The plan with that value, of the demand up to an entry; None if the budget does not last for it and `reserve` more."""
        key = (setting, value, upto)
        if key not in self._made:
            if reserve and self._left < (reserve + 1) * self._per_plan:
                return None
            changed = self._snapshot.model_copy(update={"config": with_setting(self._snapshot.config, setting, value)})
            if upto is not None:
                changed = changed.model_copy(update={"workload": _up_to(changed.workload, upto)})
            figures = self._figures(changed)
            if figures is None:
                return None
            self._made[key] = figures
        return self._made[key]

    def _figures(self, snapshot: Snapshot) -> PlanFigures | None:
        """The figures of one plan, whose steps are taken from the budget; None if it is spent before the plan is made."""
        least = SNAPSHOT_STEPS + RUN_STEPS * len(snapshot.workload.runs) + SLICE_STEPS * len(snapshot.slices)
        if self._left < least:
            return None
        effort = Effort(stop_at=self._left - SNAPSHOT_STEPS)
        try:
            return plan_figures(snapshot, effort)
        except GivenUp:
            return None
        finally:
            self._per_plan = max(self._per_plan, effort.spent + SNAPSHOT_STEPS)
            self._left = max(0, self._left - effort.spent - SNAPSHOT_STEPS)

    def _values(self, setting: Setting, before: int, figures: PlanFigures) -> range:
        """Values above the present one up to what any compared plan would use, at steps that can make a difference."""
        opened, config = figures.tried, self._snapshot.config
        if setting.kind == "cluster":
            return range(before + 1, len(self._snapshot.slices) + sum(opened.values()) + 1)
        if setting.kind == "group":
            existing = sum(piece.group == setting.name for piece in self._snapshot.slices)
            return range(before + 1, existing + opened[setting.name] + 1)
        chips = {group.name: group.chips_per_slice for group in config.groups if group.pool == setting.name}
        pool = next(pool for pool in self._decision.pools if pool.name == setting.name)
        held, step = pool.system + pool.charged, gcd(*chips.values())
        first = held + step * max(1, (before - held) // step + 1)
        return range(first, held + sum(opened[name] * each for name, each in chips.items()) + 1, step)


def _settings(snapshot: Snapshot, unmet: Unmet) -> Iterator[tuple[Setting, int]]:
    """The settings that keep candidates from adding slices, with their values; those of preferred groups first."""
    config = snapshot.config
    groups = in_rank_order(config.groups)
    order = [groups[g] for g in Matcher(groups).candidates(snapshot.workload.shapes[unmet.shape]).order]
    for group in order:
        if unmet.groups.get(group.name) is Code.AT_MAX:
            yield Setting("group", group.name, "max_slices"), group.max_slices
    if config.max_slices is not None and Code.CLUSTER_AT_MAX in unmet.groups.values():
        yield Setting("cluster", "", "max_slices"), config.max_slices
    exhausted = [group.pool for group in order if unmet.groups.get(group.name) is Code.POOL_EXHAUSTED]
    for pool in config.pools:
        if pool.name in exhausted:
            yield Setting("pool", pool.name, "chips"), pool.chips


def _remedy(limit: _Limit, step: int) -> Remedy:
    return Remedy(setting=limit.setting, before=limit.before, after=limit.values[step])


def _beyond(limit: _Limit, step: int) -> str:
    return f"not all values from {limit.values[step]} of {limit.setting.field} were tried"


def _up_to(workload: Workload, last: Asked) -> Workload:
    """The demand up to an entry, which by priority is placed as if nothing came after it."""
    runs = workload.runs[: last.run + 1]
    final = runs[-1]._replace(entries=last.position + 1)
    return workload.model_copy(update={"runs": (*runs[:-1], final)})


def with_setting(config: ClusterConfig, setting: Setting, value: int) -> ClusterConfig:
    """The configuration with one setting changed."""
    kind, name, field = setting
    if kind == "cluster":
        return config.model_copy(update={field: value})
    parts: Sequence[ScaleGroup | Pool] = config.groups if kind == "group" else config.pools
    changed = tuple(part.model_copy(update={field: value}) if part.name == name else part for part in parts)
    return config.model_copy(update={f"{kind}s": changed})
