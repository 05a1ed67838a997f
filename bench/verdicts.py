"""The verdict on a performance target: reached, missed or not run, with the figures."""

from enum import StrEnum

from penstock.model.value import Value


class Status(StrEnum):
    """Whether a target is reached."""

    REACHED = "reached"
    MISSED = "missed"
    NOT_RUN = "not run"


class Verdict(Value):
    """A target, its status, the deciding figures, and the rows that miss it."""

    target: str
    status: Status
    figures: str
    misses: tuple[str, ...] = ()
