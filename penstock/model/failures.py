"""What can go wrong with a slice: the closed set of kinds, how far each reaches, and the sentence for people."""

from enum import StrEnum
from math import isfinite
from typing import Annotated

from pydantic import BeforeValidator

from penstock.model.value import Value


class Phase(StrEnum):
    """Where a resource is in the cloud's view."""

    QUEUED = "queued"
    CREATING = "creating"
    BOOTING = "booting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FAILED = "failed"
    """The cloud took the order and could not fulfil it; what is left of it is to be deleted."""
    DELETING = "deleting"
    GONE = "gone"


class Scope(StrEnum):
    """How far a refusal reaches."""

    ZONE = "zone"
    REGION = "region"
    PROJECT = "project"


class FailureKind(StrEnum):
    """Why a slice did not come, or did not stay."""

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


LONGEST_WAIT_SECONDS = 86400.0
"""A cloud that asks to be left alone for longer is asked again after a day."""


def _bearable(seconds: float) -> float:
    """A wait that a clock can be set to, whatever a cloud wrote."""
    return min(max(float(seconds), 0.0), LONGEST_WAIT_SECONDS) if isfinite(float(seconds)) else LONGEST_WAIT_SECONDS


class Failure(Value):
    """One failure. `scope` and `subject` say what a refusal covers; `retry_after_seconds` what a rate limit asks for."""

    kind: FailureKind
    message: str = ""
    scope: Scope | None = None
    subject: str = ""
    retry_after_seconds: Annotated[float, BeforeValidator(_bearable)] = 0.0
