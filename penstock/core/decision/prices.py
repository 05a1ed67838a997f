"""What slices cost an hour."""

from collections import Counter
from collections.abc import Iterable

from penstock.model.cluster import ClusterConfig
from penstock.model.left_behind import LeftBehind
from penstock.model.slices import Slice


def price_of(group: str, left: LeftBehind | None, config: ClusterConfig) -> float | None:
    """The price of a slice: that of its group, also if the group was removed since; None if it is not known."""
    configured = config.group(group)
    if configured is not None:
        return configured.price_per_hour
    return None if left is None else left.price_per_hour


def cost_of(slices: Iterable[Slice], config: ClusterConfig) -> float:
    """What slices cost together, as far as prices are known. It does not depend on their order."""
    prices: Counter[float] = Counter()
    for (group, left), count in Counter((piece.group, piece.left) for piece in slices).items():
        prices[price_of(group, left, config) or 0.0] += count
    return sum(price * count for price, count in sorted(prices.items()))


def unpriced_groups(slices: Iterable[Slice], config: ClusterConfig) -> set[str]:
    """The groups of the slices whose price is not known."""
    return {group for group, left in {(piece.group, piece.left) for piece in slices} if price_of(group, left, config) is None}
