"""Answers about single slices: how their drains end, why they stay or go, what they cost."""

from enum import StrEnum

from penstock.model.decision import KeptReason
from penstock.model.failures import NoticeKind
from penstock.model.units import Moment
from penstock.model.value import Value
from penstock.wording import with_detail


class DrainStatus(Value):
    """A draining slice, the reason, and when the drain ends.

    At `deadline` the slice is deleted if the drain is forced, or if usage shows it idle since the drain began, unless it
    `needs_confirmation`. Otherwise it returns to READY. `number` tells the drains of a cluster apart.
    """

    slice_id: str
    number: int = 0
    cause: str
    detail: str = ""
    """What the cause does not say: the kind of a notice and its moment, the money that is saved, the group to return to."""
    force: bool
    idle: bool = False
    needs_confirmation: bool = False
    deadline: Moment | None = None

    @property
    def why(self) -> str:
        """The cause with its detail."""
        return with_detail(self.cause, self.detail)


class NoticeStatus(Value):
    """What the cloud announces for a slice, and when that happens."""

    slice_id: str
    group: str
    kind: NoticeKind
    until: Moment


class SliceOutlook(StrEnum):
    """What becomes of a slice."""

    KEPT = "kept"
    STARTING = "starting"
    """It is on its way, and stays."""
    GOING = "going"
    """It drains, or is deleted."""
    GONE = "gone"
    """It is not in the ledger: the cloud confirmed that it is gone, or it never was."""


class SliceExplanation(Value):
    """The answer to "why does this slice exist": a paragraph, and its facts as data.

    `reasons` are all reasons for which it is kept, and `goes_at` is when it goes if nothing changes; unset if time alone does not
    end what keeps it. `drain` is set once a drain is ordered. `held` is why nothing is drained now, if so; the text begins with
    it. `as_of` is the time of the last evaluation if the answer is of that moment, because deciding anew takes too long.
    """

    slice_id: str
    group: str = ""
    status: SliceOutlook
    text: str
    held: str | None = None
    as_of: Moment | None = None
    reasons: tuple[KeptReason, ...] = ()
    goes_at: Moment | None = None
    drain: DrainStatus | None = None


class AboutSlice(Value):
    """Beside a slice on a page: why it stays or goes in a few words, when it goes if nothing changes, its age and its price."""

    why: str = ""
    goes_at: Moment | None = None
    ordered_at: Moment | None = None
    price_per_hour: float | None = None
