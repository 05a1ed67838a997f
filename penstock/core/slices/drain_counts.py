"""Drains as metrics count them: each begins once and ends once, in one of a few ways."""

from enum import StrEnum
from typing import NamedTuple

from penstock.contract.metrics import OPERATOR
from penstock.contract.slices import DrainEnding, SliceLifecycle
from penstock.model.slices import DrainTerms, SliceState


class DrainEnd(StrEnum):
    """How a drain ended: the label `how`."""

    DELETED = "deleted"
    """The slice was deleted: confirmed empty, idle or forced at the deadline, never READY, or by an operator's order."""
    CANCELLED = "cancelled"
    """A decision or an operator cancelled it."""
    EXPIRED = "expired"
    """Its deadline passed, and the slice serves again: nothing confirmed or reported that it is empty."""
    LOST = "lost"
    """The cloud took the slice back, or it failed."""
    REPLACED = "replaced"
    """A drain for another cause took its place."""


class DrainCount(NamedTuple):
    """One drain that began, or ended in some way; `cause` is the label."""

    cause: str
    end: DrainEnd | None = None


def drain_counts(before: SliceLifecycle, after: SliceLifecycle) -> tuple[DrainCount, ...]:
    """The drains that began or ended in one step of a slice's lifecycle.

    A drain that is ordered again for the same cause goes on: an autoscaler that was reset may order it once more. One that is
    cancelled before the slice has received it never began.
    """
    was, now = _cause_of(before), _cause_of(after)
    if was == now:
        return _whole(after.drain) if before.state.in_flight and not after.state.live else ()
    ended = () if was is None else (DrainCount(was, _end_of(after)),)
    return ended if now is None else (*ended, DrainCount(now))


def first_drain_counts(lifecycle: SliceLifecycle) -> tuple[DrainCount, ...]:
    """The drains that began before the slice's first workflow could count them: its order and its drain came together."""
    if not lifecycle.transitions:
        return ()
    now = _cause_of(lifecycle)
    return _whole(lifecycle.drain) if now is None else (DrainCount(now),)


def _whole(terms: DrainTerms | None) -> tuple[DrainCount, ...]:
    """The drain of a slice that is called off on its way: it is empty, so that its drain ends as it begins."""
    return () if terms is None else (DrainCount(_label(terms)), DrainCount(_label(terms), DrainEnd.DELETED))


def _cause_of(lifecycle: SliceLifecycle) -> str | None:
    """The label of the drain under way."""
    return _label(lifecycle.drain) if lifecycle.state is SliceState.DRAINING and lifecycle.drain is not None else None


def _label(terms: DrainTerms) -> str:
    """The cause as a label: what operators write would make a series of every drain."""
    return OPERATOR if terms.known_cause is None else terms.known_cause.value


def _end_of(after: SliceLifecycle) -> DrainEnd:
    if after.state is SliceState.DRAINING:
        return DrainEnd.REPLACED
    if after.state is SliceState.READY:
        expired = after.ended_drain is not None and after.ended_drain.how is DrainEnding.EXPIRED
        return DrainEnd.EXPIRED if expired else DrainEnd.CANCELLED
    return DrainEnd.DELETED if after.failure is None else DrainEnd.LOST
