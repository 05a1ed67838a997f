"""Failures of slices and notices of them: the closed sets of kinds, the scope of a refusal, the phases of a cloud resource."""

from enum import StrEnum
from math import isfinite
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from penstock.model.units import Moment
from penstock.model.value import Value
from penstock.wording import clipped


class Phase(StrEnum):
    """The phase of a resource as the cloud reports it."""

    QUEUED = "queued"
    CREATING = "creating"
    BOOTING = "booting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FAILED = "failed"
    """The cloud accepted the create request and could not fulfil it. Delete the resource that is left."""
    DELETING = "deleting"
    GONE = "gone"


class Scope(StrEnum):
    """The scope that a refusal of the cloud applies to."""

    ZONE = "zone"
    REGION = "region"
    PROJECT = "project"


class FailureKind(StrEnum):
    """Why a slice was not created, or was lost."""

    STOCKOUT = "stockout"
    QUOTA = "quota"
    RATE_LIMIT = "rate_limit"
    PERMISSION = "permission"
    INVALID = "invalid"
    CONFLICT = "conflict"
    REQUESTING_TIMEOUT = "requesting_timeout"
    BOOT_TIMEOUT = "boot_timeout"
    INIT_TIMEOUT = "init_timeout"
    PREEMPTED = "preempted"
    HOST_LOST = "host_lost"
    GONE = "gone"
    UNCLAIMED = "unclaimed"
    """It became READY, and no controller has named it."""
    DEGRADED = "degraded"
    """Its controller says that one of its hosts is degraded, and it stayed so."""


LONGEST_WAIT_SECONDS = 86400.0
"""Longest `retry_after` that is obeyed: one day."""


def _clamped(seconds: float) -> float:
    """The wait as a finite number between 0 and the longest wait."""
    return min(max(float(seconds), 0.0), LONGEST_WAIT_SECONDS) if isfinite(float(seconds)) else LONGEST_WAIT_SECONDS


LONGEST_MESSAGE = 500
"""Characters kept of a failure's message: the state holds dozens of failures, and a proxy may answer with a whole page."""


def _clipped(message: str) -> str:
    return clipped(message, LONGEST_MESSAGE)


class Failure(Value):
    """One failure. `scope` and `subject` say what a refusal applies to; `retry_after_seconds` is the wait of a rate limit."""

    kind: FailureKind
    message: Annotated[str, AfterValidator(_clipped)] = ""
    scope: Scope | None = None
    subject: str = ""
    retry_after_seconds: Annotated[float, BeforeValidator(_clamped)] = 0.0


class NoticeKind(StrEnum):
    """What a cloud announces for a slice."""

    PREEMPTION = "preemption"
    MAINTENANCE = "maintenance"
    RESERVATION_END = "reservation_end"

    @property
    def noun(self) -> str:
        """The kind in a sentence: `the cloud announces maintenance`."""
        return "the end of its reservation" if self is NoticeKind.RESERVATION_END else str(self)


class Notice(Value):
    """The cloud takes the slice at a moment, or works on its hosts then: it drains at once, and is deleted by that moment."""

    kind: NoticeKind
    until: Moment
