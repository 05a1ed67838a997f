"""Build the usage and pressure messages of one source: differences to what was sent, and heartbeats."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from penstock.client.errors import Refused
from penstock.contract.error_codes import ErrorCode
from penstock.contract.messages import Confirmation
from penstock.contract.slice_answers import DrainStatus
from penstock.model.pressure import PressureReport

EmptiedSlice: TypeAlias = DrainStatus | Confirmation | str
"""A drain as the status shows it, whose slice is empty; or the id of a slice alone, which counts for whichever drain it is in."""


def confirmation_of(emptied: EmptiedSlice) -> Confirmation:
    """The confirmation of a drain."""
    if isinstance(emptied, Confirmation):
        return emptied
    if isinstance(emptied, DrainStatus):
        return Confirmation(slice_id=emptied.slice_id, number=emptied.number)
    return Confirmation(slice_id=emptied)


class UsageMessages:
    """The usage, pressure and confirmations that one source has to send, what it has sent, and their revision.

    What is not sent yet is coalesced: the newest word on each slice, the newest report on each group, and every confirmation.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.revision = 0
        self.waiting: dict[str, Any] = {}
        self.pressure: dict[str, PressureReport] = {}
        """Reports of pressure that wait, by group."""
        self.confirmed: dict[Confirmation, None] = {}
        self._sent_pressure: dict[str, PressureReport] = {}
        self._sent: dict[str, Any] = {}
        self._sent_at: float | None = None
        self.was_reported = False
        """Whether the controller has reported anything, if only that nothing changed."""

    @property
    def stamp(self) -> tuple[int, int]:
        """(epoch, revision) of the last message."""
        return (self.epoch, self.revision)

    def add(self, usage: Mapping[str, Any], confirmed: Iterable[EmptiedSlice]) -> None:
        """Note what is to be sent: usage that differs from the last that was sent on a slice, and confirmations.

        What was sent on slices that this report does not name is forgotten: they may be gone. Naming them again sends them.
        """
        plain, emptied = _plain(usage), [confirmation_of(one) for one in confirmed]
        self.was_reported = True
        if plain:
            self._sent = {slice_id: word for slice_id, word in self._sent.items() if slice_id in plain}
        for slice_id, word in plain.items():
            if self._sent.get(slice_id) == word:
                self.waiting.pop(slice_id, None)
            else:
                self.waiting[slice_id] = word
        self.confirmed.update(dict.fromkeys(emptied))

    def add_pressure(self, group: str, report: PressureReport) -> None:
        """Note that a report on a group is to be sent, if it differs from the last that was sent."""
        self.was_reported = True
        if self._sent_pressure.get(group) == report:
            self.pressure.pop(group, None)
        else:
            self.pressure[group] = report

    def due_in(self, now: float, *, heartbeat: float) -> float:
        """Seconds until a message is due: none if there is news; else until it is time for a heartbeat."""
        if self.waiting or self.pressure or self.confirmed or self._sent_at is None:
            return 0.0
        return max(0.0, self._sent_at + heartbeat - now)

    def heard(self, now: float) -> None:
        """Note that the source sent another message: it is not time for a heartbeat."""
        self._sent_at = now

    def next_stamp(self) -> dict[str, int]:
        """The number of the next message."""
        self.revision += 1
        return {"epoch": self.epoch, "revision": self.revision}

    def sent(self, usage: Mapping[str, Any], confirmed: Iterable[Confirmation], now: float) -> None:
        """Note that these were sent; words that came since stay."""
        for slice_id, word in usage.items():
            self._sent[slice_id] = word
            if self.waiting.get(slice_id) == word:
                del self.waiting[slice_id]
        for one in confirmed:
            self.confirmed.pop(one, None)
        self._sent_at = now

    def sent_pressure(self, pressure: Mapping[str, PressureReport]) -> None:
        """Note that these reports were sent; newer ones stay."""
        for group, report in pressure.items():
            self._sent_pressure[group] = report
            if self.pressure.get(group) == report:
                del self.pressure[group]

    def send_pressure_again(self, groups: Collection[str]) -> None:
        """Send the reports on these groups once more: they could not be used when they were sent."""
        for group in groups:
            if group in self._sent_pressure:
                self.pressure.setdefault(group, self._sent_pressure.pop(group))

    def start_again(self, after: int) -> None:
        """Send everything once more: the autoscaler does not have what was sent."""
        self.waiting = self._sent | self.waiting
        self.pressure = self._sent_pressure | self.pressure
        self._sent, self._sent_pressure, self._sent_at = {}, {}, None
        if after >= self.epoch:
            self.epoch, self.revision = after + 1, 0


def _plain(usage: Mapping[str, Any]) -> dict[str, Any]:
    """The usage as plain JSON; raises `Refused` for words that no message can hold, so that they stop no other report."""
    try:
        plain: dict[str, Any] = to_jsonable_python(dict(usage))
        to_json(plain)
    except (PydanticSerializationError, ValueError) as error:
        raise Refused(f"usage: cannot be sent as JSON: {error}; use plain values and texts", ErrorCode.BAD_INPUT) from None
    return plain
