"""Simulated time: processes that wait as workflows do, for seconds or for conditions, and run one at a time in a fixed order."""

from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
"""When every simulated world begins."""
MOST_STEPS = 1_000
"""Steps in one moment: more mean that processes wake each other without end."""

Condition: TypeAlias = Callable[[], bool]


class Within(NamedTuple):
    """Wait for a condition, at most for so long; the process is sent whether it holds."""

    condition: Condition
    seconds: float


Wait: TypeAlias = "float | Condition | Within"
"""What a process yields: seconds, a condition, or both."""
Process: TypeAlias = Generator[Wait, bool, None]


class Task:
    """A process under way."""

    __slots__ = ("alive", "begun", "condition", "process", "timer")

    def __init__(self, process: Process) -> None:
        self.process = process
        self.alive = True
        self.begun = False
        self.condition: Condition | None = None
        self.timer = 0
        """Number of the timer that wakes it; older ones are void."""


class Clock:
    """The time, and all processes and actions that wait for it."""

    def __init__(self) -> None:
        self.now = BEGIN
        self._tasks: list[Task] = []
        self._timers: list[tuple[datetime, int, Task | Callable[[], object]]] = []
        self._number = 0

    def start(self, process: Process) -> Task:
        """Start a process; its first step runs at the current moment, when the clock runs."""
        task = Task(process)
        task.condition = lambda: True
        self._tasks.append(task)
        return task

    def stop(self, *tasks: Task) -> None:
        """End processes wherever they are: what runs them was killed."""
        for task in tasks:
            task.alive = False
            task.process.close()
        self._tasks = [task for task in self._tasks if task.alive]

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something later."""
        self._set(seconds, action)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + timedelta(seconds=seconds)
        self._settle()
        while self._timers and self._timers[0][0] <= end:
            at, number, due = heappop(self._timers)
            self.now = at
            if not isinstance(due, Task):
                due()
            elif due.alive and due.timer == number:
                self._resume(due, held=due.condition is not None and due.condition())
            else:
                continue
            self._settle()
        self.now = end

    def seconds_since(self, moment: datetime) -> float:
        """How long ago a moment was."""
        return (self.now - moment).total_seconds()

    def _settle(self) -> None:
        """Resume processes until no condition holds."""
        for _ in range(MOST_STEPS):
            ready = next((task for task in self._tasks if task.condition is not None and task.condition()), None)
            if ready is None:
                return
            self._resume(ready, held=True)
        raise AssertionError(f"processes wake each other without end at {self.now}")

    def _resume(self, task: Task, *, held: bool) -> None:
        task.condition, task.timer = None, 0
        try:
            wait = task.process.send(held) if task.begun else next(task.process)
        except StopIteration:
            task.alive = False
            self._tasks.remove(task)
            return
        task.begun = True
        if isinstance(wait, Within):
            task.condition, task.timer = wait.condition, self._set(wait.seconds, task)
        elif callable(wait):
            task.condition = wait
        else:
            task.timer = self._set(wait, task)

    def _set(self, seconds: float, due: Task | Callable[[], object]) -> int:
        self._number += 1
        heappush(self._timers, (self.now + timedelta(seconds=max(0.0, seconds)), self._number, due))
        return self._number
