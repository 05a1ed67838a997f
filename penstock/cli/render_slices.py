"""Slices for a terminal: a page of the ledger as a table, and one slice with its timeline."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import zip_longest

from rich.console import Group, RenderableType
from rich.markup import escape

from penstock.cli.render_notices import announced
from penstock.cli.render_status import STATE_STYLE
from penstock.cli.terminal import Prose, clock, lapse, moment, titled
from penstock.contract.answers import SlicePage
from penstock.contract.slice_answers import AboutSlice
from penstock.contract.slices import SliceLifecycle
from penstock.model.decision import Cause
from penstock.model.failures import Notice
from penstock.model.sightings import HostAddress
from penstock.model.slices import HostUsage, Slice, SliceState, SliceUsage
from penstock.model.value import Value
from penstock.wording import counted, listed, with_detail

_WHOLE = ("slice", "state", "for", "age", "per hour")
_RIGHT = ("for", "age", "per hour")
_ORDERED: Mapping[str, str] = {Cause.REPLACEMENT: "as a replacement", Cause.RETURN_HOME: "to return home"}
"""What a slice was ordered for, where "for" and the cause do not say it."""
_ADDRESSES = 2
"""Addresses of a slice's hosts that a page shows; the others are counted."""


class SliceDetails(Value):
    """Everything about one slice: its row of the ledger, its own workflow's state, and its usage.

    `ledger` is None once the slice has ended. `lifecycle` is None if it has no workflow.
    """

    cluster: str
    slice_id: str
    group: str
    ledger: Slice | None
    lifecycle: SliceLifecycle | None
    usage: SliceUsage
    workflow_id: str
    ui: str

    @property
    def hosts(self) -> tuple[HostAddress, ...]:
        """The addresses of its hosts, as its workflow has them, else the ledger."""
        found = self.lifecycle or self.ledger
        return found.hosts if found is not None else ()

    @property
    def notice(self) -> Notice | None:
        """What the cloud announces for it, as its workflow has it, else the ledger."""
        found = self.lifecycle or self.ledger
        return found.notice if found is not None else None


def slices_view(page: SlicePage, now: datetime) -> RenderableType:
    """One page of slices, oldest order first."""
    if not page.total:
        return "No slices."
    if not page.slices:
        return f"There is no page {page.page:,}: {counted(page.total, 'slice')} on {counted(page.pages, 'page')}."
    columns = list(_page_columns(page, now))
    table = titled("Slices")
    for title, _ in columns:
        right = title in _RIGHT
        table.add_column(title, justify="right" if right else "left", no_wrap=title in _WHOLE, overflow="fold")
    for row in zip(*(cells for _, cells in columns), strict=True):
        table.add_row(*row)
    return Group(table, _foot(page))


def _page_columns(page: SlicePage, now: datetime) -> Iterator[tuple[str, list[str]]]:
    """The columns of a page: those about which nothing is known are left out."""
    slices, about = page.slices, [page.about.get(piece.id, AboutSlice()) for piece in page.slices]
    yield "slice", [escape(piece.id) for piece in slices]
    yield (
        "state",
        [_state(piece.state, queued=piece.queued, unclaimed=piece.is_unclaimed) + _protection(piece, now) for piece in slices],
    )
    yield "for", [lapse(piece.since, now) if piece.since else "–" for piece in slices]
    if not all(piece.id.startswith(f"{piece.group}-") for piece in slices):  # Else the id already shows the group.
        yield "group", [escape(piece.group) for piece in slices]
    if any(each.ordered_at for each in about):
        yield "age", [lapse(each.ordered_at, now) if each.ordered_at else "–" for each in about]
    if page.about:
        yield "why", [_why(each, now) for each in about]
    if any(piece.notice is not None for piece in slices):
        yield "notice", ["–" if piece.notice is None else announced(piece.notice, now) for piece in slices]
    if any(each.price_per_hour is not None for each in about):
        yield "per hour", ["–" if each.price_per_hour is None else f"{each.price_per_hour:,.2f}" for each in about]
    if page.about and any(piece.hosts for piece in slices):
        yield (
            "hosts",
            [escape(listed((host.address for host in piece.hosts if host.address), _ADDRESSES)) or "–" for piece in slices],
        )


