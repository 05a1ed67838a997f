"""Parts of a configuration that say when slices come and go: what drives a group, and how far slices may be replaced."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from penstock.model.units import Count, Moment, Seconds, parse_count
from penstock.model.value import Value

DEFAULT_GROW_SECONDS = 0.0
"""Pause before a group driven by pressure grows again: work that waits costs more than a slice too many."""
DEFAULT_SHRINK_SECONDS = 30.0
"""Pause before such a group shrinks: queues are empty for moments, and a slice takes minutes to come back."""
DEFAULT_DEGRADED_SECONDS = 1800.0
"""How long a slice with a degraded host is kept: many hosts recover, and what runs on the others is not disturbed in vain."""
DEFAULT_UNAVAILABLE = 1
"""Slices that may drain at a time to be replaced: work has to move each time, so one after another unless allowed otherwise."""
DEFAULT_SETTLE_SECONDS = 1800.0
"""How long things must have been quiet before slices move to a better place: as long as the longest backoff of a stockout."""
MOST_DOUBLINGS = 10
"""The settle time of a group doubles with each failed return, up to a thousand times: three weeks by default."""

_MINUTES_OF_A_DAY = 24 * 60
_PERCENTAGE = re.compile(r"([0-9]{1,3}) ?%")
_HOURS = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-(?:([01][0-9]|2[0-3]):([0-5][0-9])|24:00)")


class Drive(StrEnum):
    """What decides how many slices a group has: the entries that are placed on it, or reports of pressure."""

    ENTRIES = "entries"
    PRESSURE = "pressure"


def parse_share(value: object) -> int | str:
    """A number of slices, or a percentage of them such as `25%`."""
    if isinstance(value, str) and "%" in value:
        match = _PERCENTAGE.fullmatch(value.strip())
        if match is None or int(match[1]) > 100:
            raise ValueError(f"{value!r} is not a percentage between 0% and 100%; write it like 25%")
        return f"{int(match[1])}%"
    try:
        return parse_count(value)
    except ValueError:
        raise ValueError(f"{value!r} is neither a number of slices nor a percentage; write it like 1 or 25%") from None


def share_of(share: int | str, slices: int) -> int:
    """How many slices a share allows, of so many; a percentage is rounded up."""
    if isinstance(share, int):
        return share
    return -(-slices * int(share.removesuffix("%")) // 100)


Share = Annotated[
    int | str,
    BeforeValidator(parse_share),
    WithJsonSchema({"type": ["integer", "string"], "examples": [1, "25%"], "description": "slices, or a percentage of them"}),
]
"""A number of slices, or a percentage of them: `share_of` gives the number."""


class Weekday(StrEnum):
    """A day of the week, in UTC."""

    MONDAY = "mon"
    TUESDAY = "tue"
    WEDNESDAY = "wed"
    THURSDAY = "thu"
    FRIDAY = "fri"
    SATURDAY = "sat"
    SUNDAY = "sun"


_WEEK = tuple(Weekday)


def _some_days(days: tuple[Weekday, ...]) -> tuple[Weekday, ...]:
    if not days:
        raise ValueError("is empty, so that the window never opens; list days such as sat, or leave it out for every day")
    return days


def _hours_of_a_day(hours: str) -> str:
    if not _HOURS.fullmatch(hours):
        raise ValueError(f"{hours!r} is not a part of a day; write it like 22:00-06:00, in UTC")
    begin, end = hours.split("-")
    if begin == end:
        raise ValueError(f"{hours} begins when it ends; write 00:00-24:00 for the whole day")
    return hours


class Window(Value):
    """Weekdays and hours, in UTC. Hours that pass midnight belong to the day on which they begin."""

    days: Annotated[tuple[Weekday, ...], AfterValidator(_some_days)] = _WEEK
    hours: Annotated[str, AfterValidator(_hours_of_a_day), Field(examples=["22:00-06:00"])] = "00:00-24:00"

    def is_open(self, now: datetime) -> bool:
        """Whether the moment is inside the window."""
        return any(begin <= now < end for begin, end in self._periods(now))

    def next_edge(self, now: datetime) -> datetime | None:
        """When the window closes or opens next; None if it is always open."""
        periods = tuple(self._periods(now))
        is_open = self.is_open(now)
        edges = sorted({edge for period in periods for edge in period if edge > now})
        return next((edge for edge in edges[:-1] if any(begin <= edge < end for begin, end in periods) != is_open), None)

    def _periods(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Begin and end of the periods that begin between the day before and nine days after a moment."""
        first, last = (_minutes(time) for time in self.hours.split("-"))
        length = timedelta(minutes=last - first if last > first else last - first + _MINUTES_OF_A_DAY)
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        for days in range(-1, 10):
            day = midnight + timedelta(days=days)
            if _WEEK[day.weekday()] in self.days:
                begin = day + timedelta(minutes=first)
                yield begin, begin + length


def _minutes(time: str) -> int:
    hours, minutes = time.split(":")
    return int(hours) * 60 + int(minutes)


class ReturnHome(Value):
    """When slices of a dearer or lower-ranked group are replaced by slices of a better one."""

    settle_seconds: Seconds = Field(default=DEFAULT_SETTLE_SECONDS, alias="settle")
    """How long the better group must have been without a failure or preemption. Doubles with each failed return."""


class Setback(Value):
    """When a slice of a group failed or was preempted last, and how many of the last failures were of returning slices."""

    at: Moment
    failed_returns: Count = 0

    def settled_at(self, settle_seconds: float) -> datetime:
        """From when slices may return to the group: the settle time doubles with each failed return."""
        return self.at + timedelta(seconds=settle_seconds * (1 << min(self.failed_returns, MOST_DOUBLINGS)))


def after_setback(last: Setback | None, rules: ReturnHome, at: datetime, *, returned: bool) -> Setback:
    """The setback after another failure of a group; `returned` if it was a slice that returned there.

    Failed returns are forgotten once the group has been quiet for twice as long as it had to settle.
    """
    known = 0 if last is None or at > last.at + 2 * (last.settled_at(rules.settle_seconds) - last.at) else last.failed_returns
    return Setback(at=at, failed_returns=known + returned)


class Consolidation(Value):
    """When busy slices are emptied, because what runs on them fits elsewhere for less money."""

    settle_seconds: Seconds = Field(default=DEFAULT_SETTLE_SECONDS, alias="settle")
    """How long a slice that received the load of another is not drained for consolidation."""
    least_saving_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Money per hour that must be saved at least; a saving of nothing never suffices."""
