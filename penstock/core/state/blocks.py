"""Blocks of groups after failures: which groups, for how long, and what ends a block."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from penstock.core.state.state import AutoscalerState, Block, BlockScope
from penstock.core.state.unlisted import health_of_unlisted
from penstock.model.cluster import Backoff, ClusterConfig, ScaleGroup
from penstock.model.failures import Failure, FailureKind, Scope
from penstock.model.slices import Availability, Health, Slice

FIRST_QUOTA_BLOCK = timedelta(minutes=5)
LONGEST_QUOTA_BLOCK = timedelta(minutes=15)
"""A deletion of our own frees quota and ends the block at once; otherwise an operator raises the quota."""
LEAST_RATE_PAUSE = timedelta(seconds=1)
PERMISSION_BLOCK = timedelta(days=1)
"""An operator fixes permissions and clears the block; without that, one try a day finds out."""
EARLY_LOSS_AGE = timedelta(minutes=15)
"""A slice that dies younger than this counts as a failure of its group."""
FAILURE_MEMORY = timedelta(hours=1)
"""How long after the end of a block the next failure still counts as consecutive."""

SAME_INCIDENT = timedelta(seconds=10)
"""Failures within this time of each other have one reason."""

_ENOUGH_DOUBLINGS = 20
_NEVER_CAME = (FailureKind.STOCKOUT, FailureKind.REQUESTING_TIMEOUT, FailureKind.CONFLICT)
_REFUSED = (
    FailureKind.STOCKOUT,
    FailureKind.QUOTA,
    FailureKind.RATE_LIMIT,
    FailureKind.PERMISSION,
    FailureKind.INVALID,
    FailureKind.CONFLICT,
    FailureKind.REQUESTING_TIMEOUT,
)
"""A slice that failed this way never existed: its end frees no quota."""
_DIED = (FailureKind.PREEMPTED, FailureKind.HOST_LOST, FailureKind.GONE)


class BlockKey(NamedTuple):
    """What a block covers, and the family of failures that it counts. There is at most one block per key."""

    scope: BlockScope
    subject: str
    account: str
    family: FailureKind

    @classmethod
    def of(cls, block: Block) -> "BlockKey":
        """The key of a block."""
        return cls(block.scope, block.subject, block.account, _family(block.kind))


def after_failure(
    blocks: Sequence[Block],
    failure: Failure,
    group: ScaleGroup,
    *,
    at: datetime,
    ordered_at: datetime,
    age: timedelta,
    backoff: Backoff,
) -> tuple[Block, ...]:
    """The blocks after a slice of the group failed; `age` is how long it existed. Slices that fail together count once."""
    kept = {BlockKey.of(block): block for block in blocks if not _is_forgotten(block, at)}
    if failure.kind in _DIED and age >= EARLY_LOSS_AGE:
        return tuple(kept.values())
    key = _covered(failure, group)
    kept[key] = _block(failure, key, kept.get(key), at=at, ordered_at=ordered_at, backoff=backoff)
    return tuple(kept.values())


def _block(
    failure: Failure, key: BlockKey, before: Block | None, *, at: datetime, ordered_at: datetime, backoff: Backoff
) -> Block:
    """The block after a failure. The same incident changes it only if a rate limit asks for a longer pause."""
    if before is None:
        return _blocked(failure, key, 1, at=at, backoff=backoff)
    if not _is_active(before, at) and not _failed_together(before, at, ordered_at=ordered_at):
        return _blocked(failure, key, before.failures + 1, at=at, backoff=backoff)
    if failure.kind is not FailureKind.RATE_LIMIT:
        return before
    again = _blocked(failure, key, 1, at=at, backoff=backoff)
    return max(before, again, key=lambda block: _end(block.health))


def _failed_together(block: Block, at: datetime, *, ordered_at: datetime) -> bool:
    """Whether a slice fails together with the one that was counted. A slice ordered after that failure is another try."""
    return at - block.at < SAME_INCIDENT and ordered_at <= block.at


def after_ready(blocks: Sequence[Block], group: ScaleGroup, *, ordered_at: datetime) -> tuple[Block, ...]:
    """A slice that was ordered after the stockout became READY, so the stockout is over. An earlier order proves nothing."""

    def is_over(block: Block) -> bool:
        own = block.scope == "group" and block.subject == group.name
        return own and block.kind in _NEVER_CAME and block.at < ordered_at

    return tuple(block for block in blocks if not is_over(block))


def after_joined(blocks: Sequence[Block], piece: Slice) -> tuple[Block, ...]:
    """A slice joined that did not join before, or that became READY after another one had not: slices of its group join again."""

    def is_over(block: Block) -> bool:
        unclaimed = block.kind is FailureKind.UNCLAIMED and block.subject == piece.group
        return unclaimed and (piece.unclaimed is not None or (piece.since is not None and block.at < piece.since))

    return tuple(block for block in blocks if not is_over(block))


def after_deletion(blocks: Sequence[Block], group: ScaleGroup, *, failure: Failure | None = None) -> tuple[Block, ...]:
    """A slice of the group is gone, which frees quota, unless the cloud had refused it."""
    if failure is not None and failure.kind in _REFUSED:
        return tuple(blocks)
    return tuple(b for b in blocks if b.kind is not FailureKind.QUOTA or not covers(b, group))


def after_failed_listing(
    blocks: Sequence[Block], failure: Failure, groups: Sequence[ScaleGroup], *, at: datetime, backoff: Backoff
) -> tuple[Block, ...]:
    """Block every group of a location that cannot be listed (permission, invalid settings) until a listing succeeds.

    A block that creates caused for the same reason ends with that listing too.
    """
    for group in groups:
        key = _covered(failure, group)
        after = after_failure(blocks, failure, group, at=at, ordered_at=at, age=timedelta(), backoff=backoff)
        blocks = tuple(block.model_copy(update={"looking": True}) if BlockKey.of(block) == key else block for block in after)
    return tuple(blocks)


def after_listing(blocks: Sequence[Block], groups: Sequence[ScaleGroup]) -> tuple[Block, ...]:
    """The location of the groups was listed: blocks caused by failed listings end."""
    return tuple(block for block in blocks if not (block.looking and any(covers(block, group) for group in groups)))


def after_config(blocks: Sequence[Block], before: ClusterConfig | None, after: ClusterConfig) -> tuple[Block, ...]:
    """A changed group is no longer invalid; a removed group takes its blocks with it."""

    def stands(block: Block) -> bool:
        group = after.group(block.subject)
        same = group is not None and before is not None and before.group(block.subject) == group
        return block.scope != "group" or (group is not None and (same or block.kind is not FailureKind.INVALID))

    return tuple(block for block in blocks if stands(block))


def cleared(blocks: Sequence[Block], group: ScaleGroup | None) -> tuple[Block, ...]:
    """The blocks without those of the group; none at all if no group is given."""
    return tuple(block for block in blocks if group is not None and not covers(block, group))


def covers(block: Block, group: ScaleGroup) -> bool:
    """Whether a block covers a group."""
    if block.scope == "group":
        return block.subject == group.name
    if block.account != group.provider.account:
        return False
    return block.scope == "project" or block.subject == (group.zone if block.scope == "zone" else group.region)


def health_of(state: AutoscalerState, config: ClusterConfig, now: datetime) -> dict[str, Health]:
    """The health of every blocked group: that of its location if that cannot be seen, else of the block that ends last."""
    active = [block for block in state.blocks if _is_active(block, now)]
    unseen = health_of_unlisted(state, config)
    found: dict[str, Health] = {}
    for group in config.groups if active else ():
        own = [block.health for block in active if covers(block, group)]
        if own:
            found[group.name] = max(own, key=_end)
    return found | unseen


def blocks_of(health: Mapping[str, Health], at: datetime) -> tuple[Block, ...]:
    """Blocks that give groups this health, for a state that is written by hand."""
    return tuple(
        Block(scope="group", subject=group, account="", health=one, kind=FailureKind.STOCKOUT, at=at)
        for group, one in health.items()
        if one.availability is not Availability.AVAILABLE
    )


def _covered(failure: Failure, group: ScaleGroup) -> BlockKey:
    """What a failure blocks: the scope that a quota or permission error names, the account for a rate limit, else the group."""
    account, family = group.provider.account, _family(failure.kind)
    if failure.kind is FailureKind.RATE_LIMIT or failure.scope is Scope.PROJECT:
        return BlockKey("project", account, account, family)
    if failure.kind in (FailureKind.QUOTA, FailureKind.PERMISSION) and failure.scope is not None and failure.subject:
        return BlockKey("zone" if failure.scope is Scope.ZONE else "region", failure.subject, account, family)
    return BlockKey("group", group.name, account, family)


def _blocked(failure: Failure, key: BlockKey, failures: int, *, at: datetime, backoff: Backoff) -> Block:
    availability, until = _verdict(failure, failures, at=at, backoff=backoff)
    return Block(
        scope=key.scope,
        subject=key.subject,
        account=key.account,
        health=Health(availability=availability, until=until, reason=failure.message or failure.kind.replace("_", " ")),
        kind=failure.kind,
        failures=failures,
        at=at,
    )


def _verdict(failure: Failure, failures: int, *, at: datetime, backoff: Backoff) -> tuple[Availability, datetime | None]:
    """The availability after a failure, and until when."""
    first, longest = timedelta(seconds=backoff.first_seconds), timedelta(seconds=backoff.longest_seconds)
    match failure.kind:
        case FailureKind.QUOTA:
            return Availability.QUOTA_EXCEEDED, at + _grown(FIRST_QUOTA_BLOCK, LONGEST_QUOTA_BLOCK, failures)
        case FailureKind.RATE_LIMIT:
            return Availability.RATE_LIMITED, at + max(LEAST_RATE_PAUSE, timedelta(seconds=failure.retry_after_seconds))
        case FailureKind.INVALID:
            return Availability.DISABLED, None
        case FailureKind.PERMISSION:
            return Availability.DISABLED, at + PERMISSION_BLOCK
        case FailureKind.PREEMPTED | FailureKind.HOST_LOST | FailureKind.GONE:
            # One slice lost early is replaced at once; a second one in a row blocks the group.
            return Availability.BACKOFF, at + (_grown(first, longest, failures - 1) if failures > 1 else timedelta())
        case _:
            return Availability.BACKOFF, at + _grown(first, longest, failures)


def _grown(first: timedelta, longest: timedelta, failures: int) -> timedelta:
    """Twice as long with each consecutive failure, up to the longest."""
    return min(longest, first * (1 << min(failures - 1, _ENOUGH_DOUBLINGS)))


def _family(kind: FailureKind) -> FailureKind:
    """Kinds that are counted as one: all ways in which a running slice is lost."""
    return FailureKind.GONE if kind in _DIED else kind


def _is_active(block: Block, now: datetime) -> bool:
    return block.health.until is None or block.health.until > now


def _is_forgotten(block: Block, now: datetime) -> bool:
    return block.health.until is not None and block.health.until + FAILURE_MEMORY <= now


def _end(health: Health) -> float:
    return float("inf") if health.until is None else health.until.timestamp()
