"""The watch of a location: what each slice was last told, and what it must be told after another look."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import ceil
from typing import NamedTuple

from penstock.contract.inventories import Sighting
from penstock.model.cluster import InventoryRules
from penstock.model.failures import Failure, Phase
from penstock.model.packed import pack, unpack
from penstock.model.slices import IN_FLIGHT, Slice, SliceState

SWEPT_PER_SECOND = 50
"""Healthy slices whose hosts are asked again each second, at most: thousands of them cost a cloud little that way."""
SWEPT_AT_LEAST = 16
"""Healthy slices that may be asked at any look: as many as are asked at once."""

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
"""Of two resources of one slice the one that is most alive speaks for it."""
_LEAVING = (Phase.DELETING, Phase.PREEMPTED, Phase.FAILED)
"""Phases after which absence is no surprise."""
_PHASES = tuple(Phase)
_WHAT_STATES_TELL = {
    SliceState.REQUESTING: (Phase.CREATING, False, False),
    SliceState.BOOTING: (Phase.BOOTING, False, False),
    SliceState.INITIALIZING: (Phase.RUNNING, True, False),
    SliceState.READY: (Phase.RUNNING, True, True),
    SliceState.DRAINING: (Phase.RUNNING, True, True),
}
"""Phase, addresses and health that a slice in a state must have been told; one that is only asked for at least exists."""


class LastNotified(NamedTuple):
    """What a slice was last told, and looks at which it, or one of its hosts, was missing since."""

    group: str
    phase: Phase
    addressed: bool = False
    healthy: bool = False
    silent: tuple[int, ...] = ()
    misses: int = 0
    missing_since: float = 0.0
    silences: int = 0
    silent_since: float = 0.0

    @property
    def has_answered(self) -> bool:
        """Whether its hosts were well once: they can fall silent, those of one that is starting up cannot."""
        return self.healthy or bool(self.silent)

    @property
    def settled(self) -> bool:
        """Whether nothing is expected to change soon; a place in a cloud's queue may last for days."""
        running = self.phase is Phase.RUNNING and self.healthy and not self.silences
        return (running or self.phase is Phase.QUEUED) and not self.misses


NotifiedTable = dict[str, LastNotified]
"""By slice id."""


class Glimpse(NamedTuple):
    """A resource as one look showed it. `healthy` is None if its hosts were not asked; `silent` are those that did not answer."""

    slice_id: str
    group: str
    phase: Phase
    addressed: bool = False
    healthy: bool | None = None
    silent: tuple[int, ...] = ()
    failure: Failure | None = None
    hosts: int | None = None


class Notification(NamedTuple):
    """A sighting to deliver to a slice."""

    slice_id: str
    group: str
    sighting: Sighting


def reconcile(
    known: Mapping[str, LastNotified], glimpses: Iterable[Glimpse], *, complete: bool, at: datetime, rules: InventoryRules
) -> tuple[NotifiedTable, tuple[Notification, ...]]:
    """What is known once the tellings are delivered. Unless the look was complete, what it did not show may well exist."""
    table: NotifiedTable = {}
    tellings: list[Notification] = []
    for glimpse in _one_per_slice(glimpses):
        before = known.get(glimpse.slice_id)
        table[glimpse.slice_id] = now = _seen(before, glimpse, at=at.timestamp(), rules=rules)
        if _is_news(before, now):
            tellings.append(Notification(glimpse.slice_id, glimpse.group, _sighting(now, at, glimpse)))
    for slice_id, before in known.items():
        if slice_id in table:
            continue
        now = _missed(before, at=at.timestamp()) if complete else before
        if _is_lost(now, at=at.timestamp(), rules=rules):
            tellings.append(Notification(slice_id, now.group, Sighting(at=at, phase=Phase.GONE)))
        else:
            table[slice_id] = now
    return table, tuple(tellings)


