"""Parse reports of pressure into events: the newest on each group, and a rejection for what cannot be used."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from penstock.contract.messages import PressureMessage
from penstock.contract.problems import LONGEST_NAME, BadMessage, describe_errors, shortened
from penstock.core.state import handshake
from penstock.core.state.events import AnyEvent, MessageRejected, PressureReported
from penstock.core.state.state import AutoscalerState, UsageSource
from penstock.model.elasticity import Drive
from penstock.model.pressure import PressureReport
from penstock.wording import counted, did_you_mean

_NAMED = 3
"""Problems of one source that its rejection names; the rest are only counted."""
_SUGGESTED = 3
"""Similar names that a rejection suggests."""


def read_pressure(state: AutoscalerState, messages: Sequence[PressureMessage], at: datetime, name: str) -> tuple[AnyEvent, ...]:
    """The newest report on each group, and a rejection for what could not be used. All messages are of one source."""
    said = _SaidOfGroups(state, messages[0].source)
    for message in sorted(messages, key=lambda each: each.stamp or (-1, -1)):
        said.add(message)
    epoch, revision = said.stamp or (None, None)
    event = PressureReported(
        at=at,
        source=messages[0].source,
        epoch=epoch,
        revision=revision,
        pressure=said.reports,
        from_old_config=said.from_old_config,
    )
    events: tuple[AnyEvent, ...] = (event,) if said.reports or said.stamp else ()
    if said.problems:
        more = len(said.problems) - _NAMED
        text = "; ".join(said.problems[:_NAMED]) + (f"; and {counted(more, 'more problem')}" if more > 0 else "")
        events += (MessageRejected(at=at, message=name, problem=text),)
    return events


class _SaidOfGroups:
    """What messages of one source say, added up in the order of their stamps: the newest report on each group."""

    def __init__(self, state: AutoscalerState, source: str) -> None:
        self._state, self._source = state, source
        self._before = state.usage_sources.get(source, UsageSource())
        self.reports: dict[str, PressureReport] = {}
        self.problems: list[str] = []
        self.stamp: tuple[int, int] | None = None
        self.from_old_config = False

    def add(self, message: PressureMessage) -> None:
        """A message of an older epoch says nothing, nor does one that was made for an older configuration once too often."""
        stamp = message.stamp
        if stamp is not None and stamp[0] < self._before.epoch:
            return
        if stamp is not None:
            self.stamp = stamp if self.stamp is None else max(self.stamp, stamp)
        try:
            is_old = self._is_from_old_config(message.config_revision)
        except BadMessage as bad:
            self.problems.append(str(bad))
            return
        for group, value in message.pressure.items():
            try:
                report = self._report(group, value)
            except BadMessage as bad:
                self.problems.append(f"pressure.{shortened(group, LONGEST_NAME)}{bad}")
                continue
            self.from_old_config = self.from_old_config or is_old
            if not self._is_overtaken(group, stamp):
                self.reports[group] = report

    def _is_from_old_config(self, revision: int | None) -> bool:
        """Whether the message was made for an older configuration; raises `BadMessage` if its source has sent one before."""
        is_old = handshake.is_from_old_config(self._state, handshake.reporting(self._source), revision)
        if is_old and self.from_old_config:
            raise BadMessage(handshake.taken_already(revision or 0, self._state.config_revision))
        return is_old

    def _is_overtaken(self, group: str, stamp: tuple[int, int] | None) -> bool:
        known = self._state.pressure.get(group)
        return stamp is not None and known is not None and known.source == self._source and stamp < known.stamp

    def _report(self, name: str, value: Any) -> PressureReport:
        groups = {group.name: group for group in self._state.config.groups} if self._state.config else {}
        if name not in groups:
            given = shortened(name, LONGEST_NAME)
            hint = did_you_mean(given, list(groups), noun="groups", most=_SUGGESTED, listing=_SUGGESTED)
            raise BadMessage(f": there is no group {given!r}; {hint}")
        if groups[name].drive is not Drive.PRESSURE:
            raise BadMessage(
                f": {name} is driven by the tasks that are placed on it (drive: entries); send tasks as demand, or set"
                " drive: pressure and slots_per_slice"
            )
        try:
            return PressureReport.model_validate(value)
        except ValidationError as error:
            raise BadMessage("; ".join(_problems(error))) from None


def _problems(error: ValidationError) -> Iterator[str]:
    for detail in error.errors(include_url=False):
        text = describe_errors([detail], PressureReport)
        yield f".{text}" if detail["loc"] else f": {text}"
