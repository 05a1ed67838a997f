"""Placements `packing` and `cost`: largest entries first, each slice filled to the brim before the next is bought.

Both fill what there is, host by host, then buy: every group's slice is filled on trial with what is left, the best one by
score is bought, again and again. They differ in the score alone. Filling is the same for slices that exist, that are on
their way and that are bought, so a plan that was carried out fills its own slices again in the same way.
"""

from penstock.core.decision.cursors import ShapeCursor
from penstock.core.decision.fleet import HostBin
from penstock.core.decision.gangs import place_gangs
from penstock.core.decision.plan import Plan
from penstock.core.decision.priority import HostsByRef, apart_hosts
from penstock.core.decision.strategies import Strategy, Trial
from penstock.model.decision import Cause, Tier
from penstock.model.runs import Run

Queue = list[tuple[int, int, int]]
"""Entries of one shape that are still to be placed: run, first, count, in order of arrival."""


def place_by_filling(plan: Plan, runs: tuple[Run, ...], hosts: HostsByRef, strategy: Strategy) -> None:
    """Place gangs, then single tasks, largest first; buy by the strategy's score."""
    queues: list[Queue] = [[] for _ in strategy.wants]
    for number, run in enumerate(runs):
        if run.fault is None:
            queues[run.shape].append((number, 0, run.entries))
    waiting = sorted((w for w, queue in enumerate(queues) if queue), key=strategy.largest_first)
    gangs = [w for w in waiting if strategy.wants[w].gang is not None]
    left_over = []
    for w in gangs:
        first, last = strategy.gang_passes(w)
        queues[w] = _place_gangs(plan, first, runs, queues[w], hosts)
        if queues[w] and last is not None:
            left_over.append((w, last))
    singles = [w for w in waiting if strategy.wants[w].gang is None]
    _Filling(plan, queues, singles, strategy, keep_rooms=bool(left_over)).place()
    for w, last in left_over:
        queues[w] = _place_gangs(plan, last, runs, queues[w], hosts)
    plan.unplaced = sorted(span for queue in queues for span in queue)


def _place_gangs(plan: Plan, want: ShapeCursor, runs: tuple[Run, ...], queue: Queue, hosts: HostsByRef) -> Queue:
    """Place the gangs of one shape; returns those that found no place."""
    unplaced: Queue = []
    for number, first, count in queue:
        run = runs[number]
        apart = apart_hosts(run.apart, hosts)
        left = place_gangs(plan, want, number, first, count, pending=run.pending, apart=apart)
        if left:
            unplaced.append((number, first + count - left, left))
    return unplaced


class _Filling:
    """Single tasks, by want: how many are left, and on which groups each may go."""

    def __init__(self, plan: Plan, queues: list[Queue], singles: list[int], strategy: Strategy, *, keep_rooms: bool) -> None:
        """`keep_rooms` if someone will look for room on the slices that are bought."""
        self.plan = plan
        self.keep_rooms = keep_rooms
        self.queues = queues
        self.singles = singles
        self.strategy = strategy
        self.wants = strategy.wants
        self.left = [sum(count for _, _, count in queue) for queue in queues]
        groups = range(len(plan.fleet.groups))
        self.by_group = [[w for w in singles if self.wants[w].candidates.mask[g]] for g in groups]

    def place(self) -> None:
        """Fill what there is, then buy until nothing is left or nothing may be bought."""
        groups = self.plan.fleet.groups
        plain_first = sorted(range(len(groups)), key=lambda g: (groups[g].accelerated, g))
        for host in (host for g in plain_first for room in self.plan.ready[g] for host in room.hosts):
            self._fill(host, Tier.READY)
        for host in self.plan.flight:
            self._fill(host, Tier.IN_FLIGHT)
        self._buy()

    def _fill(self, host: HostBin, tier: Tier) -> None:
        g = host.owner.group
        for w in self.by_group[g]:
            if host.closed:
                return
            if self.left[w]:
                tasks = self.wants[w].tasks_in(host, self.left[w])
                if tasks:
                    self.plan.take(host, self.wants[w], tasks)
                    self._assign(w, tasks, g, tier, opened=host.owner.opened or tier is Tier.NEW)

    def _assign(self, w: int, tasks: int, g: int, tier: Tier, *, opened: bool) -> None:
        """Entries of one shape are placed in the order they arrived."""
        self.left[w] -= tasks
        queue = self.queues[w]
        while tasks:
            number, first, count = queue[0]
            taken = min(tasks, count)
            self.plan.assign(number, first, taken, g, tier, opened=opened)
            tasks -= taken
            if taken == count:
                queue.pop(0)
            else:
                queue[0] = (number, first + taken, count - taken)

    def _buy(self) -> None:
        trials: dict[int, Trial] = {}
        while any(self.left[w] for w in self.singles):
            self._refresh(trials)
            if not trials:
                return
            best = max(trials.values(), key=lambda trial: (trial.score, -trial.group))
            self._purchase(best, self._repeats(best, trials))

    def _refresh(self, trials: dict[int, Trial]) -> None:
        """Try again where what is left, or what may be added, has changed the outcome."""
        for g, wants in enumerate(self.by_group):
            if wants and self.plan.headroom.of(g):
                if g in trials and self._still_holds(trials[g]):
                    continue
                trial = self._trial(g)
                if trial is not None:
                    trials[g] = trial
                    continue
            trials.pop(g, None)

    def _still_holds(self, trial: Trial) -> bool:
        left = self.left
        return all(left[w] >= k for w, k in trial.tasks.items()) and all(left[w] == n for w, n in trial.limited.items())

    def _repeats(self, best: Trial, trials: dict[int, Trial]) -> int:
        """How many slices in a row would be bought alike: until any trial runs out of entries."""
        more = self.plan.headroom.of(best.group) - 1
        for trial in trials.values():
            for w, each in best.tasks.items():
                spare = 0 if w in trial.limited else self.left[w] - trial.tasks.get(w, 0)
                more = min(more, spare // each)
        return 1 + more

    def _trial(self, g: int) -> Trial | None:
        """One slice of the group, filled with what is left."""
        tasks: dict[int, int] = {}
        limited: dict[int, int] = {}
        for host in self.plan.fleet.new_room(g).hosts:
            before = len(tasks), sum(tasks.values())
            for w in self.by_group[g]:
                remaining = self.left[w] - tasks.get(w, 0)
                taken = self.wants[w].tasks_in(host, remaining) if remaining else 0
                if taken:
                    host.put(self.wants[w].need, taken, exclusive=self.wants[w].exclusive)
                    tasks[w] = tasks.get(w, 0) + taken
                    if taken == remaining:
                        limited[w] = self.left[w]
            if before == (len(tasks), sum(tasks.values())):
                break
        return Trial(g, tasks, limited, self.strategy.score(g, tasks)) if tasks else None

    def _purchase(self, best: Trial, times: int) -> None:
        g = best.group
        self.plan.charge(((g, 1),), times, Cause.DEMAND)
        if not self.keep_rooms:
            self.plan.required[g] += times
            for w, tasks in best.tasks.items():
                self._assign(w, tasks * times, g, Tier.NEW, opened=True)
            return
        rooms = [self.plan.fleet.new_room(g) for _ in range(times)]
        for host in (host for room in rooms for host in room.hosts):
            self._fill(host, Tier.NEW)
        self.plan.add_flight(rooms)
