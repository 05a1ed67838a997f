"""Headroom: how many slices each group may still add under its maximum, the cluster's, its pool's, and its blocks."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple, assert_never

from penstock.core.decision.patience import health_with_queues, is_blocking
from penstock.model.cluster import ScaleGroup
from penstock.model.decision import Code
from penstock.model.slices import Availability, Health
from penstock.model.snapshot import Snapshot

UNLIMITED = 1 << 60
"""More slices than any cloud has."""


_NEVER = datetime.max.replace(tzinfo=UTC)


class GroupBlock(NamedTuple):
    """Why a group may not add slices, and until when."""

    code: Code
    availability: Availability
    until: datetime | None
    reason: str


def blocks(groups: Sequence[ScaleGroup], own: Sequence[GroupBlock | None]) -> list[GroupBlock | None]:
    """The block of each group: its own, or an exceeded quota at an equal or lower tier of its quota pool.

    A blocked tier ends with the last of the blocks at or below it, so a group whose own block ends before that waits on.
    """
    failed: dict[str, list[tuple[int, int]]] = {}
    for g, group in enumerate(groups):
        block = own[g]
        if group.quota_pool is not None and block is not None and block.availability is Availability.QUOTA_EXCEEDED:
            failed.setdefault(group.quota_pool, []).append((group.quota_tier, g))
    found = list(own)
    for g, group in enumerate(groups):
        tiers = [(tier, other) for tier, other in failed.get(group.quota_pool or "", ()) if tier <= group.quota_tier]
        if tiers:
            tier, last = max(tiers, key=lambda item: (_end(own[item[1]]), -item[0], -item[1]))
            reason = f"{groups[last].name} exceeded quota pool {group.quota_pool} at quota tier {tier}"
            found[g] = _joined(own[g], own[last], reason)
    return found


def _joined(own: GroupBlock | None, tier: GroupBlock | None, reason: str) -> GroupBlock | None:
    """A group's own block, extended to the end of the block of its quota tier."""
    end = tier.until if tier else None
    if own is None:
        return GroupBlock(Code.TIER_BLOCKED, Availability.QUOTA_EXCEEDED, end, reason)
    if _end(own) >= _end(tier):
        return own
    return own._replace(until=end, reason=f"{own.reason}; {reason}" if own.reason else reason)


def _end(block: GroupBlock | None) -> datetime:
    """When a block ends, for comparing; one without an end lasts longest."""
    return block.until if block is not None and block.until is not None else _NEVER


def _own_block(health: Health | None, now: datetime) -> GroupBlock | None:
    code = code_of(health.availability) if health is not None and is_blocking(health, now) else None
    return None if health is None or code is None else GroupBlock(code, health.availability, health.until, health.reason)


def code_of(availability: Availability) -> Code | None:
    """The reason code of a group that may not add slices; None if it may."""
    match availability:
        case Availability.AVAILABLE:
            return None
        case Availability.AT_MAX:
            return Code.AT_MAX
        case Availability.BACKOFF:
            return Code.BACKOFF
        case Availability.QUOTA_EXCEEDED:
            return Code.QUOTA_EXCEEDED
        case Availability.POOL_EXHAUSTED:
            return Code.POOL_EXHAUSTED
        case Availability.RATE_LIMITED:
            return Code.RATE_LIMITED
        case Availability.DISABLED:
            return Code.DISABLED
        case _:
            assert_never(availability)


