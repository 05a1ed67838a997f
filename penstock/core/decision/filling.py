"""Placements `packing` and `cost`: largest entries first, each slice filled before the next one is bought.

Both fill existing slices host by host, then buy: every group's slice is filled on trial with the entries that are left, the
slice with the best score is bought, and so on. Only the score differs. Existing, in-flight and bought slices are filled by
the same rules, so once a plan is carried out, the next evaluation fills its slices in the same way and buys nothing.
"""

from collections import deque
from collections.abc import Iterator

from penstock.core.decision.cursors import ShapeCursor
from penstock.core.decision.fleet import HostBin
from penstock.core.decision.gangs import place_gangs
from penstock.core.decision.plan import Plan
from penstock.core.decision.priority import HostsByRef, apart_hosts
from penstock.core.decision.strategies import Strategy, Trial
from penstock.model.decision import Cause, Tier
from penstock.model.runs import Run

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


def place_by_filling(plan: Plan, runs: tuple[Run, ...], hosts: HostsByRef, strategy: Strategy) -> None:
    """Place gangs, then single tasks, largest first; buy by the strategy's score."""
    queues = [_Queue() for _ in strategy.cursors]
    for number, run in enumerate(runs):
        if run.fault is None:
            queues[run.shape].add(number, 0, run.entries)
    waiting = sorted((s for s, queue in enumerate(queues) if queue.count), key=strategy.largest_first)
    passes = {s: strategy.gang_passes(s) for s in waiting if strategy.cursors[s].gang is not None}
    for s, (first, *_) in passes.items():
        queues[s] = _place_gangs(plan, first, runs, queues[s], hosts)
    late = [(s, cursor) for s, (_, *further) in passes.items() if queues[s].count for cursor in further]
    _Filling(plan, queues, [s for s in waiting if s not in passes], strategy, keep_bins=bool(late)).place()
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
    """Single tasks by shape, and the shapes that each group can take."""

    def __init__(self, plan: Plan, queues: list[_Queue], singles: list[int], strategy: Strategy, *, keep_bins: bool) -> None:
        """`keep_bins` if gangs will be placed on the bought slices later."""
        self.plan = plan
        self.keep_bins = keep_bins
        self.queues = queues
        self.singles = singles
        self.strategy = strategy
        self.cursors = strategy.cursors
        groups = range(len(plan.fleet.groups))
        self.by_group = [[s for s in singles if self.cursors[s].candidates.mask[g]] for g in groups]

    def place(self) -> None:
        """Fill existing slices, then buy until no entry is left or no group can add a slice that takes one."""
        groups = self.plan.fleet.groups
        plain_first = sorted(range(len(groups)), key=lambda g: (groups[g].accelerated, g))
        for host in (host for g in plain_first for slice_bin in self.plan.ready[g] for host in slice_bin.hosts):
            self._fill(host, Tier.READY)
        for host in self.plan.in_flight_hosts:
            self._fill(host, Tier.IN_FLIGHT)
        self._buy()

    def _fill(self, host: HostBin, tier: Tier) -> None:
        g = host.owner.group
        for s in self.by_group[g]:
            if host.closed:
                return
            left = self.queues[s].count
            tasks = self.cursors[s].tasks_in(host, left) if left else 0
            if tasks:
                self.plan.take(host, self.cursors[s], tasks)
                self._assign(s, tasks, g, tier, opened=host.owner.opened or tier is Tier.NEW)

    def _assign(self, s: int, tasks: int, g: int, tier: Tier, *, opened: bool) -> None:
        for run, first, count in self.queues[s].take(tasks):
            self.plan.assign(run, first, count, g, tier, opened=opened)

    def _buy(self) -> None:
        trials: dict[int, Trial] = {}
        while any(self.queues[s].count for s in self.singles):
            self._refresh(trials)
            if not trials:
                return
            best = max(trials.values(), key=lambda trial: (trial.score, -trial.group))
            self._purchase(best, self._repeats(best, trials))

    def _refresh(self, trials: dict[int, Trial]) -> None:
        """Repeat the trials whose result the last purchase may have changed."""
        for g, shapes in enumerate(self.by_group):
            if g in trials and self.plan.headroom.of(g) and self._still_holds(trials[g]):
                continue
            trials.pop(g, None)
            trial = self._trial(g) if shapes and self.plan.headroom.of(g) else None
            if trial is not None:
                trials[g] = trial

    def _still_holds(self, trial: Trial) -> bool:
        queues = self.queues
        return all(queues[s].count >= k for s, k in trial.tasks.items()) and all(
            queues[s].count == n for s, n in trial.limited.items()
        )

    def _repeats(self, best: Trial, trials: dict[int, Trial]) -> int:
        """How many equal slices would be bought in a row: until some trial runs out of entries."""
        more = self.plan.headroom.of(best.group) - 1
        for trial in trials.values():
            for s, each in best.tasks.items():
                spare = 0 if s in trial.limited else self.queues[s].count - trial.tasks.get(s, 0)
                more = min(more, spare // each)
        return 1 + more

    def _trial(self, g: int) -> Trial | None:
        """One slice of the group, filled with the entries that are left."""
        tasks: dict[int, int] = {}
        for host in self.plan.fleet.new_bin(g).hosts:
            if not self._fill_on_trial(host, tasks):
                break
        limited = {s: count for s, count in tasks.items() if count == self.queues[s].count}
        return Trial(g, tasks, limited, self.strategy.score(g, tasks)) if tasks else None

    def _fill_on_trial(self, host: HostBin, tasks: dict[int, int]) -> bool:
        """Add the tasks that fit on the host to `tasks`, those of the slice; returns whether any fit."""
        filled = False
        for s in self.by_group[host.owner.group]:
            left = self.queues[s].count - tasks.get(s, 0)
            taken = self.cursors[s].tasks_in(host, left) if left else 0
            if taken:
                host.put(self.cursors[s].need, taken, exclusive=self.cursors[s].exclusive)
                tasks[s] = tasks.get(s, 0) + taken
                filled = True
        return filled

    def _purchase(self, best: Trial, times: int) -> None:
        g = best.group
        self.plan.charge(((g, 1),), times, Cause.DEMAND)
        if not self.keep_bins:
            self.plan.required[g] += times
            for s, tasks in best.tasks.items():
                self._assign(s, tasks * times, g, Tier.NEW, opened=True)
            return
        bins = [self.plan.fleet.new_bin(g) for _ in range(times)]
        for host in (host for slice_bin in bins for host in slice_bin.hosts):
            self._fill(host, Tier.NEW)
        self.plan.add_in_flight(bins)
