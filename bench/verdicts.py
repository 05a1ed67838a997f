"""What became of a target: a status, and the figures that decided."""

from enum import StrEnum

from penstock.model.value import Value


class Status(StrEnum):
    """What became of a target."""

    REACHED = "reached"
    MISSED = "missed"
    NOT_RUN = "not run"


class Verdict(Value):
    """A target, whether it is reached, the figure that decided, and the rows that miss it."""

    target: str
    status: Status
    figures: str
    misses: tuple[str, ...] = ()
