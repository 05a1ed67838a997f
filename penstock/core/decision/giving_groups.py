"""Groups that may give busy slices away: none that is short of slices, launches any, or would fall below its floors."""

from collections import Counter
from collections.abc import Collection, Iterator
from datetime import datetime
from itertools import chain

from penstock.core.decision.floors import StandingResult, watermark_target
from penstock.core.decision.plan import Plan
from penstock.core.decision.protections import held_after_stockout
from penstock.model.elasticity import Consolidation
from penstock.model.runs import FaultCode, Run
from penstock.model.shape import Shape


class GivingGroups:
    """How many more slices with work on them each group may give away, with the saving of each."""

    def __init__(self, plan: Plan, standing: StandingResult, settings: Consolidation, leaving: Collection[str]) -> None:
        """`leaving` are the ids of slices that go, or wait to be replaced."""
        self.moments: list[datetime] = []
        """When time alone lets a group give slices away."""
        self._plan, self._standing, self._settings = plan, standing, settings
        gone, number = frozenset(leaving), plan.fleet.number
        self._gone = Counter(number[p.group] for p in plan.fleet.snapshot.slices if p.id in gone and p.group in number)
        self._given: Counter[int] = Counter()
        short = self._short_groups()
        self._open = [not short >> g & 1 and self._is_open(g) for g in range(len(plan.fleet.groups))]
        self._may_give = [self._has_spare(g) for g in range(len(plan.fleet.groups))]

    def saving(self, g: int) -> float | None:
        """The money per hour that a slice of the group saves; None if that is not known, or too little."""
        price = self._plan.fleet.groups[g].price_per_hour
        return None if not price or price < self._settings.least_saving_per_hour else price

    def may_give(self, g: int) -> bool:
        """Whether the group has enough slices without one more of those that work runs on."""
        return self._may_give[g]

    def give(self, g: int) -> None:
        """Count a slice that the group gives away."""
        self._given[g] += 1
        self._may_give[g] = self._has_spare(g)

    def _has_spare(self, g: int) -> bool:
        counts, given = self._plan.fleet.counts[g], self._given[g] + 1
        return self._open[g] and counts.ready + counts.in_flight - self._gone[g] - given >= self._target(g, given)

    def _target(self, g: int, given: int) -> int:
        """What the group should have once so many of its busy slices are gone."""
        plan, group = self._plan, self._plan.fleet.groups[g]
        need = plan.fleet.counts[g].busy + plan.required[g] - given
        floors = max(
            group.min_slices, self._standing.slices[g], watermark_target(need, group.watermark), need + group.warm_slices
        )
        return min(group.max_slices, floors)

    def _is_open(self, g: int) -> bool:
        """Whether the group saves money, launches nothing, and is not hard to get slices of."""
        plan = self._plan
        if self.saving(g) is None or plan.opened[g] or g in plan.wanted:
            return False
        held = held_after_stockout(plan.fleet.snapshot, plan.fleet.groups[g])
        self.moments += [] if held is None else [held]
        return held is None

    def _short_groups(self) -> int:
        """Groups that could take what is unmet or not known to be met, as bits; all groups if demand is lost."""
        plan, snapshot = self._plan, self._plan.fleet.snapshot
        if self._is_demand_lost():
            return (1 << len(plan.fleet.groups)) - 1
        bits = 0
        shapes = {run.shape for run in self._waiting_runs() if not self._has_lapsed(run.source)}
        for shape in chain((snapshot.workload.shapes[s] for s in sorted(shapes)), self._refused()):
            bits |= plan.fleet.matcher.candidates(shape).bits
        return bits

    def _waiting_runs(self) -> Iterator[Run]:
        plan, runs = self._plan, self._plan.fleet.snapshot.workload.runs
        unplaced = chain(plan.unplaced, plan.held_unplaced)
        yield from (runs[number] for number in {number for number, _, _ in unplaced} | plan.untried)
        yield from (run for run in runs if run.fault is not None and run.fault.code is FaultCode.NO_CAPACITY)

    def _refused(self) -> Iterator[Shape]:
        """The items of standing requests that are refused, or that slices which are not known yet may meet."""
        snapshot = self._plan.fleet.snapshot
        refused = {outcome.owner for outcome in self._standing.outcomes if not outcome.met}
        requests = (request for request in snapshot.standing if request.owner in refused)
        return (item.alone() for request in chain(requests, snapshot.standing_in_doubt) for item in request.wants)

    def _is_demand_lost(self) -> bool:
        """Whether demand of a source whose lease has not lapsed must be sent again: what it needs is not known."""
        lost = [name for name, terms in self._plan.fleet.snapshot.sources.items() if terms.resync is not None]
        left = [name for name in lost if not self._has_lapsed(name)]
        ends = (self._plan.fleet.snapshot.sources[name].lease_ends for name in left)
        self.moments += [end for end in ends if end is not None]
        return bool(left)

    def _has_lapsed(self, source: str) -> bool:
        """Whether the lease of a source of demand has lapsed: nothing is kept for it."""
        terms = self._plan.fleet.snapshot.sources.get(source)
        return terms is not None and terms.lease_ends is not None and terms.lease_ends <= self._plan.fleet.snapshot.now
