"""What idle slices have cost: money by the hour, counted from the times of events, for a little more than a day."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple

from penstock.contract.cost import Use
from penstock.core.decision.fleet import is_leaving
from penstock.core.decision.prices import cost_of
from penstock.model.cluster import ClusterConfig
from penstock.model.slices import Slice, SliceState, SliceUsage

HOUR = 3600.0
DAY = 24 * HOUR
KEPT_HOURS = 25
"""Hours whose money is kept: those of a day, of which the first and the last are usually parts."""


class IdleHour(NamedTuple):
    """What idle slices have cost in one hour, counted from 1970."""

    hour: int
    money: float


IdleCost = tuple[IdleHour, ...]
"""The money of the last hours, in order, without hours that cost nothing."""


def idle_in(usage: Mapping[str, SliceUsage]) -> frozenset[str]:
    """The slices that are idle by the last word on them, however old."""
    return frozenset(slice_id for slice_id, hosts in usage.items() if hosts and hosts[0].idle and all(h.idle for h in hosts))


def use_of(piece: Slice, usage: Collection[str], idle: Collection[str]) -> Use:
    """What a slice is paid for; `usage` are the slices that sources have named, and `idle` those of them that are idle."""
    if piece.drain is not None or piece.state is not SliceState.READY:
        if is_leaving(piece):
            return Use.DRAINING
        if piece.state.in_flight:
            return Use.REQUESTED if piece.state is SliceState.REQUESTING else Use.ON_THE_WAY
    if piece.id in idle:
        return Use.IDLE
    return Use.BUSY if piece.id in usage else Use.UNREPORTED


def idle_rate(slices: Mapping[str, Slice], idle: Collection[str], config: ClusterConfig | None) -> float:
    """What idle slices cost an hour, as far as prices are known."""
    if config is None:
        return 0.0
    ready = SliceState.READY
    named = [slices[slice_id] for slice_id in idle if slice_id in slices]
    # The first half decides for nearly every slice, in a third of the time: `apply` asks after every change.
    return cost_of((p for p in named if (p.state is ready and p.drain is None) or use_of(p, idle, idle) is Use.IDLE), config)


def accrued(cost: IdleCost, rate: float, since: datetime, until: datetime) -> IdleCost:
    """The money by the hour after idle slices have cost `rate` an hour for a while. Hours older than a day are dropped."""
    end = until.timestamp()
    first = _hour_of(end) - KEPT_HOURS + 1
    money = {hour: spent for hour, spent in cost if hour >= first}
    begin = max(since.timestamp(), first * HOUR)
    while rate and begin < end:
        hour = _hour_of(begin)
        stop = min(end, (hour + 1) * HOUR)
        money[hour] = money.get(hour, 0.0) + rate * (stop - begin) / HOUR
        begin = stop
    return tuple(IdleHour(hour, money[hour]) for hour in sorted(money))


def of_last_day(cost: IdleCost, now: datetime) -> float:
    """The money of the 24 hours before now. Of the hour in which they begin, the part that is within them."""
    begin = now.timestamp() - DAY
    return sum(spent * min(1.0, max(0.0, hour + 1 - begin / HOUR)) for hour, spent in cost)


def _hour_of(seconds: float) -> int:
    return int(seconds // HOUR)
