"""How often each method was called since the emulator started."""

from collections import Counter


class Calls:
    """Counts by method and zone."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def note(self, method: str, zone: str | None) -> None:
        """One more call."""
        self._counts[method, zone or "-"] += 1

    def by_method(self) -> dict[str, dict[str, int]]:
        """Calls of each method, by zone; `-` is none or all of them."""
        told: dict[str, dict[str, int]] = {}
        for (method, zone), count in sorted(self._counts.items()):
            told.setdefault(method, {})[zone] = count
        return told
