"""Pressure: how many slices a group should have that reports of queue lengths drive, and which of them go first."""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from penstock.core.decision.fleet import Fleet
from penstock.core.decision.heads import age_order
from penstock.core.decision.protections import takes_no_work
from penstock.model.cluster import ScaleGroup
from penstock.model.decision import KeptCode
from penstock.model.elasticity import Drive
from penstock.model.pressure import PressureReport, PressureState
from penstock.model.slices import Slice, SliceState
from penstock.model.units import format_seconds
from penstock.wording import counted

LOW_TENTHS = 3
"""Below so many tenths of its capacity in use, a group shrinks."""
SPARE = 1
"""Slices that a group with little work keeps beyond those that the work fills: the next task need not wait for one."""
NO_REPORT = "no pressure report has come: its slices stay as they are"
STALE = "its pressure report is stale: its slices stay as they are"


class Wanted(NamedTuple):
    """How many slices a group should have, and why.

    `desired` is what the reports want, to be remembered: the group does not follow it while they are stale. `next_at` is when
    time alone may change any of it, once the decision is carried out.
    """

    slices: int
    desired: int | None
    next_at: datetime | None
    why: str
    keeps: KeptCode = KeptCode.DESIRED
    """The reason for which the slices stay."""


def wanted_slices(fleet: Fleet) -> dict[int, Wanted]:
    """How many slices each group should have that reports of pressure drive, by the number of the group."""
    snapshot, found = fleet.snapshot, dict[int, Wanted]()
    for g, group in enumerate(fleet.groups):
        if group.drive is Drive.PRESSURE:
            counts = fleet.counts[g]
            have = counts.ready + counts.in_flight + counts.stalled
            found[g] = judge(group, snapshot.pressure.get(group.name), have=have, now=snapshot.now)
    return found


def judge(group: ScaleGroup, state: PressureState | None, *, have: int, now: datetime) -> Wanted:
    """How many slices the group should have. Without a fresh report as many as it has, within its minimum and maximum."""
    stays = _within(group, have)
    if state is None:
        return Wanted(stays, None, None, NO_REPORT, KeptCode.NEVER_REPORTED)
    known = None if state.desired is None else _within(group, state.desired)
    if state.report is None or not state.is_fresh(now):
        silence = (NO_REPORT, KeptCode.NEVER_REPORTED) if state.report is None else (STALE, KeptCode.STALE)
        return Wanted(stays, known, None, *silence)
    before = stays if known is None else known
    idle_from = state.idle_from if state.report.idle else None
    idle_end = None if idle_from is None else idle_from + timedelta(seconds=group.idle_timeout_seconds)
    ruled, why = _by_rule(group, state.report, before, is_idle=idle_end is not None and idle_end <= now)
    why = f"{why}: {counted(ruled, 'slice')} wanted"
    cooldown = _cooldown_end(group, state, before, ruled)
    if cooldown is not None and cooldown > now:
        found, moments = before, [cooldown]
        why = f"{why} once the cooldown ends in {format_seconds((cooldown - now).total_seconds())}"
    else:
        found, acted_at = ruled, state.acted_at if ruled == before else now
        moments = _idle_moments(group, idle_end, acted_at, now) if found > group.min_slices else []
    if state.stale_at is not None and (found != have or found != known):
        moments.append(state.stale_at)  # From then on the group stays as it is, and wants what it wanted before.
    ends = [moment for moment in moments if state.stale_at is None or moment <= state.stale_at]
    return Wanted(found, found, min(ends, default=None), why)


def _by_rule(group: ScaleGroup, report: PressureReport, before: int, *, is_idle: bool) -> tuple[int, str]:
    """What the report wants, and why: the first rule that matches."""
    slots = max(1, group.slots_per_slice or 0)
    if report.queued:
        more = report.slices + -(-report.queued // slots)
        return min(group.max_slices, max(before, more)), f"{counted(report.queued, 'task')} queued"
    if is_idle:
        return group.min_slices, f"idle for {format_seconds(group.idle_timeout_seconds)}"
    if report.running * 10 < report.capacity * LOW_TENTHS:
        enough = -(-report.running // slots) + SPARE
        return min(before, max(group.min_slices, enough)), f"{report.running:,} of {report.capacity:,} slots in use"
    return before, f"{counted(report.running, 'task')} running"


def _within(group: ScaleGroup, slices: int) -> int:
    return min(group.max_slices, max(group.min_slices, slices))


def _cooldown_end(group: ScaleGroup, state: PressureState, before: int, after: int) -> datetime | None:
    """Until when the group stays as it is, counted from the last action either way; None if nothing changes or never did."""
    if state.acted_at is None or after == before:
        return None
    seconds = group.grow_cooldown_seconds if after > before else group.shrink_cooldown_seconds
    return state.acted_at + timedelta(seconds=seconds)


def _idle_moments(group: ScaleGroup, idle_end: datetime | None, acted_at: datetime | None, now: datetime) -> list[datetime]:
    """When an idle group shrinks to its minimum: once it was idle for long enough, and the last action is long enough ago."""
    if idle_end is None or idle_end <= now:
        return []
    cooled = idle_end if acted_at is None else acted_at + timedelta(seconds=group.shrink_cooldown_seconds)
    return [max(idle_end, cooled)]


def victims(fleet: Fleet, g: int, spare: int, keeps: Callable[[Slice, int], bool]) -> list[Slice]:
    """READY slices of a group that go, the newest first, without those that something keeps.

    One whose drain nobody confirmed stays until a newer report comes, because its controller has work there. No other goes in
    its place.
    """
    if spare <= 0:
        return []
    going = islice((piece for piece in newest_ready(fleet, g) if not keeps(piece, g)), spare)
    return [piece for piece in going if not is_unconfirmed(fleet, g, piece)]


def newest_ready(fleet: Fleet, g: int) -> list[Slice]:
    """READY slices of a group that decisions may drain, the newest first."""
    snapshot, name = fleet.snapshot, fleet.groups[g].name
    ready = (p for p in snapshot.slices if p.group == name and p.state is SliceState.READY and p.drain is None)
    joined = (piece for piece in ready if piece.unclaimed is None or piece.id in snapshot.usage)
    mine = [piece for piece in joined if not takes_no_work(piece)]
    return sorted(mine, key=lambda piece: age_order(piece, fleet.position(piece), snapshot.now), reverse=True)


def is_unconfirmed(fleet: Fleet, g: int, piece: Slice) -> bool:
    """Whether nobody confirmed the last drain of the slice, and no newer report on its group has come."""
    state = fleet.snapshot.pressure.get(fleet.groups[g].name)
    return piece.unconfirmed_at is not None and (state is None or piece.unconfirmed_at >= state.at)