def _why(about: AboutSlice, now: datetime) -> str:
    """Why a slice stays or goes, and when it goes if nothing changes."""
    end = f": goes in {lapse(now, about.goes_at)}" if about.goes_at is not None else ""
    return escape(about.why + end) or "–"


def slice_view(details: SliceDetails, now: datetime) -> RenderableType:
    """Facts about one slice, its hosts if usage of them was reported, and its timeline."""
    parts: list[RenderableType] = [Prose(f"[bold]{escape(details.slice_id)}[/]: {_headline(details, now)}")]
    facts = list(_facts(details, now))
    longest = max(len(name) for name, _ in facts)
    parts += [Prose(escape(text), label=f"  {name.ljust(longest)}  ") for name, text in facts]
    if details.usage or details.hosts:
        parts.append(_hosts(details, now))
    if details.lifecycle is not None and details.lifecycle.transitions:
        parts.append(_timeline(details.lifecycle, now))
    return Group(*parts)


def _headline(details: SliceDetails, now: datetime) -> str:
    """The state and its age. The slice's own workflow knows it first; the ledger follows."""
    known = details.lifecycle or details.ledger
    assert known is not None
    age = f" for {lapse(known.since, now)}" if known.since is not None else ""
    return _state(known.state, queued=known.queued, unclaimed=bool(details.ledger and details.ledger.is_unclaimed)) + age


def _facts(details: SliceDetails, now: datetime) -> Iterator[tuple[str, str]]:
    yield "cluster", details.cluster
    yield "group", details.group
    found = details.lifecycle
    if found is not None:
        spec = found.spec
        kind = ", ".join(filter(None, (spec.variant, "preemptible" if spec.preemptible else "")))
        yield "location", spec.location.key
        yield "hosts", f"{spec.hosts}" + (f" ({kind})" if kind else "")
        yield "ordered", f"{clock(found.ordered_at, now)} ({lapse(found.ordered_at, now)} ago)" + _because(spec.cause)
        if found.created_at is not None:
            yield "created", f"{clock(found.created_at, now)} ({lapse(found.ordered_at, found.created_at)} after the order)"
        if found.cause and not (found.drain and found.drain.cause == found.cause):
            yield "cause", found.cause
        if found.failure is not None:
            yield "failure", str(found.failure.kind) + (f": {found.failure.message}" if found.failure.message else "")
    yield from _replacement(details)
    if details.notice is not None:
        yield "notice", announced(details.notice, now)
    drain = (details.ledger.drain if details.ledger else None) or (found.drain if found else None)
    if drain is not None:
        end = "deleted at the deadline even if work is left" if drain.force else "back to READY at the deadline if work is left"
        yield "drain", f"{with_detail(drain.cause, drain.detail)} (number {drain.number}); {end}"
    yield from _protections(details, now)
    yield "usage", _usage(details, now)
    if details.ledger is None:
        yield "ledger", "not in the ledger: the cloud confirmed that it is gone"
    elif found is None:
        yield "workflow", "none runs: penstock verify describes the difference"
    yield "UI", details.ui


def _replacement(details: SliceDetails) -> Iterator[tuple[str, str]]:
    """In whose place it was ordered, and where its demand would rather be."""
    known = details.ledger or (details.lifecycle.spec if details.lifecycle else None)
    if known is not None and known.replaces:
        yield "replaces", known.replaces
    if known is not None and known.home:
        yield "home", f"{known.home}, which its demand prefers to {details.group}"


