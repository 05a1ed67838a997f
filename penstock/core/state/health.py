"""What failures do to the groups they concern: who is blocked, for how long, and what ends it."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from penstock.core.state.state import AutoscalerState, Block, BlockScope
from penstock.model.cluster import Backoff, ClusterConfig, ScaleGroup
from penstock.model.failures import Failure, FailureKind, Scope
from penstock.model.slices import Availability, Health

FIRST_QUOTA_BLOCK = timedelta(minutes=5)
LONGEST_QUOTA_BLOCK = timedelta(minutes=15)
"""Quotas are freed by our own deletions, which end the block at once, or by people."""
LEAST_RATE_PAUSE = timedelta(seconds=1)
PERMISSION_BLOCK = timedelta(days=1)
"""Permissions are mended by people, who clear the block; if nobody does, one try a day tells."""
YOUNG = timedelta(minutes=15)
"""A slice that dies before this age was hardly worth its order."""
MEMORY = timedelta(hours=1)
"""How long after a block's end the next failure still counts as in a row."""

TOGETHER = timedelta(seconds=10)
"""Slices that fail within this time of each other fail for one reason."""

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
"""A slice that failed so was never given: its end frees nothing."""
_DIED = (FailureKind.PREEMPTED, FailureKind.HOST_LOST, FailureKind.GONE)


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
    """The blocks once a slice of the group failed, so long after it came. Slices that fail together count as one failure."""
    kept = tuple(block for block in blocks if not _is_forgotten(block, at))
    if failure.kind in _DIED and age >= YOUNG:
        return kept
    scope, subject = _covers(failure, group)
    key = (scope, subject, group.provider.account)
    before = next((block for block in kept if _key(block) == (*key, _family(failure.kind))), None)
    again = before is not None and (_is_active(before, at) or _at_once(before, at, ordered_at=ordered_at))
    if again and failure.kind is not FailureKind.RATE_LIMIT:
        return kept
    failures = 1 if before is None or again else before.failures + 1
    block = _block(failure, key, failures, at=at, backoff=backoff)
    return kept if before is not None and again and _end(before.health) >= _end(block.health) else _with(kept, block)


def _at_once(block: Block, at: datetime, *, ordered_at: datetime) -> bool:
    """Whether a slice fails with the one that was counted. What was ordered after that one failed is another try."""
    return at - block.at < TOGETHER and ordered_at <= block.at


def after_ready(blocks: Sequence[Block], group: ScaleGroup, *, ordered_at: datetime) -> tuple[Block, ...]:
    """A slice came that was ordered since: the stockout is over. One ordered before it says nothing about it."""

    def is_over(block: Block) -> bool:
        own = block.scope == "group" and block.subject == group.name
        return own and block.kind in _NEVER_CAME and block.at < ordered_at

    return tuple(block for block in blocks if not is_over(block))


def after_deletion(blocks: Sequence[Block], group: ScaleGroup, *, failure: Failure | None = None) -> tuple[Block, ...]:
    """A slice of the group is gone: there is quota again, unless it was refused and never there."""
    if failure is not None and failure.kind in _REFUSED:
        return tuple(blocks)
    return tuple(b for b in blocks if b.kind is not FailureKind.QUOTA or not covers(b, group))


def after_refused_look(
    blocks: Sequence[Block],
    failure: Failure,
    groups: Sequence[ScaleGroup],
    *,
    at: datetime,
    backoff: Backoff,
    orders_too: bool = False,
) -> tuple[Block, ...]:
    """The blocks once the location of the groups could not be looked at: where nothing can be seen, nothing is ordered.

    What blocks them for the same reason already, because orders were refused, ends with the first look that succeeds as well:
    `orders_too` says so, for histories in which it did not.
    """
    for group in groups:
        before, key = blocks, (*_covers(failure, group), group.provider.account, _family(failure.kind))
        after = after_failure(before, failure, group, at=at, ordered_at=at, age=timedelta(), backoff=backoff)
        blocks = tuple(
            block.model_copy(update={"looking": True}) if block not in before or (orders_too and _key(block) == key) else block
            for block in after
        )
    return tuple(blocks)


