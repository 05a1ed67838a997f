"""Why slices stay of a group that reports of pressure drive: neither demand nor usage keeps them."""

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import NamedTuple

from penstock.core.decision import kept_texts as texts
from penstock.core.decision.fleet import Fleet
from penstock.core.decision.pressure import Wanted, is_unconfirmed, newest_ready
from penstock.core.decision.surplus import spare
from penstock.model.decision import KeptCode
from penstock.model.slices import Slice


class KeptFor(NamedTuple):
    """A reason to keep a slice, and the reason as a clause."""

    code: KeptCode
    text: str


class DrivenGroup:
    """The slices of one group that pressure drives, and each part of its target, which alone keeps some of them."""

    def __init__(self, fleet: Fleet, g: int, wanted: Wanted, *, withheld: Collection[str], opens: bool) -> None:
        """`withheld` are slices that something else keeps; `opens` if the decision opens slices of the group."""
        self._fleet, self._g, self._wanted = fleet, g, wanted
        self._withheld, self._opens = withheld, opens
        self._stalled = {piece.id for piece, owner in fleet.stalled if owner == g}

    def reasons(self, piece: Slice) -> list[KeptFor]:
        """Why a slice stays; none if the group gives it back, sooner or later."""
        found = [part for part, spared in self._parts if piece.id not in spared]
        found += [KeptFor(KeptCode.LAUNCHING, texts.LAUNCHING)] if self._opens else []
        if not found and not piece.state.in_flight and is_unconfirmed(self._fleet, self._g, piece):
            return [KeptFor(KeptCode.UNCONFIRMED, texts.UNCONFIRMED)]
        return found

    @cached_property
    def _parts(self) -> list[tuple[KeptFor, Collection[str]]]:
        """Each part of the target with the slices that could go if the group had no other."""
        least, wanted = self._fleet.groups[self._g].min_slices, self._wanted
        minimum = KeptFor(KeptCode.MINIMUM, texts.minimum(least))
        parts = ((minimum, least), (KeptFor(wanted.keeps, texts.driven(wanted.why)), wanted.slices))
        return [(part, self._spared(slices)) for part, slices in parts if slices]

    def _spared(self, target: int) -> Collection[str]:
        """The slices that go sooner or later if the group should have so many."""
        fleet, counts = self._fleet, self._fleet.counts[self._g]
        beyond = counts.ready + counts.in_flight - target
        found = spare(self._on_their_way(), self._stalled, (), beyond, lambda piece: piece.id in self._withheld)
        ready = [piece for piece in newest_ready(fleet, self._g) if piece.id not in self._withheld]
        return {piece.id for piece in (*found.on_their_way, *ready[: found.most])}

    def _on_their_way(self) -> Sequence[Slice]:
        """Slices in flight, those not started first, then the newest first."""
        arriving = [piece for piece in self._fleet.arriving_of(self._g) if not piece.returning]
        return sorted(sorted(arriving, key=self._fleet.position, reverse=True), key=lambda piece: piece.started)
