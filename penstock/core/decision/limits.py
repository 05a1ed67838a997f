"""Launch limits: which of the opened slices are launched now, and which are deferred."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from math import ceil
from typing import NamedTuple

from penstock.core.decision.fleet import SliceCounts
from penstock.core.decision.floors import SPARES
from penstock.core.decision.plan import Plan, Unit
from penstock.core.decision.prices import cost_of
from penstock.model.cluster import Limits
from penstock.model.decision import Deferred, LaunchRequest
from penstock.model.slices import RecentLaunch

MINUTE = timedelta(minutes=1)
COST = "max_cost_per_hour"


class LaunchSplit(NamedTuple):
    """Units divided into launched and deferred ones, and when deferred ones could be launched."""

    launches: tuple[LaunchRequest, ...]
    deferred: tuple[Deferred, ...]
    retry_at: datetime | None


class _Limit:
    """One limit of one group or of the cluster: how many more units it admits."""

    def __init__(self, name: str, scope: str, value: float, left: int) -> None:
        self.name = name
        self.message = f"{scope} limits {name} to {value:g}"
        self._left = max(0, left)

    def admits(self, unit: Unit) -> int:
        """How many repetitions of the unit are within the limit."""
        return min(unit.times, self._left)

    def take(self, _unit: Unit, times: int) -> None:
        """Count launched repetitions of the unit."""
        self._left -= times


class _CostLimit(_Limit):
    """What the slices of the cluster may cost in an hour: those that exist, those on their way, and those launched now."""

    def __init__(self, plan: Plan, most: float) -> None:
        snapshot = plan.fleet.snapshot
        spent = cost_of(snapshot.slices, snapshot.config)
        super().__init__(COST, "the cluster", most, _exact(most) - _exact(spent))
        self.message = f"the cluster limits its cost per hour to {most:,.2f}, and its slices cost {spent:,.2f} already"
        self._prices = [_exact(group.price) for group in plan.fleet.groups]

    def admits(self, unit: Unit) -> int:
        price = self._price(unit)
        return min(unit.times, self._left // price) if price else unit.times

    def take(self, unit: Unit, times: int) -> None:
        self._left -= self._price(unit) * times

    def _price(self, unit: Unit) -> int:
        return sum(self._prices[g] * slices for g, slices in unit.parts)


def _exact(money: float) -> int:
    """Money in millionths, so that sums of prices are compared exactly."""
    return round(money * 1_000_000)


def apply_launch_limits(plan: Plan, units: Sequence[Unit]) -> LaunchSplit:
    """Admit units in the order in which they were opened, each whole, until a limit of its groups or the cluster is reached.

    Spares are deferred while any other unit is: the deferred demand would use them up, and new spares would be launched.
    """
    limits = _Limits(plan)
    deferring: _Limit | None = None
    launches: list[LaunchRequest] = []
    deferred: dict[tuple[int, str, str], int] = {}
    for unit in units:
        spare = unit.cause in SPARES
        admitted, limit = (0, deferring) if spare and deferring else limits.admit(unit)
        deferring = deferring or (None if spare else limit)
        for g, slices in unit.parts:
            if admitted:
                group = plan.fleet.groups[g].name
                _append(launches, LaunchRequest(group, slices * admitted, unit.cause, unit.source, unit.replaces, unit.home))
            if limit is not None:
                key = (g, limit.name, limit.message)
                deferred[key] = deferred.get(key, 0) + slices * (unit.times - admitted)
    found = tuple(
        Deferred(group=plan.fleet.groups[g].name, slices=slices, limit=name, message=message)
        for (g, name, message), slices in sorted(deferred.items())
    )
    return LaunchSplit(tuple(launches), found, limits.retry_at({item.limit for item in found}))


def _append(launches: list[LaunchRequest], launch: LaunchRequest) -> None:
    """Merge a launch with the one before it if all but the number of slices is equal; the order of launches stays."""
    if launches and launches[-1]._replace(slices=launch.slices) == launch:
        launches[-1] = launch._replace(slices=launches[-1].slices + launch.slices)
    else:
        launches.append(launch)


class _Limits:
    def __init__(self, plan: Plan) -> None:
        snapshot = plan.fleet.snapshot
        counts = plan.fleet.counts
        self._now = snapshot.now
        self._interval = timedelta(seconds=snapshot.config.evaluation.interval_seconds)
        self._recent = [launched for launched in snapshot.launched if launched.at + MINUTE > snapshot.now]
        self._cluster = self._limits("the cluster", snapshot.config.limits, counts, self._recent)
        of_group: dict[str, list[RecentLaunch]] = {}
        for launched in self._recent:
            of_group.setdefault(launched.group, []).append(launched)
        self._groups = [
            self._limits(f"group {group.name}", group.limits, [counts[g]], of_group.get(group.name, ()))
            for g, group in enumerate(plan.fleet.groups)
        ]
        most = snapshot.config.max_cost_per_hour
        self._cluster += [] if most is None else [_CostLimit(plan, most)]
        self._any = bool(self._cluster) or any(self._groups)

    @staticmethod
    def _limits(scope: str, limits: Limits, counts: Sequence[SliceCounts], recent: Sequence[RecentLaunch]) -> list[_Limit]:
        found = []
        if limits.in_flight is not None:
            in_flight = sum(each.in_flight for each in counts)
            found.append(_Limit("in_flight", scope, limits.in_flight, limits.in_flight - in_flight))
        if limits.creates_per_minute is not None:
            created = sum(launched.slices for launched in recent)
            found.append(_Limit("creates_per_minute", scope, limits.creates_per_minute, limits.creates_per_minute - created))
        if limits.growth is not None:
            ready = sum(each.ready for each in counts)
            found.append(_Limit("growth", scope, limits.growth, max(1, ceil(limits.growth * ready))))
        return found

    def admit(self, unit: Unit) -> tuple[int, _Limit | None]:
        """How many repetitions of a unit are admitted, and the limit that defers the others."""
        if not self._any:
            return unit.times, None
        binding = [limit for g, _ in unit.parts for limit in self._groups[g]] + self._cluster
        tightest = min(binding, key=lambda limit: limit.admits(unit), default=None)
        admitted = unit.times if tightest is None else tightest.admits(unit)
        for limit in binding:
            limit.take(unit, admitted)
        return admitted, tightest if admitted < unit.times else None

    def retry_at(self, names: AbstractSet[str]) -> datetime | None:
        """When time alone lets a limit admit more. Slices come and go by events, so `in_flight` and the cost set no time."""
        moments = [launched.at + MINUTE for launched in self._recent] if "creates_per_minute" in names else []
        if "creates_per_minute" in names and not moments:
            moments.append(self._now + MINUTE)
        if "growth" in names:
            moments.append(self._now + self._interval)
        return min(moments, default=None)