def after_look(blocks: Sequence[Block], groups: Sequence[ScaleGroup]) -> tuple[Block, ...]:
    """The location of the groups could be looked at."""
    return tuple(block for block in blocks if not (block.looking and any(covers(block, group) for group in groups)))


def after_config(blocks: Sequence[Block], before: ClusterConfig | None, after: ClusterConfig) -> tuple[Block, ...]:
    """What was invalid no longer stands once the group's configuration changed; what blocked a group goes with it."""

    def stands(block: Block) -> bool:
        group = after.group(block.subject)
        same = group is not None and before is not None and before.group(block.subject) == group
        return block.scope != "group" or (group is not None and (same or block.kind is not FailureKind.INVALID))

    return tuple(block for block in blocks if stands(block))


def cleared(blocks: Sequence[Block], group: ScaleGroup | None) -> tuple[Block, ...]:
    """Without what blocks the group; without everything if no group is given."""
    return tuple(block for block in blocks if group is not None and not covers(block, group))


def covers(block: Block, group: ScaleGroup) -> bool:
    """Whether a block concerns a group."""
    if block.scope == "group":
        return block.subject == group.name
    if block.account != group.provider.account:
        return False
    return block.scope == "project" or block.subject == (group.zone if block.scope == "zone" else group.region)


def health_of(state: AutoscalerState, config: ClusterConfig, now: datetime) -> dict[str, Health]:
    """Every group's health: what was set for it, or the longest of what blocks it."""
    found: dict[str, Health] = dict(state.health)
    active = [block for block in state.blocks if _is_active(block, now)]
    for group in config.groups if active else ():
        own = [block.health for block in active if covers(block, group)]
        if own:
            found[group.name] = max([*own, found.get(group.name, own[0])], key=_end)
    return found


def _covers(failure: Failure, group: ScaleGroup) -> tuple[BlockScope, str]:
    """What a failure speaks of: a quota or permission names it, a rate limit is the account's, all else the group's."""
    if failure.kind is FailureKind.RATE_LIMIT or failure.scope is Scope.PROJECT:
        return "project", group.provider.account
    if failure.kind in (FailureKind.QUOTA, FailureKind.PERMISSION) and failure.scope is not None and failure.subject:
        return ("zone" if failure.scope is Scope.ZONE else "region"), failure.subject
    return "group", group.name


def _block(failure: Failure, key: tuple[BlockScope, str, str], failures: int, *, at: datetime, backoff: Backoff) -> Block:
    scope, subject, account = key
    availability, until = _verdict(failure, failures, at=at, backoff=backoff)
    health = Health(availability=availability, until=until, reason=failure.message or failure.kind.replace("_", " "))
    return Block(scope=scope, subject=subject, account=account, health=health, kind=failure.kind, failures=failures, at=at)


def _verdict(failure: Failure, failures: int, *, at: datetime, backoff: Backoff) -> tuple[Availability, datetime | None]:
    """How a failure blocks, and until when."""
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
            # One early death is bad luck and is replaced at once; the second in a row says something about the group.
            return Availability.BACKOFF, at + (_grown(first, longest, failures - 1) if failures > 1 else timedelta())
        case _:
            return Availability.BACKOFF, at + _grown(first, longest, failures)


def _grown(first: timedelta, longest: timedelta, failures: int) -> timedelta:
    """Twice as long with each failure in a row, up to the longest."""
    return min(longest, first * (1 << min(failures - 1, _ENOUGH_DOUBLINGS)))


def _key(block: Block) -> tuple[str, str, str, FailureKind]:
    return (block.scope, block.subject, block.account, _family(block.kind))


def _family(kind: FailureKind) -> FailureKind:
    """Kinds that are counted as one: all ways in which a slice does not stay."""
    return FailureKind.GONE if kind in _DIED else kind


def _with(blocks: Sequence[Block], block: Block) -> tuple[Block, ...]:
    return (*(other for other in blocks if _key(other) != _key(block)), block)


def _is_active(block: Block, now: datetime) -> bool:
    return block.health.until is None or block.health.until > now


def _is_forgotten(block: Block, now: datetime) -> bool:
    return block.health.until is not None and block.health.until + MEMORY <= now


def _end(health: Health) -> float:
    return float("inf") if health.until is None else health.until.timestamp()
