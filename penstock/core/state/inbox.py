"""Read a batch of signals into the state, coalesced: what a later message replaces is not read in full, nor applied."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from penstock.contract import names
from penstock.contract.messages import (
    Confirmation,
    ConfirmDrainMessage,
    DemandMessage,
    PressureMessage,
    ReportMessage,
    UsageMessage,
)
from penstock.contract.problems import BadMessage, read
from penstock.contract.slices import SliceReport, SliceReports
from penstock.contract.tasks import demand_of
from penstock.core.state.apply import apply
from penstock.core.state.events import AnyEvent, DemandDelta, DemandSnapshot, MessageRejected, SlicesReported
from penstock.core.state.signals import (
    confirmed_events,
    demand_event,
    demand_events,
    pressure_events,
    read_signal,
    usage_events,
)
from penstock.core.state.size_limits import exceeds_limits
from penstock.core.state.state import AutoscalerState

WORK = 50_000
"""Work of one activation, in microseconds of one core of 2024: a fortieth of the two seconds of wall time that Temporal allows.
A core may be four times slower and shared with several busy processes, and one message may exceed the rest of its batch."""
PER_MESSAGE, PER_DEMAND, PER_SOURCE, PER_USAGE, PER_REPORT, PER_SLICE = 60, 500, 8, 15, 25, 1
"""Microseconds for any message; for demand that counts, and for each known source beside it; for each slice that usage names; for
each report of a slice; and for each slice in the ledger where one message must look at all of them."""
BYTES_PARSED, BYTES_UNFOLDED, TASKS_PASSED, SLICES_PASSED = 20, 4, 2, 10
"""Bytes of JSON parsed, bytes of demand unfolded into tasks, tasks that a delta passes, and slices that reports pass, in a
microsecond. `python -m bench --only backlog` shows whether these still hold."""
_ALONE = 20
"""Messages read one by one after a batch failed: enough to get past the one at fault."""


class Received(NamedTuple):
    """A signal as it arrived, not read yet."""

    name: str
    raw: bytes
    at: datetime


class Read(NamedTuple):
    """The state after a batch of signals, how many were read, and the work that it took."""

    state: AutoscalerState
    messages: int
    work: int


def fold(state: AutoscalerState, batch: Sequence[Received]) -> AutoscalerState:
    """The state after all these signals; see `read_batch`."""
    while batch:
        state, count, _ = read_batch(state, batch)
        batch = batch[count:]
    return state


def read_batch(state: AutoscalerState, inbox: Sequence[Received], *, work: int = WORK) -> Read:
    """Read the first signals of the inbox until the work is spent, at least one. Never raises: what cannot be read is rejected.

    The result is that of reading them one by one, except that what a later message replaces leaves no trace: the newest
    usage of each slice, report on each group and snapshot of each source count, deltas, parts and confirmations all do.

    Work is estimated from the messages and the state, never measured: a replay must read the same batches.
    """
    if len(inbox) > 1:
        try:
            return _coalesced(state, inbox, work)
        except Exception:  # A message that stops its batch is found by reading one at a time.
            return Read(_one_by_one(state, inbox[:_ALONE]), min(_ALONE, len(inbox)), work)
    alone = sum(PER_MESSAGE + len(received.raw) // BYTES_UNFOLDED + len(state.slices) * PER_SLICE for received in inbox)
    return Read(_one_by_one(state, inbox), len(inbox), alone)


def _one_by_one(state: AutoscalerState, batch: Sequence[Received]) -> AutoscalerState:
    for received in batch:
        try:
            state = _applied(state, read_signal(state, received.name, received.raw, received.at))
        except Exception as error:  # No message may stop the cluster, whatever it contains.
            problem = f"failed unexpectedly: {error!r}"[:500]
            state = apply(state, MessageRejected(at=received.at, message=received.name, problem=problem))
    return state


def _applied(state: AutoscalerState, events: Sequence[AnyEvent]) -> AutoscalerState:
    for event in events:
        state = apply(state, event)
    return state


class _Demand(NamedTuple):
    """One demand message, the signal that brought it, and how many unnumbered snapshots it replaces."""

    name: str
    at: datetime
    message: DemandMessage
    replaced: int = 0


class _Batch:
    """The parts of a batch by what they are about, and the work of reading and applying them."""

    def __init__(self, state: AutoscalerState) -> None:
        self.reports: list[SliceReport] = []
        self.demand: list[_Demand] = []
        self.usage: dict[str, list[UsageMessage]] = {}
        """Usage by source, in the order of arrival, whichever signal brought it."""
        self.usage_signals: dict[str, str] = {}
        """The last signal that brought usage, by source."""
        self.pressure: list[tuple[str, list[PressureMessage]]] = []
        """Reports of pressure by signal, in the order of arrival; those of one source that follow each other are together."""
        self.confirmed: dict[str, dict[Confirmation, None]] = {}
        """Confirmed drains by signal, in the order of arrival."""
        self.work = 0
        self._state = state
        self._named: set[tuple[str, str]] = set()
        """Source and slice of all usage so far."""

    def add(self, received: Received) -> None:
        """Sort a message of a controller or slice; raises `BadMessage`."""
        name, raw, at = received
        self.work += PER_MESSAGE + len(raw) // BYTES_PARSED
        if name == names.SLICES_REPORTED:
            self._add_reports(read(SliceReports, raw).reports)
        elif name == names.DEMAND:
            self._add_demand(_Demand(name, at, read(DemandMessage, raw)), len(raw))
        elif name == names.USAGE:
            self._add_usage(name, read(UsageMessage, raw))
        elif name == names.PRESSURE:
            self._add_pressure(name, read(PressureMessage, raw))
        elif name == names.CONFIRM_DRAIN:
            self._add_confirmed(name, read(ConfirmDrainMessage, raw).slices)
        else:
            report = read(ReportMessage, raw)
            if report.demand is not None:
                self._add_demand(_Demand(name, at, report.demand), len(raw))
            self._add_usage(name, report.usage_message)
            self._add_pressure(name, report.pressure_message)
            self._add_confirmed(name, report.confirmed)

    def _add_reports(self, reports: Sequence[SliceReport]) -> None:
        self.work += PER_REPORT * len(reports) + (0 if self.reports else len(self._state.slices) // SLICES_PASSED)
        self.reports += reports

    def _add_demand(self, demand: _Demand, size: int) -> None:
        """Whole snapshots replace each other; the first one of a source stands for the work of the last."""
        message = demand.message
        whole = message.base is None and message.parts == 1
        if not whole or all(other.message.source != message.source for other in self.demand):
            self.work += PER_DEMAND + size // BYTES_UNFOLDED + len(self._state.demand) * PER_SOURCE
        if message.base is not None and message.source in self._state.demand:
            self.work += self._state.demand[message.source].tasks // TASKS_PASSED
        self.demand.append(demand)

    def _add_usage(self, name: str, message: UsageMessage) -> None:
        if message.source not in self.usage:
            self.work += len(self._state.slices) * PER_SLICE
        new = {(message.source, slice_id) for slice_id in message.usage} - self._named
        self.work += PER_USAGE * len(new)
        self._named |= new
        self.usage.setdefault(message.source, []).append(message)
        self.usage_signals[message.source] = name

    def _add_pressure(self, name: str, message: PressureMessage | None) -> None:
        if message is None:
            return
        self.work += PER_USAGE * len(message.pressure)
        if self.pressure and (name, message.source) == (self.pressure[-1][0], self.pressure[-1][1][0].source):
            self.pressure[-1][1].append(message)
            return
        self.work += len(self._state.slices) * PER_SLICE
        self.pressure.append((name, [message]))

    def _add_confirmed(self, name: str, confirmed: Sequence[Confirmation]) -> None:
        if confirmed and name not in self.confirmed:
            self.work += len(self._state.slices) * PER_SLICE
        self.confirmed.setdefault(name, {}).update(dict.fromkeys(confirmed))


_COALESCED = (names.SLICES_REPORTED, names.DEMAND, names.USAGE, names.PRESSURE, names.CONFIRM_DRAIN, names.REPORT)


def _coalesced(state: AutoscalerState, inbox: Sequence[Received], work: int) -> Read:
    parts, count, at = _Batch(state), 0, inbox[0].at
    for received in inbox:
        if count and parts.work >= work:
            break
        count, at = count + 1, received.at
        if received.name in _COALESCED:
            try:
                parts.add(received)
            except BadMessage as bad:
                state = apply(state, MessageRejected(at=received.at, message=received.name, problem=str(bad)))
            continue
        parts.work += PER_MESSAGE + len(received.raw) // BYTES_PARSED + len(state.slices) * PER_SLICE
        state = _with_reports(state, parts, received.at)  # An audit is read after the reports that came before it.
        state = _applied(state, read_signal(state, received.name, received.raw, received.at))
    state = _with_reports(state, parts, at)
    for demand in _newest_demand(state, parts.demand):
        state = _with_demand(state, demand)
    for source, messages in parts.usage.items():
        state = _applied(state, usage_events(state, messages, at, parts.usage_signals[source]))
    for name, reports in parts.pressure:
        state = _applied(state, pressure_events(state, reports, at, name))
    for name, confirmed in parts.confirmed.items():
        if confirmed:
            state = _applied(state, confirmed_events(state, tuple(confirmed), at, name))
    return Read(state, count, parts.work)


def _with_reports(state: AutoscalerState, parts: _Batch, at: datetime) -> AutoscalerState:
    reports, parts.reports = tuple(parts.reports), []
    return apply(state, SlicesReported(at=at, reports=reports)) if reports else state


def _with_demand(state: AutoscalerState, demand: _Demand) -> AutoscalerState:
    """Apply demand. An unnumbered snapshot counts the ones it replaces, as if each had been applied."""
    events = demand_events(state, demand.message, demand.at, demand.name)
    if demand.replaced:
        events = tuple(
            event.model_copy(update={"revision": event.revision + demand.replaced})
            if isinstance(event, DemandSnapshot)
            else event
            for event in events
        )
    return _applied(state, events)


def _newest_demand(state: AutoscalerState, demands: Sequence[_Demand]) -> list[_Demand]:
    """The messages that no later snapshot of their source replaces, in the order of arrival.

    Only a whole snapshot that will be accepted replaces others: numbered ones with an older stamp, or, if it has none, earlier
    snapshots without one.
    """
    sources = [demand.message.source for demand in demands]
    kept: list[_Demand] = []
    newest: dict[str, tuple[int, int]] = {}
    unnumbered: dict[str, int] = {}
    """Position in `kept` of the snapshot that replaces earlier ones, by source."""
    for demand in reversed(demands):
        message = demand.message
        source = message.source
        stamp = None if message.epoch is None or message.revision is None else (message.epoch, message.revision)
        if stamp is None and source in unnumbered:
            later = kept[unnumbered[source]]
            kept[unnumbered[source]] = later._replace(replaced=later.replaced + 1)
            continue
        if stamp is not None and source in newest and stamp < newest[source]:
            continue
        whole = message.base is None and message.parts == 1
        if whole and sources.count(source) > 1:
            demand = _decoded(demand)
            if _is_acceptable(state, demand):
                if stamp is None:
                    unnumbered[source] = len(kept)
                else:
                    newest[source] = max(stamp, newest.get(source, stamp))
        kept.append(demand)
    return kept[::-1]


def _decoded(demand: _Demand) -> _Demand:
    """The message with its tasks as demand, so that they are read only once."""
    if demand.message.tasks is None:
        return demand
    decoded = {"tasks": None, "demand": demand_of(demand.message.tasks)}
    return demand._replace(message=demand.message.model_copy(update=decoded))


def _is_acceptable(state: AutoscalerState, demand: _Demand) -> bool:
    try:
        event: DemandSnapshot | DemandDelta = demand_event(state, demand.message, demand.at)
    except BadMessage:
        return False
    return exceeds_limits(state, event) is None
