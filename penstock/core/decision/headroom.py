"""Headroom: how many slices each group may still add under its maximum, the cluster's, its pool's, and its blocks."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, assert_never

from penstock.core.decision.patience import health_with_queues, is_blocking
from penstock.model.cluster import ScaleGroup
from penstock.model.decision import Code
from penstock.model.slices import Availability, Health
from penstock.model.snapshot import Snapshot

UNLIMITED = 1 << 60
"""More slices than any cloud has."""


class GroupBlock(NamedTuple):
    """Why a group may not add slices, and until when."""

    code: Code
    availability: Availability
    until: datetime | None
    reason: str


def blocks(groups: Sequence[ScaleGroup], health: Mapping[str, Health], now: datetime) -> list[GroupBlock | None]:
    """The block of each group: its own health, or an exceeded quota at an equal or lower tier of its quota pool."""
    own = [_own_block(health.get(group.name), now) for group in groups]
    lowest: dict[str, tuple[int, int]] = {}
    for g, group in enumerate(groups):
        block = own[g]
        if group.quota_pool is not None and block is not None and block.availability is Availability.QUOTA_EXCEEDED:
            lowest[group.quota_pool] = min(lowest.get(group.quota_pool, (group.quota_tier, g)), (group.quota_tier, g))
    for g, group in enumerate(groups):
        failed = lowest.get(group.quota_pool) if group.quota_pool is not None else None
        if failed is not None and own[g] is None and group.quota_tier >= failed[0]:
            cause = own[failed[1]]
            assert cause is not None
            reason = f"{groups[failed[1]].name} exceeded quota pool {group.quota_pool} at quota tier {failed[0]}"
            own[g] = GroupBlock(Code.TIER_BLOCKED, Availability.QUOTA_EXCEEDED, cause.until, reason)
    return own


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

    def __init__(self, snapshot: Snapshot, groups: Sequence[ScaleGroup], counts: Sequence[int]) -> None:
        """`counts` are each group's slices in the ledger, in any state. Slices of removed groups count too."""
        config, names = snapshot.config, {group.name for group in groups}
        self._groups, self._most = groups, config.max_slices
        self._group = [max(0, group.max_slices - count) for group, count in zip(groups, counts, strict=True)]
        self._cluster = UNLIMITED if config.max_slices is None else max(0, config.max_slices - len(snapshot.slices))
        self._pool_of = [group.pool for group in groups]
        self._chips = [group.chips_per_slice for group in groups]
        self.charged = {pool.name: 0 for pool in config.pools}
        for pool, chips, count in zip(self._pool_of, self._chips, counts, strict=True):
            if pool is not None:
                self.charged[pool] += chips * count
        for piece in snapshot.slices:
            if piece.pool in self.charged and piece.group not in names:
                self.charged[piece.pool] += piece.chips
        self._pool = {pool.name: max(0, pool.chips - pool.system - self.charged[pool.name]) for pool in config.pools}
        self.blocked = blocks(groups, health_with_queues(config, snapshot.slices, snapshot.health, snapshot.now), snapshot.now)

    def of(self, g: int) -> int:
        """Slices that the group may still add."""
        if self.blocked[g] is not None:
            return 0
        left = min(self._group[g], self._cluster)
        pool = self._pool_of[g]
        return left if pool is None else min(left, self._pool[pool] // self._chips[g])

    def order(self, g: int, slices: int) -> None:
        """Charge slices of the group; a negative number returns them."""
        self._group[g] -= slices
        self._cluster -= slices
        pool = self._pool_of[g]
        if pool is not None:
            self._pool[pool] -= slices * self._chips[g]

    def cause(self, g: int) -> Code:
        """What keeps the group from adding one slice more than its headroom."""
        block = self.blocked[g]
        if block is not None:
            return block.code
        more, pool = self.of(g) + 1, self._pool_of[g]
        if self._group[g] < more:
            return Code.AT_MAX
        return Code.POOL_EXHAUSTED if pool is not None and self._pool[pool] < more * self._chips[g] else Code.CLUSTER_AT_MAX

    def availability(self, g: int, slices: int) -> tuple[Availability, str]:
        """Whether the group, which has that many slices, may add more, and why not."""
        block, group = self.blocked[g], self._groups[g]
        if block is not None:
            return block.availability, block.reason
        if self.of(g):
            return Availability.AVAILABLE, ""
        cause = self.cause(g)
        if cause is Code.CLUSTER_AT_MAX:
            return Availability.AT_MAX, f"the cluster's max_slices {self._most} is reached"
        if cause is Code.POOL_EXHAUSTED:
            return Availability.POOL_EXHAUSTED, f"pool {group.pool} has too few chips left for a slice of {group.chips_per_slice}"
        return Availability.AT_MAX, f"{slices} of {group.max_slices} slices"

    def copy(self) -> "Headroom":
        """An independent copy for a trial."""
        twin = object.__new__(Headroom)
        twin.__dict__.update(self.__dict__)
        twin._group, twin._pool = list(self._group), dict(self._pool)
        return twin
