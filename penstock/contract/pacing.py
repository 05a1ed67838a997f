"""Creates that wait for their turn: some clouds count the calls of a project, whichever cluster or worker makes them."""

from collections.abc import Iterable

from penstock.contract.inventories import WatchedLocation
from penstock.contract.slices import SliceSpec

PACED_KINDS = ("gcp-tpu", "gce")
"""Providers of clouds that count calls by project. Others are asked as fast as they answer."""


def creates_queue(task_queue: str, account: str) -> str:
    """The task queue of an account's creates, for all clusters whose workflows run on `task_queue`. Never renamed."""
    return f"{task_queue}/creates/{account}"


def queue_for(task_queue: str, spec: SliceSpec) -> str | None:
    """Where the slice's create waits for its turn; None if it need not wait. It follows from the order alone."""
    return creates_queue(task_queue, spec.location.account) if spec.location.provider in PACED_KINDS else None


def paced_accounts(locations: Iterable[WatchedLocation]) -> tuple[str, ...]:
    """Accounts among the locations whose creates wait for their turn."""
    return tuple(sorted({location.account for location in locations if location.provider in PACED_KINDS}))
