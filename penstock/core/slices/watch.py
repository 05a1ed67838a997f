"""Diff one listing against what each slice was last notified of; return the notifications to send."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import ceil
from typing import NamedTuple

from penstock.model.cluster import InventoryRules
from penstock.model.failures import Notice, Phase
from penstock.model.packed import pack, unpack
from penstock.model.sightings import Sighting, addresses_digest
from penstock.model.slices import Slice, SliceState

HEALTH_CHECKS_PER_SECOND = 50
"""Most healthy slices to health-check again per second, so that thousands of slices need few calls."""
LEAST_HEALTH_CHECKS = 16
"""Healthy slices that every poll may check again: as many as are checked concurrently."""

_LEAST_ALIVE_FIRST = (
    Phase.GONE,
    Phase.DELETING,
    Phase.FAILED,
    Phase.PREEMPTED,
    Phase.QUEUED,
    Phase.CREATING,
    Phase.BOOTING,
    Phase.RUNNING,
)
"""If a slice has two resources, the one that is most alive counts."""
_LEAVING = (Phase.DELETING, Phase.PREEMPTED, Phase.FAILED)
"""Phases after which absence is expected."""
_PHASES = tuple(Phase)


class LastNotified(NamedTuple):
    """What a slice was last notified of, and how many polls since then missed the slice or one of its hosts."""

    group: str
    phase: Phase
    addressed: bool = False
    healthy: bool = False
    addresses: int = 0
    """Digest of its hosts' addresses; 0 unless all of them are known."""
    lost_hosts: tuple[int, ...] = ()
    misses: int = 0
    missing_since: float = 0.0
    silences: int = 0
    silent_since: float = 0.0
    notice: Notice | None = None

    @property
    def has_answered(self) -> bool:
        """Whether all its hosts were healthy once. Only then can they fall silent; before, the slice is still starting."""
        return self.healthy or bool(self.lost_hosts)

    @property
    def settled(self) -> bool:
        """Whether no change is expected soon. A slice may stay in a cloud's queue for days."""
        running = self.phase is Phase.RUNNING and self.healthy and not self.silences
        return (running or self.phase is Phase.QUEUED) and not self.misses

    def is_news(self, now: "LastNotified") -> bool:
        """Whether the slice must be notified of `now`."""
        if self.addresses and now.addresses and self.addresses != now.addresses:
            return True
        facts = (self.phase, self.addressed, self.healthy, self.lost_hosts, self.notice)
        return facts != (now.phase, now.addressed, now.healthy, now.lost_hosts, now.notice)

    @property
    def is_first_news(self) -> bool:
        """Whether a slice must be notified that has not been before: it knows from its own create call that it is CREATING."""
        return self.phase is not Phase.CREATING or self.notice is not None


NotifiedTable = dict[str, LastNotified]
"""By slice id."""


class Notification(NamedTuple):
    """A sighting to deliver to a slice; None if the slice is no longer listed, so that its end must be confirmed by name."""

    slice_id: str
    group: str
    sighting: Sighting | None


def reconcile(
    known: Mapping[str, LastNotified], sightings: Iterable[Sighting], *, complete: bool, at: datetime, rules: InventoryRules
) -> tuple[NotifiedTable, tuple[Notification, ...]]:
    """The table after all notifications are delivered, and the notifications. An incomplete listing is no evidence of absence."""
    table: NotifiedTable = {}
    notifications: list[Notification] = []
    for sighting in _one_per_slice(sightings):
        before = known.get(sighting.slice_id)
        table[sighting.slice_id] = now = _seen(before, sighting, at=at.timestamp(), rules=rules)
        if now.is_first_news if before is None else before.is_news(now):
            notifications.append(Notification(sighting.slice_id, sighting.group, _as_notified(sighting, now)))
    for slice_id, before in known.items():
        if slice_id in table:
            continue
        now = _missed(before, at=at.timestamp()) if complete else before
        if _is_lost(now, at=at.timestamp(), rules=rules):
            notifications.append(Notification(slice_id, now.group, None))
        else:
            table[slice_id] = now
    return table, tuple(notifications)


def _as_notified(sighting: Sighting, now: LastNotified) -> Sighting:
    """The sighting with the phase and lost hosts that follow from earlier polls."""
    failure = None if now.healthy else sighting.failure
    return sighting.model_copy(update={"phase": now.phase, "lost_hosts": now.lost_hosts, "failure": failure})


