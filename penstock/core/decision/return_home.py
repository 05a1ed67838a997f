"""Return home: which slices go back to the group that their demand preferred, once that group has settled."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from penstock.core.decision.protections import takes_no_work
from penstock.model.cluster import ScaleGroup
from penstock.model.elasticity import Drive, ReturnHome
from penstock.model.slices import DrainCause, Slice, SliceState
from penstock.model.snapshot import Snapshot

Room = Callable[[int], int]
"""How many slices the group of a number can add now."""


class Returning(NamedTuple):
    """One slice, or all slices of a gang, with the numbers of the groups that they return to."""

    members: tuple[tuple[Slice, int], ...]

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the slices."""
        return frozenset(piece.id for piece, _ in self.members)


class NextReturn(NamedTuple):
    """What returns now, if anything does, and when time alone may change that."""

    returning: Returning | None
    moments: tuple[datetime, ...] = ()


def next_return(snapshot: Snapshot, number: Mapping[str, int], replaced: Mapping[str, Slice], room: Room) -> NextReturn:
    """The next slices to return: one slice at a time, a gang's slices as one, the oldest first.

    `replaced` are the slices that are there for others, by the id of the slice that each replaces: a return that has begun goes
    on, unless its group can no longer take all of it.
    """
    rules = snapshot.config.return_home
    if rules is None or any(piece.drain is not None and _returns(piece) for piece in snapshot.slices):
        return NextReturn(None)
    moments: list[datetime] = []
    fresh: Returning | None = None
    for each in _candidates(snapshot, number):
        missing = [home for piece, home in each.members if not _is_at(replaced.get(piece.id), home, number)]
        if any(room(home) < missing.count(home) for home in missing):
            continue
        if len(missing) < len(each.members):
            return NextReturn(each)
        settled = max(_settled_at(snapshot, rules, piece.home) for piece, _ in each.members)
        if settled > snapshot.now:
            moments.append(settled)
        elif fresh is None:
            fresh = each
    return NextReturn(fresh, tuple(moments))


def _returns(piece: Slice) -> bool:
    return piece.state.live and piece.drain is not None and piece.drain.known_cause is DrainCause.RETURN_HOME


def _is_at(new: Slice | None, home: int, number: Mapping[str, int]) -> bool:
    """Whether a replacement is there already, in the group to return to."""
    return new is not None and number.get(new.group) == home


def _settled_at(snapshot: Snapshot, rules: ReturnHome, home: str) -> datetime:
    """From when slices may return to a group; now, if it has had no setback."""
    setback = snapshot.setbacks.get(home)
    return snapshot.now if setback is None else setback.settled_at(rules.settle_seconds)


def _candidates(snapshot: Snapshot, number: Mapping[str, int]) -> Iterator[Returning]:
    """Slices away from home with work on them, each with all others that run the same gangs. Part of a gang never moves alone."""
    away = {piece.id: piece for piece in snapshot.slices if _is_away(snapshot, piece)}
    if not away:
        return
    of_gang = _slices_by_gang(snapshot)
    seen: set[str] = set()
    for slice_id in away:
        if slice_id in seen:
            continue
        together = _together(slice_id, snapshot, of_gang)
        seen.update(together)
        if all(each in away for each in together):
            yield Returning(tuple((away[each], number[away[each].home]) for each in together))


def _slices_by_gang(snapshot: Snapshot) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for piece in snapshot.slices:
        for gang in _gangs(snapshot, piece.id):
            found.setdefault(gang, []).append(piece.id)
    return found


def _together(slice_id: str, snapshot: Snapshot, of_gang: Mapping[str, Sequence[str]]) -> list[str]:
    """The slice and all that gangs tie to it, directly or through others, in the order in which they are found."""
    found, queue = {slice_id: None}, [slice_id]
    while queue:
        for gang in _gangs(snapshot, queue.pop()):
            new = [each for each in of_gang[gang] if each not in found]
            found |= dict.fromkeys(new)
            queue += new
    return list(found)


def _gangs(snapshot: Snapshot, slice_id: str) -> Iterable[str]:
    return dict.fromkeys(gang for host in snapshot.usage.get(slice_id, ()) for gang in host.gangs)


def _is_away(snapshot: Snapshot, piece: Slice) -> bool:
    """Whether work runs on the slice, in a group that is ranked lower or dearer than the one that its demand preferred."""
    if piece.state is not SliceState.READY or piece.drain is not None or takes_no_work(piece):
        return False
    here, home = snapshot.config.group(piece.group), snapshot.config.group(piece.home)
    usage = snapshot.usage.get(piece.id, ())
    if here is None or home is None or not usage or all(host.idle for host in usage):
        return False
    return _is_better(home, here)


def _is_better(home: ScaleGroup, here: ScaleGroup) -> bool:
    """Whether slices return from one group to the other; never where a price is unknown."""
    if home.price_per_hour is None or here.price_per_hour is None or Drive.PRESSURE in (home.drive, here.drive):
        return False
    return home.priority < here.priority or home.price < here.price