def _is_news(before: LastNotified | None, now: LastNotified) -> bool:
    """Whether a slice must be told. One that is only being created knows it from the answer to its order."""
    return now.phase is not Phase.CREATING if before is None else _told(before) != _told(now)


def without_undelivered(
    before: Mapping[str, LastNotified], after: Mapping[str, LastNotified], unheard: Iterable[str]
) -> NotifiedTable:
    """What is known if some slices did not hear what they were told: to them it is still news."""
    table = dict(after)
    for slice_id in unheard:
        table.pop(slice_id, None)
        if slice_id in before:
            table[slice_id] = before[slice_id]
    return table


def due_for_health_check(
    known: Mapping[str, LastNotified],
    glimpses: Iterable[Glimpse],
    *,
    asked: Mapping[str, float],
    at: float,
    rules: InventoryRules,
    elapsed: float,
) -> tuple[str, ...]:
    """Slices whose hosts are asked for their health now: all that are not known to be well, and the next few of the others.

    One that was well is asked whatever the list shows of it: a host of it may have lost its address, or its machine.
    `asked` is when each was last asked; `elapsed` the seconds since the last look.
    """
    once_well = {slice_id for slice_id, told in known.items() if told.has_answered}
    running = {g.slice_id for g in glimpses if g.phase not in _LEAVING and (g.slice_id in once_well or _may_answer(g))}
    well = {slice_id for slice_id in running & once_well if known[slice_id].healthy and not known[slice_id].silences}
    period = max(rules.rest_seconds, len(well) / SWEPT_PER_SECOND)
    due = sorted((asked.get(i, 0.0), i) for i in well if at - asked.get(i, 0.0) >= period)
    most = SWEPT_AT_LEAST + ceil(SWEPT_PER_SECOND * elapsed)
    return (*sorted(running - well), *(slice_id for _, slice_id in due[:most]))


def _may_answer(glimpse: Glimpse) -> bool:
    return glimpse.phase is Phase.RUNNING and glimpse.addressed


def pause_after(known: Mapping[str, LastNotified], rules: InventoryRules) -> float:
    """Seconds until the next look: short while something is on its way."""
    settled = all(told.settled for told in known.values())
    return rules.rest_seconds if settled else min(rules.look_seconds, rules.rest_seconds)


class Unconfirmed(NamedTuple):
    """Slices that were told what their state does not show: a workflow that was started anew has heard nothing yet.

    The ledger may lag behind what a slice was told a moment ago, so they are told again only if the next audit shows it too.
    """

    tell_again: frozenset[str] = frozenset()
    until_next: frozenset[str] = frozenset()

    def after(self, known: Mapping[str, LastNotified], ledger: Iterable[Slice]) -> "Unconfirmed":
        """The doubts after another audit."""
        found = frozenset(piece.id for piece in ledger if (told := known.get(piece.id)) and not _shows(piece.state, told))
        return Unconfirmed(found & self.until_next, found - self.until_next)


def never_notified(known: Mapping[str, LastNotified], ledger: Iterable[Slice]) -> tuple[Slice, ...]:
    """Slices that may exist, of which a watch knows nothing: a worker that is killed takes what it saw along."""
    return tuple(piece for piece in ledger if piece.state in _WHAT_STATES_TELL and piece.id not in known)


def recalled(known: Mapping[str, LastNotified], ledger: Iterable[Slice]) -> NotifiedTable:
    """What is known once the ledger's slices that were created here were read.

    Who was there can be missed, also who vanished before the first look; who was well can fall ill.
    """
    table = dict(known)
    for piece in ledger:
        if piece.state not in _WHAT_STATES_TELL:
            continue
        phase, addressed, healthy = _WHAT_STATES_TELL[piece.state]
        told = known.get(piece.id)
        if told is None:
            table[piece.id] = LastNotified(piece.group, phase, addressed, healthy)
        elif healthy and told.phase not in _LEAVING and not told.silent:
            table[piece.id] = told._replace(phase=phase, addressed=addressed, healthy=True)
    return table


