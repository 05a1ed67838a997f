"""Placements `packing` and `cost`: largest entries first, each slice filled before the next one is bought.

Both fill existing slices host by host, then buy: every group's slice is filled on trial with the entries that are left, the
slice with the best score is bought, and so on. Only the score differs. Existing, in-flight and bought slices are filled by
the same rules, so once a plan is carried out, the next evaluation fills its slices in the same way and buys nothing.
"""

from collections import deque
from collections.abc import Iterator

from penstock.core.decision.bins import HostBin, is_unreported
from penstock.core.decision.cursors import ShapeCursor
from penstock.core.decision.families import Family, families_of
from penstock.core.decision.first_fit import NONE, FirstFit
from penstock.core.decision.gangs import place_gangs
from penstock.core.decision.plan import Plan
from penstock.core.decision.priority import HostsByRef, apart_hosts
from penstock.core.decision.resources import holds_up_to
from penstock.core.decision.singles import place_on_slices_to_come
from penstock.core.decision.strategies import Strategy, Trial
from penstock.model.decision import Cause, Tier
from penstock.model.runs import Run

EFFORT = 150_000
"""Searches for the next task of a slice on trial that one plan may make, about a second of CPU time. Beyond it a trial is
repeated only once its group is the best; beyond twice as many, the group that is the best then is bought without another look."""

TRIED, FAMILY_STEPS = 10, 4
"""Steps of trying one shape on a slice, and of comparing one family."""

Entries = tuple[int, int, int]
"""Consecutive entries of one run: run, first, count."""


class _Queue:
    """Unplaced entries of one shape, in order of arrival."""

    __slots__ = ("count", "spans")

    def __init__(self) -> None:
        self.spans: deque[Entries] = deque()
        self.count = 0

    def add(self, run: int, first: int, count: int) -> None:
        self.spans.append((run, first, count))
        self.count += count

    def take(self, entries: int) -> Iterator[Entries]:
        """Remove the first entries of the queue."""
        self.count -= entries
        while entries:
            run, first, count = self.spans.popleft()
            if count > entries:
                self.spans.appendleft((run, first + entries, count - entries))
            taken = min(entries, count)
            entries -= taken
            yield run, first, taken


def place_by_filling(
    plan: Plan, runs: tuple[Run, ...], hosts: HostsByRef, strategy: Strategy, *, keep_bins: bool = False
) -> None:
    """Place gangs, then single tasks, largest first; buy by the strategy's score.

    `keep_bins` if further entries may be placed on the bought slices.
    """
    queues = [_Queue() for _ in strategy.cursors]
    for number, run in enumerate(runs):
        if run.fault is None:
            queues[run.shape].add(number, 0, run.entries)
    waiting = sorted((s for s, queue in enumerate(queues) if queue.count), key=strategy.largest_first)
    passes = {s: strategy.gang_passes(s) for s in waiting if strategy.cursors[s].gang is not None}
    for s, (first, *_) in passes.items():
        queues[s] = _place_gangs(plan, first, runs, queues[s], hosts)
    late = [(s, cursor) for s, (_, *further) in passes.items() if queues[s].count for cursor in further]
    _Filling(plan, queues, [s for s in waiting if s not in passes], strategy, keep_bins=keep_bins or bool(late)).place()
    for s, cursor in late:
        queues[s] = _place_gangs(plan, cursor, runs, queues[s], hosts)
    plan.unplaced = sorted(span for queue in queues for span in queue.spans)


def _place_gangs(plan: Plan, cursor: ShapeCursor, runs: tuple[Run, ...], queue: _Queue, hosts: HostsByRef) -> _Queue:
    """Place the gangs of one shape; returns those that stay unplaced."""
    unplaced = _Queue()
    for number, first, count in queue.spans:
        run = runs[number]
        apart = apart_hosts(run.apart, hosts)
        left = place_gangs(plan, cursor, number, first, count, pending=run.pending, apart=apart)
        if left:
            unplaced.add(number, first + count - left, left)
    return unplaced


