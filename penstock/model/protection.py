"""What an operator ordered for one slice: to keep it for a while, or to place nothing more on it."""

from datetime import datetime

from penstock.model.units import Moment
from penstock.model.value import Value


class Protection(Value):
    """Until when a slice is kept from voluntary drains, and whether it is cordoned."""

    kept_until: Moment | None = None
    cordoned: bool = False

    def holds(self, now: datetime) -> bool:
        """Whether anything of it is in force."""
        return self.cordoned or (self.kept_until is not None and self.kept_until > now)
