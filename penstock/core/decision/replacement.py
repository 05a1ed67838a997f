"""Replacement: which slices drain now because another is to take their place, which wait, and which replacements to order.

An idle slice drains at once. A busy one drains when its replacement is READY; until then the replacement takes no demand. A slice
for which the cloud has given notice drains at once, whatever runs there.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from penstock.core.decision.bins import is_idle
from penstock.core.decision.disruption import DisruptionBudget, is_disrupted
from penstock.core.decision.headroom import Headroom
from penstock.core.decision.heads import heads
from penstock.core.decision.outdated import Reason, notice_of, outdated
from penstock.core.decision.patience import patience_end
from penstock.core.decision.return_home import next_return
from penstock.model.cluster import ScaleDown, ScaleGroup
from penstock.model.decision import Cause, Drain, KeptCode, Withheld
from penstock.model.elasticity import Drive
from penstock.model.slices import DrainCause, Slice, SliceState
from penstock.model.snapshot import Snapshot


class Due(NamedTuple):
    """A slice that is to be replaced, the number of its group, None if that is not configured, and why.

    `home` is the number of the group that it returns to, if it does; `unit` the ids of all slices that return with it.
    """

    piece: Slice
    group: int | None
    reason: Reason
    home: int | None = None
    unit: frozenset[str] = frozenset()

    def drain(self, *, idle: bool) -> Drain:
        """The order to drain it; of an idle slice only as long as it stays idle."""
        cause, detail, deadline = self.reason
        piece = self.piece
        since = piece.idle_since if idle else None
        return Drain(slice_id=piece.id, group=piece.group, cause=cause, detail=detail, deadline=deadline, idle_since=since)


class Order(NamedTuple):
    """A replacement to order, and the group that it is ordered in; `idle` if nothing runs on the slice that it replaces."""

    piece: Slice
    group: int
    cause: Cause
    idle: bool


class Replacements:
    """What a snapshot says of slices that are to be replaced. It never changes."""

    def __init__(self, snapshot: Snapshot, groups: Sequence[ScaleGroup], number: Mapping[str, int], protected: Collection[str]):
        self.drains: dict[str, Drain] = {}
        """Drains that begin now, by slice id."""
        self.orders: list[Order] = []
        """Replacements to order, the most urgent first, if their groups still have headroom once demand is placed."""
        self.reserved: dict[str, str] = {}
        """Slices that take no demand yet, with the slices that they replace."""
        self.waiting: dict[str, Withheld] = {}
        """Why slices that are to be replaced stay for now."""
        self.reasons: dict[str, Reason] = {}
        """Why slices are to be replaced, those that stay for now included."""
        self.moments: list[datetime] = []
        """When time alone may change any of this."""
        self.budget = DisruptionBudget(snapshot, groups, number)
        """What is left of the disruption budget."""
        self._snapshot, self._groups, self._number, self._protected = snapshot, groups, number, protected
        self._units: set[frozenset[str]] = set()
        """Gangs of which a slice drains now."""
        self._observes = snapshot.config.scale_down is ScaleDown.OBSERVE
        self._heads = frozenset(heads(snapshot, {group.name for group in groups if _has_head(group)}).values())
        self._moving = frozenset(piece.id for piece in snapshot.slices if _is_emptied(piece))
        """Slices that drain and whose work moves to their replacements."""
        self._replaced = {} if self._observes else self._find_replaced()
        due = self._due()
        settled = {each.piece.id for each in due if not _waits_for_news(each.piece)}
        self._pairs = {slice_id: new for slice_id, new in self._replaced.items() if slice_id in settled}
        """Replacements that are there already, by the id of the slice that each replaces."""
        self._count_pairs(due)
        for each in due:
            self.reasons[each.piece.id] = each.reason
            self._judge(each)
        self._judge_heads(due)

    @property
    def leaving(self) -> Collection[str]:
        """Slices that drain now and are no capacity; none if drains are only shown."""
        return () if self._observes else self.drains.keys()

    def replacement_of(self, piece: Slice) -> Slice | None:
        """The slice that is there to take the place of another, if one is."""
        return self._replaced.get(piece.id)

    @cached_property
    def _headroom(self) -> Headroom:
        """What groups can add before demand is placed; replacements that are ordered are charged to it."""
        counts = [0] * len(self._groups)
        for piece in self._snapshot.slices:
            g = self._number.get(piece.group)
            if g is not None:
                counts[g] += 1
        return Headroom(self._snapshot, self._groups, counts)

    def _find_replaced(self) -> dict[str, Slice]:
        """Slices that are there for others, by the id of the slice that each replaces: the first of several."""
        found: dict[str, Slice] = {}
        for piece in self._snapshot.slices:
            serves = piece.state.serves and piece.drain is None
            if piece.replaces and serves and not (piece.is_unclaimed and piece.id not in self._snapshot.usage):
                found.setdefault(piece.replaces, piece)
        return found

    def _due(self) -> list[Due]:
        """Every slice that is to be replaced, by cause, the oldest first."""
        found: list[Due] = []
        fingerprints = [group.fingerprint for group in self._groups] if self._snapshot.config.replace_drifted else ()
        for piece in self._snapshot.slices:
            g = self._number.get(piece.group)
            reason = notice_of(piece, self._snapshot.now)
            if reason is None and g is not None and piece.id not in self._protected:
                fingerprint = fingerprints[g] if fingerprints else ""
                reason, moments = outdated(self._snapshot.now, self._groups[g], piece, fingerprint)
                self.moments += moments
            if reason is not None:
                found.append(Due(piece, g, reason))
        found += self._returning({each.piece.id for each in found})
        return sorted(found, key=lambda each: each.reason.cause.rank)

    def _returning(self, others: Collection[str]) -> Iterator[Due]:
        """The slices that return home, if nothing else replaces any of them and no operator keeps it."""
        returning, moments = next_return(self._snapshot, self._number, self._replaced, self._headroom_of)
        self.moments += moments
        ids = frozenset() if returning is None else returning.ids
        if returning is None or not ids.isdisjoint(others) or not ids.isdisjoint(self._protected):
            return
        for piece, home in returning.members:
            reason = Reason(DrainCause.RETURN_HOME, f"to {self._groups[home].name}")
            yield Due(piece, self._number[piece.group], reason, home, ids)

    def _headroom_of(self, g: int) -> int:
        return self._headroom.of(g)

    def _count_pairs(self, due: Iterable[Due]) -> None:
        """Count replacements that are under way in the budget; a gang's once, and none that a cloud is slow to create."""
        counted: set[frozenset[str]] = set()
        for each in due:
            new = self._pairs.get(each.piece.id)
            if new is not None and each.unit not in counted and not self._is_stalled(new):
                self.budget.take(each.group)
                counted |= {each.unit} if each.unit else set()

    def _judge(self, due: Due) -> None:
        piece, g, reason = due.piece, due.group, due.reason
        if reason.cause is DrainCause.NOTICE or g is None:
            self._leave_at_once(due)
            return
        self.moments += self.budget.edges(g)
        if piece.id in self._heads:
            return
        if piece.replaces in self._moving or piece.replaces in self.drains:
            self._wait(Withheld(piece.id, KeptCode.REPLACES))
        elif self._is_idle(piece, g) and due.home is None:
            self._replace_idle(due, g)
        else:
            self._replace_busy(due, g)

    def _leave_at_once(self, due: Due) -> None:
        """The cloud takes the slice: no budget holds that up. Work that runs there finds a replacement on its way."""
        piece, g = due.piece, due.group
        self._drain(due, idle=False)
        new = self._pairs.get(piece.id)
        if piece.state.was_ready and not is_disrupted(piece) and (new is None or self._is_stalled(new)):
            self.budget.take(g)
        works = piece.state is SliceState.READY and piece.drain is None and g is not None and not self._is_idle(piece, g)
        if works and g is not None and piece.id not in self._replaced and self._headroom.of(g):
            self._order(piece, g, Cause.REPLACEMENT)

    def _replace_idle(self, due: Due, g: int) -> None:
        """Nothing runs there: it drains at once, within the budget."""
        piece = due.piece
        has_pair = piece.id in self._pairs
        refusal = self._pair_waits(due, g) if has_pair else self.budget.refusal(piece, g)
        if refusal is not None:
            self._wait(refusal)
            return
        self._drain(due, idle=True)
        if not has_pair:
            self.budget.take(g)

    def _replace_busy(self, due: Due, g: int) -> None:
        """Work runs there: it drains once its replacement is READY, and for a gang those of all its slices are."""
        piece = due.piece
        new = self._pairs.get(piece.id)
        if new is not None and new.id not in self.drains:
            ready = all(self._is_replaced(slice_id) for slice_id in due.unit or (piece.id,))
            is_frozen = self.budget.is_nothing(g)
            waits = self._pair_waits(due, g) if ready or is_frozen else Withheld(piece.id, KeptCode.REPLACEMENT)
            if waits is None:
                self._drain(due, idle=False)
                return
            if not is_frozen:
                self.reserved[new.id] = piece.id
            self._wait(waits)
            return
        self._wait(self._order_replacement(due, g))

    def _is_replaced(self, slice_id: str) -> bool:
        """Whether the replacement of a slice is READY, and does not leave itself."""
        new = self._pairs.get(slice_id)
        return new is not None and new.state is SliceState.READY and new.id not in self.drains

    def _order_replacement(self, due: Due, g: int) -> Withheld:
        """Order a replacement within the budget; returns what the slice waits for."""
        piece, target = due.piece, g if due.home is None else due.home
        if _waits_for_news(piece):
            return Withheld(piece.id, KeptCode.UNCONFIRMED)
        goes_on = any(other in self._pairs or self._is_ordered(other) for other in due.unit)
        refusal = None if goes_on else self.budget.refusal(piece, g)
        if refusal is not None:
            return refusal
        if not self._headroom.of(target):
            return Withheld(piece.id, KeptCode.NO_REPLACEMENT)
        if not goes_on:
            self.budget.take(g)
        if self._observes:
            return Withheld(piece.id, KeptCode.OBSERVE)
        self._order(piece, target, Cause.REPLACEMENT if due.home is None else Cause.RETURN_HOME)
        return Withheld(piece.id, KeptCode.REPLACEMENT)

    def _is_ordered(self, slice_id: str) -> bool:
        """Whether a slice waits only for a replacement."""
        return slice_id in self.waiting and self.waiting[slice_id].code in (KeptCode.REPLACEMENT, KeptCode.OBSERVE)

    def _judge_heads(self, due: Iterable[Due]) -> None:
        """The head of a group is replaced last, and after its replacement is READY also if it is idle."""
        others = Counter(each.group for each in due if each.piece.id not in self.drains and each.piece.id not in self._heads)
        for each in due:
            if each.piece.id in self._heads and each.piece.id not in self.drains and each.group is not None:
                if others[each.group] and each.piece.id not in self._pairs:
                    self._wait(Withheld(each.piece.id, KeptCode.HEAD))
                else:
                    self._replace_busy(each, each.group)

    def _order(self, piece: Slice, g: int, cause: Cause) -> None:
        self._headroom.order_new(g)
        if not self._observes:
            self.orders.append(Order(piece, g, cause, self._is_idle(piece, g)))

    def _wait(self, withheld: Withheld) -> None:
        self.waiting[withheld.slice_id] = withheld

    def _drain(self, due: Due, *, idle: bool) -> None:
        """Drain a slice now; all slices of a gang are one drain of the budget."""
        self.drains[due.piece.id] = due.drain(idle=idle)
        if due.unit not in self._units:
            self.budget.drain(due.group)
        self._units |= {due.unit} if due.unit else set()

    def _pair_waits(self, due: Due, g: int) -> Withheld | None:
        """What holds up a drain whose replacement is there: the window, or others that drain. It was counted when ordered."""
        piece, opens_at = due.piece, self.budget.opens_at(g)
        if opens_at is not None:
            return Withheld(piece.id, KeptCode.WINDOW, opens_at)
        goes_on = due.unit in self._units
        return Withheld(piece.id, KeptCode.BUDGET) if self.budget.is_drained(g) and not goes_on else None

    def _is_stalled(self, new: Slice) -> bool:
        """Whether the cloud is slow to create a replacement, or has queued it."""
        group = self._snapshot.config.group(new.group)
        end = None if group is None else patience_end(self._snapshot.config, group, new)
        if end is not None and end > self._snapshot.now:
            self.moments.append(end)
        return new.state.in_flight and (new.queued if end is None else end <= self._snapshot.now)

    def _is_idle(self, piece: Slice, g: int) -> bool:
        """Whether a fresh word says that nothing runs on the slice; of a group that pressure drives only its controller knows.

        After a drain that nobody confirmed, only a newer word counts: work may have come meanwhile.
        """
        if piece.state is not SliceState.READY or _waits_for_news(piece) or self._groups[g].drive is Drive.PRESSURE:
            return False
        stale_at = self._snapshot.stale_at.get(piece.id)
        if stale_at is not None and stale_at > self._snapshot.now:
            self.moments.append(stale_at)
        says_so = is_idle(self._snapshot.usage.get(piece.id, ()), self._groups[g].hosts_per_slice)
        return says_so and (stale_at is None or stale_at > self._snapshot.now)


def _has_head(group: ScaleGroup) -> bool:
    return group.protect_first or group.drive is Drive.PRESSURE


def _is_emptied(piece: Slice) -> bool:
    cause = None if piece.drain is None else piece.drain.known_cause
    return piece.state.was_ready and cause is not None and cause.voluntary and not piece.confirmed_empty


def _waits_for_news(piece: Slice) -> bool:
    """Whether nobody confirmed the last drain of the slice, and no newer report says that it is idle."""
    return piece.unconfirmed_at is not None and (piece.idle_since is None or piece.idle_since <= piece.unconfirmed_at)