def _protections(details: SliceDetails, now: datetime) -> Iterator[tuple[str, str]]:
    known = details.ledger
    if known is not None and known.kept_until is not None and known.kept_until > now:
        yield "kept", f"until {clock(known.kept_until, now)} (for {lapse(now, known.kept_until)}): no voluntary drain begins"
    if known is not None and known.cordoned:
        yield "cordoned", "nothing more is placed on it"
    if any(host.do_not_disrupt for host in details.usage):
        yield "controller", "do_not_disrupt: no voluntary drain begins"


def _because(cause: str) -> str:
    return f", {_ORDERED.get(cause, f'for {cause}')}" if cause else ""


def _usage(details: SliceDetails, now: datetime) -> str:
    if not details.usage:
        since = details.ledger.unclaimed if details.ledger is not None and details.ledger.is_unclaimed else None
        if since is not None:
            return f"not joined: the controller reports usage and has not named it by {clock(since, now)}; it holds nothing"
        return "never reported"
    busy = sum(not host.idle for host in details.usage)
    return "idle" if not busy else f"{busy} of {counted(len(details.usage), 'host')} busy"


def _hosts(details: SliceDetails, now: datetime) -> RenderableType:
    """A row per host: its addresses if the cloud has shown them, its usage if the controller has reported it."""
    table = titled("Hosts")
    columns = list(_address_columns(details)) + list(_usage_columns(details, now))
    for title, _ in columns:
        table.add_column(title, overflow="fold")
    for row in zip_longest(*(cells for _, cells in columns), fillvalue="–"):
        table.add_row(*row)
    return table


def _address_columns(details: SliceDetails) -> Iterator[tuple[str, list[str]]]:
    hosts = details.hosts
    yield "host", [escape(host.name) or str(i) for i, host in enumerate(hosts)] or [str(i) for i in range(len(details.usage))]
    if hosts:
        yield "address", [escape(host.address) or "–" for host in hosts]
    if any(host.external_address for host in hosts):
        yield "external address", [escape(host.external_address) or "–" for host in hosts]


def _usage_columns(details: SliceDetails, now: datetime) -> Iterator[tuple[str, list[str]]]:
    if not details.usage:
        return
    yield "usage", [_host_state(host, now) for host in details.usage]
    yield "reserved", ["–" if host.reserved is None else escape(str(host.reserved)) for host in details.usage]
    yield "tasks", [escape(listed(host.tasks)) or "–" for host in details.usage]


def _host_state(host: HostUsage, now: datetime) -> str:
    state = str(host.state) if host.state is not None else "idle" if host.idle else "busy"
    return f"{state} for {lapse(host.idle_since, now)}" if host.idle and host.idle_since is not None else state


def _timeline(found: SliceLifecycle, now: datetime) -> RenderableType:
    table = titled("Timeline")
    table.add_column("at", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("after", justify="right", no_wrap=True)
    table.add_column("cause", overflow="fold")
    before = found.ordered_at
    for move in found.transitions:
        at = moment(move.at) if found.ordered_at.date() != now.date() else clock(move.at, now)
        table.add_row(at, _state(move.state), lapse(before, move.at), escape(move.why))
        before = move.at
    return table


def _state(state: SliceState, *, queued: bool = False, unclaimed: bool = False) -> str:
    return f"[{STATE_STYLE[state]}]{state}[/]" + (" (queued)" if queued else "") + (" [red](not joined)[/]" if unclaimed else "")


def _protection(piece: Slice, now: datetime) -> str:
    """What an operator ordered for the slice."""
    kept = piece.kept_until is not None and piece.kept_until > now
    return (" [cyan](kept)[/]" if kept else "") + (" [yellow](cordoned)[/]" if piece.cordoned else "")


def _foot(page: SlicePage) -> str:
    if page.pages <= 1:
        return f"{counted(page.total, 'slice')}."
    further = f": --page {page.page + 1} shows more" if page.page < page.pages else ""
    return f"{page.total:,} slices, page {page.page:,} of {page.pages:,}{further}."
