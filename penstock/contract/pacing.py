"""Names of the rate-limited task queues for create calls, one per cloud account."""

from collections.abc import Iterable

from penstock.contract.inventories import WatchedLocation
from penstock.contract.slices import SliceSpec
from penstock.model.provider_kinds import kind_of


def creates_queue(task_queue: str, account: str) -> str:
    """The task queue of an account's creates, for all clusters whose workflows run on `task_queue`. Never renamed."""
    return f"{task_queue}/creates/{account}"


def queue_for(task_queue: str, spec: SliceSpec) -> str | None:
    """The rate-limited queue of the slice's create; None if its kind has no limit. It depends on the spec alone."""
    return creates_queue(task_queue, spec.location.account) if kind_of(spec.location.provider).paced else None


def paced_accounts(locations: Iterable[WatchedLocation]) -> tuple[str, ...]:
    """The accounts among the locations whose creates are rate-limited."""
    return tuple(sorted({location.account for location in locations if kind_of(location.provider).paced}))
