"""Build the usage messages of one source: differences to what was sent, a heartbeat, and a bound on what nobody has read."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from penstock.client.errors import Refused
from penstock.contract.error_codes import ErrorCode


class UsageMessages:
    """The usage and confirmations that one source has to send, the usage that it has sent, and their revision.

    What is not sent yet is coalesced: the newest word on each slice, and every confirmation.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.revision = 0
        self.waiting: dict[str, Any] = {}
        self.confirmed: dict[str, None] = {}
        self._sent: dict[str, Any] = {}
        self._sent_at: float | None = None
        self.was_reported = False
        """Whether the controller has reported anything, if only that nothing changed."""

    @property
    def stamp(self) -> tuple[int, int]:
        """(epoch, revision) of the last message."""
        return (self.epoch, self.revision)

    def add(self, usage: Mapping[str, Any], confirmed: Iterable[str]) -> None:
        """Note what is to be sent: usage that differs from the last that was sent on a slice, and confirmations.

        What was sent on slices that this report does not name is forgotten: they may be gone. Naming them again sends them.
        """
        plain = _plain(usage)
        self.was_reported = True
        if plain:
            self._sent = {slice_id: word for slice_id, word in self._sent.items() if slice_id in plain}
        for slice_id, word in plain.items():
            if self._sent.get(slice_id) == word:
                self.waiting.pop(slice_id, None)
            else:
                self.waiting[slice_id] = word
        self.confirmed.update(dict.fromkeys(confirmed))

    def due_in(self, now: float, *, heartbeat: float) -> float:
        """Seconds until a message is due: none if there is news; else until it is time for a heartbeat."""
        if self.waiting or self.confirmed or self._sent_at is None:
            return 0.0
        return max(0.0, self._sent_at + heartbeat - now)

    def heard(self, now: float) -> None:
        """Note that the source sent another message: it is not time for a heartbeat."""
        self._sent_at = now

    def next_stamp(self) -> dict[str, int]:
        """The number of the next message."""
        self.revision += 1
        return {"epoch": self.epoch, "revision": self.revision}

    def sent(self, usage: Mapping[str, Any], confirmed: Iterable[str], now: float) -> None:
        """Note that these were sent; words that came since stay."""
        for slice_id, word in usage.items():
            self._sent[slice_id] = word
            if self.waiting.get(slice_id) == word:
                del self.waiting[slice_id]
        for slice_id in confirmed:
            self.confirmed.pop(slice_id, None)
        self._sent_at = now

    def start_again(self, after: int) -> None:
        """Send everything once more: the autoscaler does not have what was sent."""
        self.waiting = self._sent | self.waiting
        self._sent, self._sent_at = {}, None
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