def _shows(state: SliceState, told: LastNotified) -> bool:
    if told.phase in (Phase.PREEMPTED, Phase.FAILED) or told.silent:
        return state is SliceState.DELETING
    return not (state in IN_FLIGHT and told.healthy)


def pack_notified(known: Mapping[str, LastNotified]) -> str:
    """The table as one short string: columns, with groups by position."""
    groups = {group: i for i, group in enumerate(dict.fromkeys(told.group for told in known.values()))}
    rows = [
        (groups[told.group], _PHASES.index(told.phase), int(told.addressed) + 2 * int(told.healthy)) for told in known.values()
    ]
    pending = {
        slice_id: [list(told.silent), told.misses, told.missing_since, told.silences, told.silent_since]
        for slice_id, told in known.items()
        if told.silent or told.misses or told.silences
    }
    return pack([list(groups), list(known), [list(column) for column in zip(*rows, strict=True)], pending]) if known else ""


def unpack_notified(text: str) -> NotifiedTable:
    """A packed table; the empty string is the empty table."""
    if not text:
        return {}
    groups, ids, columns, pending = unpack(text)
    table: NotifiedTable = {}
    for slice_id, group, phase, flags in zip(ids, *columns, strict=True):
        silent, *counts = pending.get(slice_id, ((), 0, 0.0, 0, 0.0))
        table[slice_id] = LastNotified(groups[group], _PHASES[phase], bool(flags & 1), bool(flags & 2), tuple(silent), *counts)
    return table


def _one_per_slice(glimpses: Iterable[Glimpse]) -> list[Glimpse]:
    ordered = sorted(glimpses, key=lambda glimpse: _LEAST_ALIVE_FIRST.index(glimpse.phase))
    chosen = {glimpse.slice_id: glimpse for glimpse in ordered}
    return [chosen[slice_id] for slice_id in sorted(chosen)]


def _seen(before: LastNotified | None, glimpse: Glimpse, *, at: float, rules: InventoryRules) -> LastNotified:
    """A slice that was well stays so until its hosts were asked and silent for long enough, or it is on its way out.

    A host that has lost its address, or its machine, is silent; hosts that answer run, whatever the cloud still says.
    """
    now = LastNotified(glimpse.group, glimpse.phase, glimpse.addressed)
    if glimpse.phase in _LEAVING:
        return now
    if glimpse.healthy:
        return now._replace(phase=Phase.RUNNING, healthy=True)
    if before is None or not before.has_answered:
        return now
    before = before._replace(misses=0, missing_since=0.0)
    if glimpse.healthy is None:
        return before
    silences, since = before.silences + 1, before.silent_since or at
    if _enough(silences, at - since, rules):
        return now._replace(silent=glimpse.silent, silences=silences, silent_since=since)
    return before._replace(silences=silences, silent_since=since)


def _missed(before: LastNotified, *, at: float) -> LastNotified:
    return before._replace(misses=before.misses + 1, missing_since=before.missing_since or at)


def _is_lost(told: LastNotified, *, at: float, rules: InventoryRules) -> bool:
    if not told.misses:
        return False
    return told.phase in _LEAVING or _enough(told.misses, at - told.missing_since, rules)


def _enough(misses: int, seconds: float, rules: InventoryRules) -> bool:
    return misses >= rules.lost_misses and seconds >= rules.lost_seconds


def _told(known: LastNotified) -> tuple[Phase, bool, bool, tuple[int, ...]]:
    return (known.phase, known.addressed, known.healthy, known.silent)


def _sighting(known: LastNotified, at: datetime, glimpse: Glimpse) -> Sighting:
    return Sighting(
        at=at,
        phase=known.phase,
        addressed=known.addressed,
        healthy=known.healthy,
        silent_hosts=known.silent,
        hosts=glimpse.hosts,
        failure=None if known.healthy else glimpse.failure,
    )
