"""The reasons to keep a slice as clauses: `its group has a minimum of 2 slices`."""

from collections.abc import Sequence
from datetime import datetime

from penstock.model.decision import KeptCode, Withheld
from penstock.model.slices import HostState, Slice, SliceState, SliceUsage
from penstock.model.snapshot import Snapshot
from penstock.model.units import format_seconds
from penstock.wording import counted, listed

NAMES = 3
"""Tasks and gangs that are named; the others are counted."""
TAKEN_BACK = "its drain is cancelled, because something needs it again"
NOTICE_WITHDRAWN = "its drain is cancelled, because the cloud has taken its notice back"
RETURNS = "its drain was cancelled, and it serves again in a moment"
PROTECTED = "an operator keeps it until {}"
DO_NOT_DISRUPT = "its controller says do_not_disrupt"
CORDONED = "an operator cordoned it, so that it counts as in use"
UNCLAIMED = "it has not joined: a controller reports usage and names other slices, but not this one"
NEVER_REPORTED = "no usage report has named it, so it is not known to be idle"
NOT_IDLE_YET = "it is idle, and how long is counted from the next report that says so"
OBSERVE = "scale_down is observe: it would drain ({}) otherwise"
LATER = "the decision orders as many drains as it may; the next one goes on"
LAUNCHING = "its group launches slices in this decision, and gives none back"
KEEPS_PLACE = "it keeps its place in the cloud's queue (keep_queued)"
UNCONFIRMED = "nobody confirmed that it is empty when it drained last, and no newer report of pressure has come"
_TO_BE_REPLACED = {
    KeptCode.NO_REPLACEMENT: "no replacement can be ordered now, so it stays until one can, or until it is idle",
    KeptCode.BUDGET: "as many other slices as max_unavailable of the cluster or its group allows are drained or replaced now",
    KeptCode.WINDOW: "it waits for the window, which opens at {}",
    KeptCode.UNCONFIRMED: "nobody confirmed that it is empty when it drained last, so it goes once it is idle",
    KeptCode.REPLACES: "work of the slice that it replaces moves here first",
    KeptCode.HEAD: "the head of its group goes last",
    KeptCode.OBSERVE: "scale_down is observe, so no replacement is ordered",
}
_WITHHELD = {
    KeptCode.HEAD: "it is the oldest READY slice of its group, which stays to the last",
    KeptCode.UNTRIED: "demand or a standing request that may need it was not placed, or cannot be known yet",
    KeptCode.STOCKOUT: "its group was out of stock, so it is hard to get back",
    KeptCode.DO_NOT_DISRUPT: DO_NOT_DISRUPT,
    KeptCode.PROTECTED: "an operator keeps it",
}


def clock(moment: datetime) -> str:
    """A moment in a clause."""
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"


def busy(usage: SliceUsage) -> str:
    """What runs on a slice."""
    tasks = list(dict.fromkeys(task for host in usage for task in host.tasks))
    gangs = list(dict.fromkeys(gang for host in usage for gang in host.gangs))
    names = []
    if tasks:
        names.append(f"{counted(len(tasks), 'task')} ({listed(tasks, NAMES)})")
    if gangs:
        names.append(f"{counted(len(gangs), 'gang')} ({listed(gangs, NAMES)})")
    if names:
        return f"it is busy with {' of '.join(names)}"
    degraded = sum(host.state is HostState.DEGRADED for host in usage)
    if degraded:
        return f"{degraded:,} of its hosts {'is' if degraded == 1 else 'are'} degraded"
    return "it is busy by its last usage report"


def placed(tasks: int) -> str:
    """What is placed on a slice."""
    if not tasks:
        return "a waiting gang is placed on it"
    return f"{counted(tasks, 'waiting task')} {'is' if tasks == 1 else 'are'} placed on it"


def minimum(slices: int) -> str:
    """A group's minimum."""
    return f"its group has a minimum of {counted(slices, 'slice')}"


def standing(slices: int, owners: Sequence[str]) -> str:
    """Standing requests, and their owners."""
    whose = f" of {listed(owners)}" if owners else ""
    return f"standing requests{whose} need {counted(slices, 'slice')} of its group"


def watermark(percent: int, need: int) -> str:
    """A group's watermark."""
    return f"{counted(need, 'slice')} of its group {'is' if need == 1 else 'are'} in use, and its watermark is {percent}%"


def warm(slices: int) -> str:
    """A group's warm slices."""
    return f"its group keeps {counted(slices, 'warm slice')}"


def driven(why: str) -> str:
    """What reports of pressure want of the group that they drive, or that there is none that counts."""
    return f"reports of pressure drive its group ({why})"


def target(slices: int) -> str:
    """A group's target, if no single part of it is as large."""
    return f"its group needs {counted(slices, 'slice')}"


def stale(since: datetime, now: datetime) -> str:
    """A word on idleness that is too old to drain on."""
    if since <= now:
        return f"what is known of its usage is stale since {clock(since)}"
    return f"what is known of its usage is stale from {clock(since)}, before it is idle for long enough"


def idle(since: datetime, timeout: float) -> str:
    """A slice that nothing needs, and that is not idle for long enough."""
    return f"nothing needs it; it has been idle since {clock(since)}, less than {format_seconds(timeout)}"


def unneeded(since: datetime, cancel_after: float) -> str:
    """A slice on its way that nothing needs, and that is not unneeded for long enough."""
    return f"nothing has needed it since {clock(since)}, less than {format_seconds(cancel_after)}"


def to_be_replaced(cause: str, item: Withheld, replacement: Slice | None) -> str:
    """A slice that is to be replaced, and what it waits for; `replacement` is there for it already."""
    if item.code is not KeptCode.REPLACEMENT:
        waits = _TO_BE_REPLACED[item.code].format("" if item.until is None else clock(item.until))
    elif replacement is None:
        waits = "it waits for its replacement, which is ordered first"
    elif replacement.state is SliceState.READY:
        waits = f"its replacement {replacement.id} waits for those of the other slices of its gang"
    else:
        waits = f"its replacement {replacement.id} is still {replacement.state}"
    return f"it is to be replaced ({cause}), and {waits}"


def replaces(slice_id: str) -> str:
    """A slice that takes the place of another."""
    return f"it takes the place of {slice_id}, whose work moves here"


def withheld(snapshot: Snapshot, piece: Slice, item: Withheld) -> str:
    """What keeps a slice that its group could spare."""
    until = "" if item.until is None else f" until {clock(item.until)}"
    if item.code is KeptCode.STALE:
        since = snapshot.stale_at.get(piece.id)
        return stale(since, snapshot.now) if since is not None else "what is known of its usage is stale"
    if item.code is KeptCode.RESYNC:
        lost = sorted(name for name, terms in snapshot.sources.items() if terms.resync is not None)
        return f"demand of {listed(lost)} is lost: what it needs is not known before it is sent again{until and f', or{until}'}"
    if item.code is KeptCode.GANG:
        return f"it is held for a gang that waits for further slices{until}"
    if item.code is KeptCode.QUEUED:
        what = "it waits in the cloud's queue" if piece.queued else "the cloud is slow to create it"
        return f"{what}, and demand or a standing request still wants it, or keep_queued is set"
    return _WITHHELD.get(item.code, item.code.replace("_", " ")) + until
