"""Say of every slice that stays why it is kept, and when it goes if nothing changes. `evaluate` does not need it."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from penstock.core.decision import kept_texts as texts
from penstock.core.decision.bins import is_idle
from penstock.core.decision.fleet import Fleet, is_leaving, longest_idle
from penstock.core.decision.floors import watermark_target
from penstock.core.decision.keeping_driven import DrivenGroup
from penstock.core.decision.pressure import wanted_slices
from penstock.core.decision.protections import takes_no_work
from penstock.core.decision.surplus import spare
from penstock.core.decision.take_back import without_drains
from penstock.model.cluster import ScaleDown, ScaleGroup
from penstock.model.decision import Decision, GroupDecision, Kept, KeptCode, KeptReason, Withheld
from penstock.model.gc_pause import gc_paused
from penstock.model.left_behind import LeftBehind
from penstock.model.slices import Slice, SliceState
from penstock.model.snapshot import Snapshot
from penstock.wording import with_detail


class _Why(NamedTuple):
    """One reason to keep a slice, and when the slice goes if it has no other and nothing changes."""

    code: KeptCode
    text: str
    goes_at: datetime | None = None


@gc_paused
def kept_of(snapshot: Snapshot, decision: Decision, only: Collection[str] | None = None) -> tuple[Kept, ...]:
    """Every slice that stays after a decision on the snapshot, with all its reasons, in launch order.

    `only` are the ids of the slices that are asked for, if not all are.
    """
    view = _View(snapshot, decision)
    found = ((piece, view.reasons(piece)) for piece in snapshot.slices if only is None or piece.id in only)
    return tuple(_kept(piece, reasons) for piece, reasons in found if reasons)


def _kept(piece: Slice, reasons: Sequence[_Why]) -> Kept:
    ends = [why.goes_at for why in reasons if why.goes_at is not None]
    return Kept.model_construct(
        slice_id=piece.id,
        group=piece.group,
        reasons=tuple(KeptReason.model_construct(code=why.code, text=why.text) for why in reasons),
        until=max(ends) if len(ends) == len(reasons) else None,
    )


class _View:
    """A snapshot and the decision on it, indexed by slice and by group."""

    def __init__(self, snapshot: Snapshot, decision: Decision) -> None:
        self.snapshot, self.decision, self.now = snapshot, decision, snapshot.now
        self.fleet = _fleet_decided_on(snapshot, decision)
        self.drains = {drain.slice_id: drain for drain in decision.drains}
        self.observes = snapshot.config.scale_down is not ScaleDown.ON
        self.withheld = {item.slice_id: item for item in decision.withheld}
        self.unneeded = set(decision.unneeded)
        self.excess = set[str]() if self.observes else {piece.id for piece in self.fleet.excess}
        self._returning = set(decision.cancelled_drains)
        self._replacements = self.fleet.replacements
        self._described = {group.name: group for group in decision.groups}
        self._groups: dict[int, _Group] = {}
        self._wanted = wanted_slices(self.fleet)
        self._driven_groups: dict[int, DrivenGroup] = {}

    @cached_property
    def stalled(self) -> dict[str, int]:
        """The groups of slices on their way that are no longer counted on."""
        return {piece.id: g for piece, g in self.fleet.stalled}

    @cached_property
    def members(self) -> list[list[Slice]]:
        """The slices of each group that are not leaving."""
        found: list[list[Slice]] = [[] for _ in self.fleet.groups]
        for piece in self.fleet.snapshot.slices:
            g = self.fleet.number.get(piece.group)
            leaves = piece.id in self.excess or piece.id in self._replacements.leaving or is_leaving(piece)
            if g is not None and not leaves and not takes_no_work(piece) and piece.id not in self._replacements.reserved:
                found[g].append(piece)
        return found

    def group(self, g: int) -> "_Group":
        """The group of that number."""
        if g not in self._groups:
            self._groups[g] = _Group(self, g, self._described[self.fleet.groups[g].name])
        return self._groups[g]

    def reasons(self, piece: Slice) -> list[_Why]:
        """Why the slice stays; empty if it leaves."""
        if piece.id in self._returning:
            return [_Why(KeptCode.TAKEN_BACK, texts.NOTICE_WITHDRAWN if piece.notice_withdrawn else texts.TAKEN_BACK)]
        drain = self.drains.get(piece.id)
        if is_leaving(piece) or (drain is not None and not self.observes):
            return []
        if drain is not None:
            return [_Why(KeptCode.OBSERVE, texts.OBSERVE.format(drain.cause))]
        g = self.fleet.number.get(piece.group)
        protections = self._protections(piece)
        item = self.withheld.get(piece.id)
        if item is not None and piece.id in self._replacements.waiting:
            reason = self._replacements.reasons[piece.id]
            why, new = with_detail(reason.cause, reason.detail), self._replacements.replacement_of(piece)
            return [*protections, _Why(item.code, texts.to_be_replaced(why, item, new))]
        if piece.id in self._replacements.reserved or self._receives_work(piece):
            found = [_Why(KeptCode.REPLACES, texts.replaces(piece.replaces))]
        elif g is None:
            found = self._of_removed_group(piece)
        elif g in self._wanted:
            found = self._of_driven_group(piece, g)
        else:
            found = self._of_group(piece, self.group(g))
        if not protections:
            return found
        told = {why.code for why in found}
        return [*(why for why in protections if why.code not in told), *(why for why in found if why.code is not KeptCode.LATER)]

    def _receives_work(self, piece: Slice) -> bool:
        """Whether nothing is placed on the slice, and the work of a draining slice moves to it."""
        old = self._by_id.get(piece.replaces) if piece.replaces else None
        if old is None or not old.state.was_ready or piece.id in self.decision.holding:
            return False
        works = any(not host.idle for host in self.snapshot.usage.get(piece.id, ()))
        return (is_leaving(old) or old.id in self._replacements.leaving) and not works

    @cached_property
    def _by_id(self) -> dict[str, Slice]:
        return {piece.id: piece for piece in self.snapshot.slices}

    def _protections(self, piece: Slice) -> list[_Why]:
        found = []
        if piece.kept_until is not None and piece.kept_until > self.now:
            found.append(_Why(KeptCode.PROTECTED, texts.PROTECTED.format(texts.clock(piece.kept_until)), piece.kept_until))
        if any(host.do_not_disrupt for host in self.snapshot.usage.get(piece.id, ())):
            found.append(_Why(KeptCode.DO_NOT_DISRUPT, texts.DO_NOT_DISRUPT))
        return found

    def _of_driven_group(self, piece: Slice, g: int) -> list[_Why]:
        """Pressure drives the group: neither demand nor usage keeps its slices."""
        if takes_no_work(piece):
            return [_Why(KeptCode.CORDONED, texts.CORDONED)]
        if piece.is_unclaimed and piece.id not in self.snapshot.usage:
            return [self._unclaimed(piece)]
        if piece.returning:
            return [_Why(KeptCode.TAKEN_BACK, texts.RETURNS)]
        item = self.withheld.get(piece.id)
        if item is not None:
            end = item.until if piece.state is SliceState.READY else None
            return [_Why(item.code, texts.withheld(self.snapshot, piece, item), end)]
        found = [_Why(code, text) for code, text in self._driven(g).reasons(piece)]
        if found:
            return found
        return [self.on_its_way(piece, self.fleet.groups[g].cancel_after_seconds) if piece.state.in_flight else self.later()]

    def _driven(self, g: int) -> DrivenGroup:
        if g not in self._driven_groups:
            opens, wanted = self.group(g).opens, self._wanted[g]
            self._driven_groups[g] = DrivenGroup(self.fleet, g, wanted, withheld=self.withheld, opens=opens)
        return self._driven_groups[g]

    def _of_group(self, piece: Slice, group: "_Group") -> list[_Why]:
        usage = self.snapshot.usage.get(piece.id)
        found = []
        if usage is not None and piece.state.was_ready and not is_idle(usage, group.config.hosts_per_slice):
            found.append(_Why(KeptCode.BUSY, texts.busy(usage)))
        if piece.id in self.decision.holding:
            found.append(_Why(KeptCode.DEMAND, texts.placed(self.decision.holding[piece.id])))
        if found:
            return found
        if takes_no_work(piece):
            return [_Why(KeptCode.CORDONED, texts.CORDONED)]
        if piece.is_unclaimed and usage is None:
            return [self._unclaimed(piece)]
        if piece.returning:
            return [_Why(KeptCode.TAKEN_BACK, texts.RETURNS)]
        if usage is None and piece.state is SliceState.READY:
            return [_Why(KeptCode.NEVER_REPORTED, texts.NEVER_REPORTED)]
        return group.reasons(piece)

    def _unclaimed(self, piece: Slice) -> _Why:
        after = self.snapshot.config.unclaimed_after_seconds
        if after is None or piece.unclaimed is None:
            return _Why(KeptCode.UNCLAIMED, texts.UNCLAIMED)
        end = piece.unclaimed + timedelta(seconds=after)
        return _Why(KeptCode.UNCLAIMED, texts.UNCLAIMED, end) if end > self.now else self.later()

    def later(self) -> _Why:
        """It is due, and the decision orders as many drains as it may."""
        end = self.now + timedelta(seconds=self.snapshot.config.evaluation.interval_seconds)
        return _Why(KeptCode.LATER, texts.LATER, end)

    def _of_removed_group(self, piece: Slice) -> list[_Why]:
        """Nothing needs a slice of a removed group: it goes by what it was made under."""
        left, usage = piece.left or LeftBehind(), self.snapshot.usage.get(piece.id)
        if piece.returning:
            return [_Why(KeptCode.TAKEN_BACK, texts.RETURNS)]
        if piece.state.in_flight:
            if piece.queued and left.keep_queued:
                return [_Why(KeptCode.QUEUED, texts.KEEPS_PLACE)]
            return [self.on_its_way(piece, left.cancel_after_seconds)]
        if piece.idle_since is not None:
            return [self.idle(piece, left.idle_timeout_seconds)]
        if usage is None:
            return [_Why(KeptCode.NEVER_REPORTED, texts.NEVER_REPORTED)]
        if all(host.idle for host in usage):
            return [_Why(KeptCode.IDLE_TIMEOUT, texts.NOT_IDLE_YET)]
        return [_Why(KeptCode.BUSY, texts.busy(usage))]

    def idle(self, piece: Slice, timeout: float) -> _Why:
        """A slice that is idle, and that nothing needs."""
        assert piece.idle_since is not None
        due, stale_at = piece.idle_since + timedelta(seconds=timeout), self.snapshot.stale_at.get(piece.id)
        if stale_at is not None and max(self.now, due) >= stale_at:
            return _Why(KeptCode.STALE, texts.stale(stale_at, self.now))
        if due <= self.now:
            return self.later()
        return _Why(KeptCode.IDLE_TIMEOUT, texts.idle(piece.idle_since, timeout), due)

    def on_its_way(self, piece: Slice, cancel_after: float) -> _Why:
        """A slice on its way that nothing needs."""
        since = piece.unneeded_since or self.now
        due = since + timedelta(seconds=cancel_after)
        return _Why(KeptCode.CANCEL_AFTER, texts.unneeded(since, cancel_after), due) if due > self.now else self.later()


class _Group:
    """The slices of one group that it could spare, and each part of its target, which alone keeps some of them."""

    def __init__(self, view: _View, g: int, described: GroupDecision) -> None:
        fleet = view.fleet
        self.config: ScaleGroup = fleet.groups[g]
        self._view, self._g, self._described = view, g, described
        counts = fleet.counts[g]
        self._have = counts.ready + counts.in_flight

    @cached_property
    def opens(self) -> bool:
        """Whether the decision opens slices of the group, or takes idle ones back."""
        back = {piece.id for piece in self._view.fleet.reclaimable[self._g]} & set(self._view.decision.cancelled_drains)
        launched = any(launch.group == self.config.name and not launch.replaces for launch in self._view.decision.launches)
        return bool(launched or self._described.deferred or back)

    @cached_property
    def _lists(self) -> tuple[list[Slice], set[str], list[Slice]]:
        """What is on its way, which of that is stalled, and what is idle: without what holds demand, the first to go first."""
        view, holding = self._view, self._view.decision.holding
        free = [piece for piece in view.members[self._g] if piece.id not in holding]
        stalled = {piece.id for piece in free if piece.id in view.stalled}
        arriving = [piece for piece in free if piece.state.in_flight]
        newest = sorted(arriving, key=view.fleet.position, reverse=True)
        usage, hosts = view.snapshot.usage, self.config.hosts_per_slice
        ready = (piece for piece in free if piece.state is SliceState.READY and piece.idle_since is not None)
        idle = [piece for piece in ready if is_idle(usage.get(piece.id, ()), hosts)]
        return sorted(newest, key=lambda piece: piece.started), stalled, sorted(idle, key=longest_idle)

    def _spared(self, target: int) -> Collection[str]:
        """The slices that go sooner or later if the group should have so many."""
        on_their_way, stalled, idle = self._lists
        withheld = self._view.withheld
        found = spare(on_their_way, stalled, idle, self._have - target, lambda piece: piece.id in withheld)
        return {piece.id for piece in (*found.on_their_way, *found.idle)}

    @cached_property
    def _parts(self) -> list[tuple[_Why, Collection[str]]]:
        """Each part of the target with the slices that could go if the group had no other."""
        most = self.config.max_slices
        return [(why, self._spared(min(most, slices))) for why, slices in self._targets() if slices]

    def _targets(self) -> Iterator[tuple[_Why, int]]:
        group, need = self.config, self._described.busy + self._described.required
        yield _Why(KeptCode.MINIMUM, texts.minimum(group.min_slices)), group.min_slices
        slices = self._view.decision.standing_slices.get(group.name, 0)
        yield _Why(KeptCode.STANDING, texts.standing(slices, self._owners if slices else ())), slices
        if group.watermark is not None:
            yield _Why(KeptCode.WATERMARK, texts.watermark(group.watermark, need)), watermark_target(need, group.watermark)
        if group.warm_slices:
            yield _Why(KeptCode.WARM, texts.warm(group.warm_slices)), need + group.warm_slices

    @property
    def _owners(self) -> list[str]:
        """Owners of the standing requests that are met and that could use slices of the group."""
        met = {outcome.owner for outcome in self._view.decision.standing if outcome.met}
        fleet, bit = self._view.fleet, 1 << self._g
        live = (request for request in self._view.snapshot.standing if request.owner in met)
        return [r.owner for r in live if any(fleet.matcher.candidates(item.alone()).bits & bit for item in r.wants)]

    @cached_property
    def _all_spared(self) -> Collection[str]:
        return self._spared(self._described.target)

    def reasons(self, piece: Slice) -> list[_Why]:
        """Why a slice stays on which nothing runs and nothing is placed."""
        view, config = self._view, self.config
        if piece.state is SliceState.READY and piece.idle_since is None:
            return [_Why(KeptCode.IDLE_TIMEOUT, texts.NOT_IDLE_YET)]
        item = view.withheld.get(piece.id)
        if item is not None:
            return [self._withheld(piece, item)]
        found = [why for why, spared in self._parts if piece.id not in spared]
        found += [_Why(KeptCode.LAUNCHING, texts.LAUNCHING)] if self.opens else []
        if found:
            return found
        if piece.id not in self._all_spared:
            return [_Why(KeptCode.DEMAND, texts.target(self._described.target))]
        if piece.state.in_flight:
            return [view.on_its_way(piece, config.cancel_after_seconds)]
        return [view.idle(piece, config.idle_timeout_seconds)]

    def _withheld(self, piece: Slice, item: Withheld) -> _Why:
        """What the decision says keeps the slice, though its group could spare it."""
        text = texts.withheld(self._view.snapshot, piece, item)
        if item.until is None:
            return _Why(item.code, text)
        if piece.idle_since is None:
            return _Why(item.code, text, item.until + timedelta(seconds=self.config.cancel_after_seconds))
        due = piece.idle_since + timedelta(seconds=self.config.idle_timeout_seconds)
        stale_at = self._view.snapshot.stale_at.get(piece.id)
        end = max(item.until, due)
        return _Why(item.code, text, end if stale_at is None or end < stale_at else None)


def _fleet_decided_on(snapshot: Snapshot, decision: Decision) -> Fleet:
    """The fleet of the decision: slices whose drains it cancels though work may run on them serve already."""
    fleet = Fleet(snapshot)
    withdrawn = (piece.id for piece in snapshot.slices if piece.notice_withdrawn)
    back = {*_ids(fleet.busy_drains), *withdrawn}.intersection(decision.cancelled_drains)
    return Fleet(without_drains(snapshot, back)) if back else fleet


def _ids(slices: Iterable[Iterable[Slice]]) -> set[str]:
    return {piece.id for each in slices for piece in each}
