"""The disruption budget: how many slices may drain at a time to be replaced or emptied, and when such drains may begin."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain

from penstock.model.cluster import ScaleGroup
from penstock.model.decision import KeptCode, Withheld
from penstock.model.elasticity import Window, share_of
from penstock.model.slices import Slice, SliceState
from penstock.model.snapshot import Snapshot


class DisruptionBudget:
    """What is left of `max_unavailable`, of the cluster and of each group, and whether their windows are open.

    Notices and losses never wait for it, and count in it.
    """

    def __init__(self, snapshot: Snapshot, groups: Sequence[ScaleGroup], number: Mapping[str, int]) -> None:
        self._now = snapshot.now
        self._cluster_window, self._windows = snapshot.config.window, [group.window for group in groups]
        could_serve, disrupted = [0] * len(groups), [0] * len(groups)
        others_serve = others_disrupted = 0
        for piece in snapshot.slices:
            g = number.get(piece.group)
            if g is None:
                others_serve += piece.state.was_ready
                others_disrupted += is_disrupted(piece)
            else:
                could_serve[g] += piece.state.was_ready
                disrupted[g] += is_disrupted(piece)
        self._cluster_most = share_of(snapshot.config.max_unavailable, sum(could_serve) + others_serve)
        self._most = [share_of(group.max_unavailable, slices) for group, slices in zip(groups, could_serve, strict=True)]
        self._cluster_left = self._cluster_undrained = self._cluster_most - sum(disrupted) - others_disrupted
        self._left = [share - gone for share, gone in zip(self._most, disrupted, strict=True)]
        self._undrained = list(self._left)
        """What is left if only drains are counted, without replacements on their way."""

    def take(self, g: int | None) -> None:
        """Count one more disruption, of a group that is configured or of one that is not."""
        self._cluster_left -= 1
        if g is not None:
            self._left[g] -= 1

    def drain(self, g: int | None) -> None:
        """Count a drain that begins now; the disruption itself is counted apart, when its replacement is ordered."""
        self._cluster_undrained -= 1
        if g is not None:
            self._undrained[g] -= 1

    @property
    def cluster_left(self) -> int:
        """How many more slices of the cluster may be disrupted now."""
        return max(0, self._cluster_left)

    def left(self, g: int) -> int:
        """How many more slices of the group may be disrupted now: none outside its window."""
        return max(0, self._left[g]) if self.opens_at(g) is None else 0

    def is_spent(self, g: int) -> bool:
        """Whether no further slice of the group may be disrupted now: the cluster's budget counts first, then the group's."""
        return self._cluster_left <= 0 or self._left[g] <= 0

    def is_drained(self, g: int) -> bool:
        """Whether as many slices drain now as may be disrupted, so that no READY replacement lets another begin."""
        return self._cluster_undrained <= 0 or self._undrained[g] <= 0

    def is_nothing(self, g: int) -> bool:
        """Whether slices of the group may never be disrupted, as long as the configuration stays."""
        return self._cluster_most <= 0 or self._most[g] <= 0

    def opens_at(self, g: int) -> datetime | None:
        """When the window opens in which voluntary drains of the group begin; None if it is open."""
        closed = [window for window in self._windows_of(g) if not window.is_open(self._now)]
        edges = (window.next_edge(self._now) for window in closed)
        return max((edge for edge in edges if edge is not None), default=None)

    def refusal(self, piece: Slice, g: int) -> Withheld | None:
        """Why a voluntary drain of the slice may not begin now; None if it may."""
        opens_at = self.opens_at(g)
        if opens_at is not None:
            return Withheld(piece.id, KeptCode.WINDOW, opens_at)
        return Withheld(piece.id, KeptCode.BUDGET) if self.is_spent(g) else None

    def edges(self, g: int) -> Iterator[datetime]:
        """When a window that concerns the group opens or closes next."""
        edges = (window.next_edge(self._now) for window in self._windows_of(g))
        return (edge for edge in edges if edge is not None)

    def _windows_of(self, g: int) -> list[Window]:
        return [window for window in chain((self._cluster_window,), (self._windows[g],)) if window is not None]


def is_disrupted(piece: Slice) -> bool:
    """Whether a voluntary drain of the slice is under way, or it served its controller and is lost."""
    if piece.drain is None:
        return piece.state is SliceState.DELETING and piece.joined
    cause = piece.drain.known_cause
    return piece.state.was_ready and cause is not None and cause.voluntary
