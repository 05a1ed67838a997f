"""LaunchRequest limits: how much of what was opened may be launched now, and what is deferred."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from math import ceil
from typing import NamedTuple

from penstock.core.decision.fleet import SliceCounts
from penstock.core.decision.plan import Plan, Unit
from penstock.model.cluster import Limits
from penstock.model.decision import Cause, Deferred, LaunchRequest
from penstock.model.slices import Launched

MINUTE = timedelta(minutes=1)


class Rationed(NamedTuple):
    """Units divided into launches and what is deferred, and when the deferred could go."""

    launches: tuple[LaunchRequest, ...]
    deferred: tuple[Deferred, ...]
    retry_at: datetime | None


class _Limit:
    """One limit of one group or of the cluster: how many more units it lets pass."""

    def __init__(self, name: str, scope: str, value: float, room: int) -> None:
        self.name = name
        self.message = f"{scope} limits {name} to {value:g}"
        self.room = max(0, room)


def ration(plan: Plan) -> Rationed:
    """Let units through in the order they were opened, each as one, until a limit of its groups or the cluster is reached.

    Spares wait while anything else does: demand that is held back would take them, and they would be bought again.
    """
    limits = _Limits(plan)
    holding: _Limit | None = None
    launches: list[LaunchRequest] = []
    deferred: dict[tuple[int, str, str], int] = {}
    for unit in plan.units:
        spare = unit.cause in (Cause.WATERMARK, Cause.WARM)
        passed, limit = (0, holding) if spare and holding else limits.admit(unit)
        holding = holding or (None if spare else limit)
        for g, slices in unit.parts:
            if passed:
                _append(launches, LaunchRequest(plan.fleet.groups[g].name, slices * passed, unit.cause))
            if limit is not None:
                key = (g, limit.name, limit.message)
                deferred[key] = deferred.get(key, 0) + slices * (unit.times - passed)
    held = tuple(
        Deferred(group=plan.fleet.groups[g].name, slices=slices, limit=name, message=message)
        for (g, name, message), slices in sorted(deferred.items())
    )
    return Rationed(tuple(launches), held, limits.retry_at({item.limit for item in held}))


def _append(launches: list[LaunchRequest], launch: LaunchRequest) -> None:
    """Neighbours of one group and cause are one order; the order of ordering stays."""
    if launches and launches[-1].group == launch.group and launches[-1].cause is launch.cause:
        launches[-1] = launch._replace(slices=launches[-1].slices + launch.slices)
    else:
        launches.append(launch)


class _Limits:
    def __init__(self, plan: Plan) -> None:
        snapshot = plan.fleet.snapshot
        held = plan.fleet.held
        self._now = snapshot.now
        self._interval = timedelta(seconds=snapshot.config.evaluation.interval_seconds)
        self._recent = [launched for launched in snapshot.launched if launched.at + MINUTE > snapshot.now]
        self._cluster = self._limits("the cluster", snapshot.config.limits, held, self._recent)
        self._groups = [
            self._limits(f"group {group.name}", group.limits, held[g : g + 1], [r for r in self._recent if r.group == group.name])
            for g, group in enumerate(plan.fleet.groups)
        ]
        self._any = bool(self._cluster) or any(self._groups)

    @staticmethod
    def _limits(scope: str, limits: Limits, held: Sequence[SliceCounts], recent: Sequence[Launched]) -> list[_Limit]:
        found = []
        if limits.in_flight is not None:
            on_their_way = sum(h.in_flight for h in held)
            found.append(_Limit("in_flight", scope, limits.in_flight, limits.in_flight - on_their_way))
        if limits.creates_per_minute is not None:
            created = sum(launched.slices for launched in recent)
            found.append(_Limit("creates_per_minute", scope, limits.creates_per_minute, limits.creates_per_minute - created))
        if limits.growth is not None:
            running = sum(h.ready for h in held)
            found.append(_Limit("growth", scope, limits.growth, max(1, ceil(limits.growth * running))))
        return found

    def admit(self, unit: Unit) -> tuple[int, _Limit | None]:
        """How many of a unit's repetitions pass, and which limit holds back the rest."""
        if not self._any:
            return unit.times, None
        binding = [limit for g, _ in unit.parts for limit in self._groups[g]] + self._cluster
        tightest = min(binding, key=lambda limit: limit.room, default=None)
        passed = unit.times if tightest is None else min(unit.times, tightest.room)
        for limit in binding:
            limit.room -= passed
        return passed, tightest if passed < unit.times else None

    def retry_at(self, names: AbstractSet[str]) -> datetime | None:
        """When a limit lets more through by itself; slices in flight arrive by themselves and are reported."""
        moments = [launched.at + MINUTE for launched in self._recent] if "creates_per_minute" in names else []
        if "creates_per_minute" in names and not moments:
            moments.append(self._now + MINUTE)
        if "growth" in names:
            moments.append(self._now + self._interval)
        return min(moments, default=None)