class _Filling:
    """Single tasks by shape, largest first, and the kinds of slices that can be bought for them."""

    def __init__(self, plan: Plan, queues: list[_Queue], singles: list[int], strategy: Strategy, *, keep_bins: bool) -> None:
        """`keep_bins` if entries will be placed on the bought slices later."""
        self.plan = plan
        self.keep_bins = keep_bins
        self.queues = queues
        self.singles = singles
        self.strategy = strategy
        self.cursors = strategy.cursors
        self.left = sum(queues[s].count for s in singles)
        layout = self.layout = plan.fleet.layout
        cursors = [strategy.cursors[s] for s in singles]
        self.needs = [layout.pack(cursor.need) for cursor in cursors]
        self.effort = plan.fleet.effort
        self.waiting = FirstFit(
            layout, self.effort, ((layout.need(c.need, exclusive=c.exclusive), c.candidates.bits) for c in cursors)
        )
        self.position = {s: p for p, s in enumerate(singles)}
        self._bought_for: set[int] = set()
        """Runs of the entries that were placed since the last purchase began."""

    def place(self) -> None:
        """Fill existing slices, then buy until no entry is left or no group can add a slice that takes one."""
        groups = self.plan.fleet.groups
        plain_first = sorted(range(len(groups)), key=lambda g: (groups[g].accelerated, g))
        bins = [slice_bin for g in plain_first for slice_bin in self.plan.ready[g]]
        bins.sort(key=lambda slice_bin: (groups[slice_bin.group].accelerated, is_unreported(slice_bin)))
        for host in (host for slice_bin in bins for host in slice_bin.hosts):
            self._fill(host, Tier.READY)
        for host in self.plan.in_flight_hosts:
            self._fill(host, Tier.IN_FLIGHT)
        if self.left and self.plan.reclaims:
            self._take_back(plain_first)
        if self.left:
            self._buy()
        if self.left and self.effort.is_short():
            self._buy_first_fit()

    def _fill(self, host: HostBin, tier: Tier) -> None:
        g, p = host.owner.group, -1
        while not host.closed and self.left and not self.effort.is_spent:
            free = (host.cpu, host.memory, host.disk, host.gpu, host.tpu)
            p = self.waiting.first(p + 1, self.layout.room(free, usable_alone=host.usable_alone), 1 << g)
            if p == NONE:
                return
            s = self.singles[p]
            tasks = self.cursors[s].tasks_in(host, self.queues[s].count)
            self.plan.take(host, self.cursors[s], tasks)
            self._assign(s, tasks, g, tier, opened=host.owner.opened or tier is Tier.NEW)

    def _assign(self, s: int, tasks: int, g: int, tier: Tier, *, opened: bool) -> None:
        for run, first, count in self.queues[s].take(tasks):
            self._bought_for.add(run)
            self.plan.assign(run, first, count, g, tier, opened=opened)
        self.left -= tasks
        if not self.queues[s].count:
            self.waiting.remove(self.position[s])

    def _take_back(self, order: list[int]) -> None:
        """Fill draining slices before any is bought: they cost nothing more."""
        for g in order:
            while self.left and self.plan.headroom.back(g):
                slice_bin = self.plan.fleet.new_bin(g)
                for host in slice_bin.hosts:
                    self._fill(host, Tier.NEW)
                if slice_bin.empty:
                    break
                self.plan.charge(((g, 1),), 1, Cause.DEMAND)
                self.plan.add_in_flight([slice_bin])

    def _buy(self) -> None:
        """Buy the best slice, until nothing is left or effort is short."""
        families = families_of(self.plan.fleet, self.strategy, self.singles)
        while self.left and not self.effort.is_short() and (best := self._best(families)) is not None:
            self._purchase(best, self._repeats(best, families))

    def _buy_first_fit(self) -> None:
        """Place what is left as `priority` does, largest first: on the first of the slices bought so that has space."""
        matcher, conserve = self.plan.fleet.matcher, self.strategy.conserve
        self.plan.beyond_effort = True
        for s in (s for s in self.singles if self.queues[s].count):
            cursor = self.cursors[s]
            first = matcher.bits.every if cursor.shape.accelerated or not conserve else matcher.plain
            fresh = ShapeCursor(cursor.shape, matcher.in_two_passes(cursor.candidates, first)[1])
            left = _Queue()
            for run, first_entry, count in self.queues[s].spans:
                unplaced = (
                    count if self.plan.gives_up(run) else place_on_slices_to_come(self.plan, fresh, run, first_entry, count)
                )
                if unplaced:
                    left.add(run, first_entry + count - unplaced, unplaced)
            self.left -= self.queues[s].count - left.count
            self.queues[s] = left

    def _best(self, families: list[Family]) -> Trial | None:
        """The best slice to buy now. Families that cannot add a slice, or whose slice takes nothing, never can again.

        Beyond the budget, a trial that earlier purchases may have changed is repeated only once it is the best.
        """
        while True:
            self.effort.spend(FAMILY_STEPS * len(families))
            careful = self.plan.effort < EFFORT
            for family in families:
                if family.trial is None or (careful and not self._still_holds(family.trial)) or not self._has_headroom(family):
                    self._renew(family)
            families[:] = [family for family in families if family.trial is not None]
            best = max((f.trial for f in families if f.trial), key=lambda trial: (trial.score, -trial.group), default=None)
            self.plan.beyond_effort = not careful
            if best is None or careful or self._still_holds(best):
                return best
            family = next(family for family in families if family.trial is best)
            self._renew(family)
            if self.plan.effort >= 2 * EFFORT and family.trial is not None:
                return family.trial

    def _has_headroom(self, family: Family) -> bool:
        return family.trial is not None and self.plan.headroom.of(family.trial.group) > 0

    def _renew(self, family: Family) -> None:
        """Fill one slice of the family with the entries that are left; choose the group of the family with the best score."""
        of, best = self.plan.headroom.of, None
        group = family.first_with_headroom(of)
        tasks = {} if group is None else self._filled(group)
        if tasks:
            limited = {s: count for s, count in tasks.items() if count == self.queues[s].count}
            for g in family.contenders(of):
                trial = Trial(g, tasks, limited, self.strategy.score(g, tasks))
                if best is not None and trial.score[:-1] < best.score[:-1]:
                    break  # of a higher price, as are all that follow
                if best is None or (trial.score, -g) > (best.score, -best.group):
                    best = trial
        family.trial = best

    def _still_holds(self, trial: Trial) -> bool:
        queues = self.queues
        return all(queues[s].count >= k for s, k in trial.tasks.items()) and all(
            queues[s].count == n for s, n in trial.limited.items()
        )

    def _repeats(self, best: Trial, families: list[Family]) -> int:
        """How many equal slices would be bought in a row: until some trial runs out of entries."""
        more = self.plan.headroom.of(best.group) - 1
        if best.limited:
            return 1
        trials = [best] if self.plan.beyond_effort else [family.trial for family in families if family.trial]
        for trial in trials:
            for s, each in best.tasks.items():
                spare = 0 if s in trial.limited else self.queues[s].count - trial.tasks.get(s, 0)
                more = min(more, max(0, spare) // each)
        return 1 + more

    def _filled(self, g: int) -> dict[int, int]:
        """One slice of the group, filled with the entries that are left: tasks per shape."""
        group, layout = self.plan.fleet.groups[g], self.layout
        room = layout.room(group.host.vector, usable_alone=True)
        tasks: dict[int, int] = {}
        used_up: dict[int, int] = {}
        for _ in range(group.hosts_per_slice):
            if not self._fill_on_trial(g, room, alone=group.hosts_alone, tasks=tasks, used_up=used_up):
                break
        return tasks

    def _fill_on_trial(self, g: int, room: int, *, alone: bool, tasks: dict[int, int], used_up: dict[int, int]) -> bool:
        """Add the tasks that fit on a host to `tasks`, those of the slice; returns whether any fit.

        `used_up` leads from the position of a shape of which the slice takes every entry to a later position.
        """
        layout, waiting, bit, filled, p = self.layout, self.waiting, 1 << g, False, -1
        while (p := waiting.first(p + 1, room, bit)) != NONE:
            self.plan.effort += 1
            self.effort.spend(TRIED)
            if p in used_up:
                p = _end(used_up, p) - 1
                continue
            s = self.singles[p]
            cursor, left = self.cursors[s], self.queues[s].count - tasks.get(s, 0)
            exclusive = cursor.exclusive and alone
            taken = 1 if left == 1 or exclusive else holds_up_to(layout.unpack(room), cursor.need, left)
            tasks[s] = tasks.get(s, 0) + taken
            filled = True
            if taken == left:
                used_up[p] = p + 1
            if exclusive:
                return True
            room -= taken * self.needs[p]
            if alone:
                room &= ~layout.whole
        self.plan.effort += 1
        return filled

    def _purchase(self, best: Trial, times: int) -> None:
        g = best.group
        self._bought_for.clear()
        self._fill_bought(best, times)
        self.plan.charge(((g, 1),), times, Cause.DEMAND, self.plan.source_of(*self._bought_for))

    def _fill_bought(self, best: Trial, times: int) -> None:
        g = best.group
        if not self.keep_bins:
            self.plan.required[g] += times
            for s, tasks in best.tasks.items():
                self._assign(s, tasks * times, g, Tier.NEW, opened=True)
            return
        bins = [self.plan.fleet.new_bin(g) for _ in range(times)]
        for host in (host for slice_bin in bins for host in slice_bin.hosts):
            self._fill(host, Tier.NEW)
        self.plan.add_in_flight(bins)


def _end(used_up: dict[int, int], p: int) -> int:
    """The first position after a row of used up ones; shortens the way for the next search."""
    end = p
    while end in used_up:
        end = used_up[end]
    while p != end:
        used_up[p], p = end, used_up[p]
    return end
