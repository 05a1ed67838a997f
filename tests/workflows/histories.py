"""An autoscaler's history: its activities, timers, signals and updates."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHandle

_ENDS_OF_ACTIVITIES: dict[EventType.ValueType, str] = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: "activity_task_completed_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED: "activity_task_failed_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT: "activity_task_timed_out_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED: "activity_task_canceled_event_attributes",
}
_ENDS_OF_TIMERS: dict[EventType.ValueType, str] = {
    EventType.EVENT_TYPE_TIMER_FIRED: "timer_fired_event_attributes",
    EventType.EVENT_TYPE_TIMER_CANCELED: "timer_canceled_event_attributes",
}


class Span(NamedTuple):
    """An activity or a timer: what it is for, and the numbers of the events with which it began and ended."""

    about: str
    begun: int
    ended: int | None


class Record:
    """The history of one run."""

    def __init__(self, events: Sequence[HistoryEvent]) -> None:
        self._events = events

    def activities(self, name: str | None = None) -> list[Span]:
        """Activities, of one name or all, by name."""
        ends = self._ends(_ENDS_OF_ACTIVITIES, "scheduled_event_id")
        kind = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
        found = [event for event in self._events if event.event_type == kind]
        spans = [
            Span(event.activity_task_scheduled_event_attributes.activity_type.name, event.event_id, ends.get(event.event_id))
            for event in found
        ]
        return [span for span in spans if name in (None, span.about)]

    def timers(self) -> list[Span]:
        """Timers, by their summaries."""
        ends = self._ends(_ENDS_OF_TIMERS, "started_event_id")
        found = [event for event in self._events if event.event_type == EventType.EVENT_TYPE_TIMER_STARTED]
        return [Span(json.loads(event.user_metadata.summary.data), event.event_id, ends.get(event.event_id)) for event in found]

    def signals(self, name: str) -> list[int]:
        """The events of signals of that name."""
        kind = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
        found = [event for event in self._events if event.event_type == kind]
        return [event.event_id for event in found if event.workflow_execution_signaled_event_attributes.signal_name == name]

    def updates(self, name: str) -> list[int]:
        """The events of accepted updates of that name."""
        kind = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED
        found = [event for event in self._events if event.event_type == kind]
        accepted = [(event.event_id, event.workflow_execution_update_accepted_event_attributes) for event in found]
        return [number for number, update in accepted if update.accepted_request.input.name == name]

    def children(self) -> int:
        """How many workflows were started."""
        kind = EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED
        return sum(event.event_type == kind for event in self._events)

    def is_between_tasks(self) -> bool:
        """Whether no workflow task is scheduled or under way."""
        begun = EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED
        ended = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
        last = [event.event_type for event in self._events if event.event_type in (begun, ended)][-1]
        return last == ended

    def _ends(self, kinds: dict[EventType.ValueType, str], beginning: str) -> dict[int, int]:
        """By the event that began something, the one that ended it."""
        ended = [event for event in self._events if event.event_type in kinds]
        return {getattr(getattr(event, kinds[event.event_type]), beginning): event.event_id for event in ended}


async def recorded(handle: "WorkflowHandle[Any, Any]") -> Record:
    """The history of the newest run."""
    return Record((await handle.fetch_history()).events)