class Headroom:
    """Slices that may still be ordered. Every order is charged to group, cluster and pool."""

    def __init__(
        self,
        snapshot: Snapshot,
        groups: Sequence[ScaleGroup],
        counts: Sequence[int],
        reclaimable: Sequence[int] = (),
        *,
        serving: int = 0,
    ) -> None:
        """`counts` are each group's slices in the ledger, in any state. Slices of removed groups count too.

        `reclaimable` are those of them whose drains may be cancelled: they are charged already, and taken before new slices,
        as long as no more slices serve than the cluster may have; `serving` are those that do.
        """
        config, names = snapshot.config, {group.name for group in groups}
        self._groups, self._most = groups, config.max_slices
        self._group = [max(0, group.max_slices - count) for group, count in zip(groups, counts, strict=True)]
        self._cluster = (
            UNLIMITED if config.max_slices is None else max(0, config.max_slices - len(snapshot.slices) - snapshot.unseen_slices)
        )
        self._unseen = snapshot.unseen_slices
        self._pool_of = [group.pool for group in groups]
        self._chips = [group.chips_per_slice for group in groups]
        self.charged = {pool.name: 0 for pool in config.pools}
        for pool, chips, count in zip(self._pool_of, self._chips, counts, strict=True):
            if pool is not None:
                self.charged[pool] += chips * count
        for piece in snapshot.slices:
            left = piece.left
            if left is not None and left.pool in self.charged and piece.group not in names:
                self.charged[left.pool] += left.chips
        self._pool = {pool.name: max(0, pool.chips - pool.system - self.charged[pool.name]) for pool in config.pools}
        health = health_with_queues(config, snapshot.slices, snapshot.health, snapshot.now)
        own = [_own_block(health.get(group.name), snapshot.now) for group in groups]
        self.block_ends = [block.until for block in own if block is not None and block.until is not None]
        """When the own blocks of groups end: the moments at which a code may change."""
        self.blocked = blocks(groups, own)
        self._room = self._room_if_empty(snapshot)
        self._pool_at_first = dict(self._pool)
        self._back = list(reclaimable) or [0] * len(groups)
        self._back_in_all = UNLIMITED if config.max_slices is None else max(0, config.max_slices - serving)
        self.taken_back = [0] * len(groups)
        """Draining slices of each group that are taken back."""
        self._charged = [0] * len(groups)
        """New slices of each group that orders are charged for."""
        self.most_charged = [0] * len(groups)
        """The most that each group was ever charged for, also on trial and in copies: with more headroom nothing would differ."""

    def _room_if_empty(self, snapshot: Snapshot) -> list[tuple[int, Code]]:
        """The most slices that each group can ever have, and what limits them."""
        cluster = UNLIMITED if snapshot.config.max_slices is None else snapshot.config.max_slices
        pools = {pool.name: max(0, pool.chips - pool.system) for pool in snapshot.config.pools}
        found = []
        for group, pool, chips in zip(self._groups, self._pool_of, self._chips, strict=True):
            in_pool = UNLIMITED if pool is None else pools[pool] // chips
            limits = ((group.max_slices, Code.AT_MAX), (in_pool, Code.POOL_EXHAUSTED), (cluster, Code.CLUSTER_AT_MAX))
            found.append(min(limits, key=lambda limit: limit[0]))
        return found

    def most(self, g: int) -> int:
        """The most slices that the group can ever have."""
        return self._room[g][0]

    def never(self, g: int, slices: int = 1) -> Code | None:
        """What keeps the group from ever having that many slices, whatever leaves and whichever block ends."""
        most, code = self._room[g]
        return code if most < slices else None

    def of(self, g: int) -> int:
        """Slices that the group may still add: draining ones that are taken back, also if it is blocked, and new ones."""
        return self.back(g) + self._new(g)

    def back(self, g: int) -> int:
        """Draining slices of the group that may still be taken back."""
        return min(self._back[g], self._back_in_all)

    def _new(self, g: int) -> int:
        if self.blocked[g] is not None:
            return 0
        left = min(self._group[g], self._cluster)
        pool = self._pool_of[g]
        return left if pool is None else min(left, self._pool[pool] // self._chips[g])

    def may_add(self, g: int) -> bool:
        """Whether the group may add a new slice."""
        return self._new(g) > 0

    def order_new(self, g: int) -> None:
        """Charge one new slice of the group, also if draining ones could be taken back."""
        self._charge(g, 1)

    def order(self, g: int, slices: int) -> None:
        """Take slices of the group, draining ones first, and charge the new ones; a negative number returns them."""
        reclaimed = min(slices, self.back(g)) if slices > 0 else min(0, slices + self._charged[g])
        self._back[g] -= reclaimed
        self._back_in_all -= reclaimed
        self.taken_back[g] += reclaimed
        self._charge(g, slices - reclaimed)

    def _charge(self, g: int, charged: int) -> None:
        self._charged[g] += charged
        self.most_charged[g] = max(self.most_charged[g], self._charged[g])
        self._group[g] -= charged
        self._cluster -= charged
        pool = self._pool_of[g]
        if pool is not None:
            self._pool[pool] -= charged * self._chips[g]

    def ordered(self, pool: str) -> int:
        """Chips of the pool that slices ordered since the beginning are charged for."""
        return self._pool_at_first[pool] - self._pool[pool]

    def cause(self, g: int) -> Code:
        """What keeps the group from adding one slice more than its headroom; a limit for ever before a block that ends."""
        block, never = self.blocked[g], self.never(g)
        if never is not None:
            return never
        if block is not None:
            return block.code
        more, pool = self._new(g) + 1, self._pool_of[g]
        if self._group[g] < more:
            return Code.AT_MAX
        return Code.POOL_EXHAUSTED if pool is not None and self._pool[pool] < more * self._chips[g] else Code.CLUSTER_AT_MAX

    def block(self, g: int) -> GroupBlock | None:
        """The block of the group, unless the group could not have a slice without it either."""
        return None if self.never(g) else self.blocked[g]

    def availability(self, g: int, slices: int) -> tuple[Availability, str]:
        """Whether the group, which has that many slices, may add more, and why not."""
        block, group = self.block(g), self._groups[g]
        if block is not None:
            return block.availability, block.reason
        if self.of(g):
            return Availability.AVAILABLE, ""
        cause = self.cause(g)
        if cause is Code.CLUSTER_AT_MAX:
            unseen = f", counting {self._unseen} that locations not listed yet may have" if self._unseen else ""
            return Availability.AT_MAX, f"the cluster's max_slices {self._most} is reached{unseen}"
        if cause is Code.POOL_EXHAUSTED:
            return Availability.POOL_EXHAUSTED, f"pool {group.pool} has too few chips left for a slice of {group.chips_per_slice}"
        return Availability.AT_MAX, f"{slices} of {group.max_slices} slices"

    def copy(self) -> "Headroom":
        """An independent copy for a trial."""
        twin = object.__new__(Headroom)
        twin.__dict__.update(self.__dict__)
        twin._group, twin._pool = list(self._group), dict(self._pool)
        twin._back, twin.taken_back, twin._charged = list(self._back), list(self.taken_back), list(self._charged)
        return twin