def without_undelivered(
    before: Mapping[str, LastNotified], after: Mapping[str, LastNotified], undelivered: Iterable[str]
) -> NotifiedTable:
    """The table if some notifications were not delivered: they are sent again at the next look."""
    table = dict(after)
    for slice_id in undelivered:
        table.pop(slice_id, None)
        if slice_id in before:
            table[slice_id] = before[slice_id]
    return table


def due_for_health_check(
    known: Mapping[str, LastNotified],
    sightings: Iterable[Sighting],
    *,
    asked: Mapping[str, float],
    at: float,
    rules: InventoryRules,
    elapsed: float,
) -> tuple[str, ...]:
    """Slices whose hosts are health-checked now: all that are not known to be healthy, and the next few of the healthy ones.

    A slice that was healthy once is checked whatever the listing shows: a host may have lost its address, or its machine.
    `asked` is when each was last checked; `elapsed` the seconds since the last look.
    """
    once_healthy = {slice_id for slice_id, last in known.items() if last.has_answered}
    running = {
        one.slice_id
        for one in sightings
        if one.phase not in _LEAVING and (one.slice_id in once_healthy or (one.phase is Phase.RUNNING and one.addressed))
    }
    healthy = {slice_id for slice_id in running & once_healthy if known[slice_id].healthy and not known[slice_id].silences}
    period = max(rules.rest_seconds, len(healthy) / HEALTH_CHECKS_PER_SECOND)
    due = sorted((asked.get(i, 0.0), i) for i in healthy if at - asked.get(i, 0.0) >= period)
    most = LEAST_HEALTH_CHECKS + ceil(HEALTH_CHECKS_PER_SECOND * elapsed)
    return (*sorted(running - healthy), *(slice_id for _, slice_id in due[:most]))


def pause_after(known: Mapping[str, LastNotified], rules: InventoryRules) -> float:
    """Seconds until the next look: short while a slice is starting or leaving."""
    settled = all(last.settled for last in known.values())
    return rules.rest_seconds if settled else min(rules.look_seconds, rules.rest_seconds)


class Unconfirmed(NamedTuple):
    """Slices whose ledger state lags what we sent them: a report in flight, or a restarted workflow that lost it.

    Resend only if the next audit still shows it.
    """

    resend: frozenset[str] = frozenset()
    until_next: frozenset[str] = frozenset()

    def after(self, known: Mapping[str, LastNotified], ledger: Iterable[Slice]) -> "Unconfirmed":
        """The slices after another audit."""
        found = frozenset(piece.id for piece in ledger if (last := known.get(piece.id)) and not _shows(piece, last))
        return Unconfirmed(found & self.until_next, found - self.until_next)


def _shows(piece: Slice, last: LastNotified) -> bool:
    """Whether a slice has acted on what it was last notified of. One that is deleted needs no notice any more."""
    if last.phase in (Phase.PREEMPTED, Phase.FAILED) or last.lost_hosts:
        return piece.state is SliceState.DELETING
    if piece.state.live and piece.notice != last.notice:
        return False
    return not (piece.state.in_flight and last.healthy)


def never_notified(known: Mapping[str, LastNotified], ledger: Iterable[Slice]) -> tuple[Slice, ...]:
    """Slices that may exist and that this watch has no entry for: a killed worker loses what it saw."""
    return tuple(piece for piece in ledger if piece.state.live and piece.id not in known)


def recalled(known: Mapping[str, LastNotified], ledger: Iterable[Slice]) -> NotifiedTable:
    """The table completed from the ledger, for slices that were created at this location.

    Without an entry, a slice that disappeared before the first poll would never be reported as missing.
    """
    table = dict(known)
    for piece in ledger:
        implied = _implied(piece)
        if implied is None:
            continue
        last = known.get(piece.id)
        if last is None:
            table[piece.id] = implied
        elif implied.healthy and last.phase not in _LEAVING and not last.lost_hosts:
            table[piece.id] = last._replace(phase=implied.phase, addressed=True, healthy=True)
    return table


