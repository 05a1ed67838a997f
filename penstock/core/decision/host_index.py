"""Hosts in order, searched for the first that can take a shape."""

from penstock.core.decision.bins import HostBin
from penstock.core.decision.effort import Effort
from penstock.core.decision.first_fit import NONE, FirstFit, Layout

REPLACED = 30
"""Steps of correcting the key of a host."""


class HostIndex:
    """Hosts in order, of which the first that can take a shape is found.

    Hosts only shrink, so a key is an upper bound until a search reaches its host, and is corrected only then: placing a task
    costs nothing here.
    """

    __slots__ = ("_effort", "_layout", "_tree", "hosts")

    def __init__(self, layout: Layout, hosts: list[HostBin], effort: Effort) -> None:
        """`hosts` may grow at its end."""
        self.hosts = hosts
        self._layout = layout
        self._effort = effort
        self._tree = FirstFit(layout, effort)

    def first(self, i: int, bound: int, groups: int) -> int:
        """The first position from `i` on with a host of the groups that can take what `bound` stands for; or `NONE`."""
        tree, hosts = self._tree, self.hosts
        if tree.length < len(hosts):
            tree.extend(self._leaf(host) for host in hosts[tree.length :])
        guards = self._layout.guards
        while (i := tree.first(i, bound, groups)) != NONE:
            key, mask = self._leaf(hosts[i])
            if mask and (bound - key) & guards == guards:
                return i
            self._effort.spend(REPLACED)
            tree.replace(i, key, mask)
        return NONE

    def _leaf(self, host: HostBin) -> tuple[int, int]:
        if host.closed:
            return self._layout.ones, 0
        free = (host.cpu, host.memory, host.disk, host.gpu, host.tpu)
        return self._layout.has(free, usable_alone=host.usable_alone), 1 << host.owner.bit
