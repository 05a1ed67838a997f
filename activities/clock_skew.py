"""Doctor checks: the clock of every worker against Temporal's, and a worker's against a cloud's."""

from datetime import UTC, datetime

from penstock.contract.answers import Finding

GREATEST_SKEW_SECONDS = 10.0
"""Tolerated difference: deadlines and blocks last minutes, and a busy worker may start an activity seconds late."""
SET_CLOCK = "synchronise the clock of the worker's machine (NTP): deadlines and the ends of blocks depend on it"


def worker_clock(identity: str, *, temporal: datetime) -> Finding:
    """Whether the clock of this worker process agrees with Temporal's, which was read just now."""
    subject, seconds = f"clock of worker {identity}", (datetime.now(UTC) - temporal).total_seconds()
    if abs(seconds) <= GREATEST_SKEW_SECONDS:
        return Finding(subject=subject, ok=True, message="agrees with Temporal's")
    message = f"{abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} Temporal's"
    return Finding(subject=subject, ok=False, message=message, fix=SET_CLOCK)


def compare_clocks(subject: str, *, theirs: datetime, within: float) -> Finding:
    """Whether the worker's clock agrees with another one that was read with an error of `within` seconds."""
    seconds = (datetime.now(UTC) - theirs).total_seconds()
    if abs(seconds) - within <= GREATEST_SKEW_SECONDS:
        return Finding(subject=subject, ok=True, message="agrees with the worker's")
    message = f"the worker's is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} it"
    return Finding(subject=subject, ok=False, message=message, fix=SET_CLOCK)