def _implied(piece: Slice) -> LastNotified | None:
    """What a slice in each state must already have been notified of. REQUESTING implies only that the resource exists."""
    match piece.state:
        case SliceState.REQUESTING:
            phase = Phase.CREATING
        case SliceState.BOOTING:
            phase = Phase.BOOTING
        case SliceState.INITIALIZING | SliceState.READY | SliceState.DRAINING:
            phase = Phase.RUNNING
        case SliceState.DELETING | SliceState.TERMINATED | SliceState.FAILED:
            return None
    state = piece.state
    addresses = addresses_digest(piece.hosts)
    return LastNotified(piece.group, phase, state.has_hosts, state.was_ready, addresses, notice=piece.notice)


def pack_notified(known: Mapping[str, LastNotified]) -> str:
    """The table as one short string: columns, with groups by position. Few slices have anything pending or a notice."""
    groups = {group: i for i, group in enumerate(dict.fromkeys(last.group for last in known.values()))}
    rows = [
        (groups[last.group], _PHASES.index(last.phase), int(last.addressed) + 2 * int(last.healthy), last.addresses)
        for last in known.values()
    ]
    pending = {
        slice_id: [list(last.lost_hosts), last.misses, last.missing_since, last.silences, last.silent_since]
        for slice_id, last in known.items()
        if last.lost_hosts or last.misses or last.silences
    }
    notices = {slice_id: last.notice.model_dump(mode="json") for slice_id, last in known.items() if last.notice is not None}
    columns = [list(column) for column in zip(*rows, strict=True)]
    return pack([list(groups), list(known), columns, pending, *([notices] if notices else [])]) if known else ""


def unpack_notified(text: str) -> NotifiedTable:
    """A packed table; the empty string is the empty table."""
    if not text:
        return {}
    groups, ids, columns, pending, *more = unpack(text)
    notices = {slice_id: Notice.model_validate(raw) for slice_id, raw in (more[0] if more else {}).items()}
    table: NotifiedTable = {}
    for slice_id, group, phase, flags, addresses in zip(ids, *columns, strict=True):
        lost, *counts = pending.get(slice_id, ((), 0, 0.0, 0, 0.0))
        facts = (groups[group], _PHASES[phase], bool(flags & 1), bool(flags & 2), addresses)
        table[slice_id] = LastNotified(*facts, tuple(lost), *counts)._replace(notice=notices.get(slice_id))
    return table


def _one_per_slice(sightings: Iterable[Sighting]) -> list[Sighting]:
    ordered = sorted(sightings, key=lambda sighting: _LEAST_ALIVE_FIRST.index(sighting.phase))
    chosen = {sighting.slice_id: sighting for sighting in ordered}
    return [chosen[slice_id] for slice_id in sorted(chosen)]


def _seen(before: LastNotified | None, sighting: Sighting, *, at: float, rules: InventoryRules) -> LastNotified:
    """The entry after a poll. A healthy slice stays healthy until checked hosts were silent for long enough, or it leaves.

    A host that has lost its address, or its machine, is silent. Hosts that answer run, whatever phase the cloud shows.
    """
    addresses = addresses_digest(sighting.hosts)
    now = LastNotified(sighting.group, sighting.phase, sighting.addressed, addresses=addresses, notice=sighting.notice)
    if sighting.phase in _LEAVING:
        return now
    if sighting.healthy:
        return now._replace(phase=Phase.RUNNING, healthy=True)
    if before is None or not before.has_answered:
        return now
    kept = now.addresses or before.addresses
    before = before._replace(misses=0, missing_since=0.0, addresses=kept, notice=now.notice)
    if not sighting.checked:
        return before
    silences, since = before.silences + 1, before.silent_since or at
    if _enough(silences, at - since, rules):
        return now._replace(lost_hosts=sighting.silent_hosts, silences=silences, silent_since=since)
    return before._replace(silences=silences, silent_since=since)


def _missed(before: LastNotified, *, at: float) -> LastNotified:
    return before._replace(misses=before.misses + 1, missing_since=before.missing_since or at)


def _is_lost(last: LastNotified, *, at: float, rules: InventoryRules) -> bool:
    if not last.misses:
        return False
    return last.phase in _LEAVING or _enough(last.misses, at - last.missing_since, rules)


def _enough(misses: int, seconds: float, rules: InventoryRules) -> bool:
    return misses >= rules.lost_misses and seconds >= rules.lost_seconds
