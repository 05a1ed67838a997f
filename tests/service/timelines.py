"""Timelines: what a case of `timelines.yaml` says, and what one look at a stage is compared with."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from penstock.model.cluster import Pool
from penstock.model.decision import Code
from penstock.model.failures import FailureKind
from penstock.model.slices import Availability, SliceState
from penstock.model.value import Value

Counts = dict[str, int]
Names = tuple[str, ...]


class Expectation(Value):
    """What comes true together. Groups and slices that are not named may be as they like."""

    ready: Counts = Field(default_factory=dict)
    slices: Counts = Field(default_factory=dict)
    """In the ledger, in any state."""
    made: Counts = Field(default_factory=dict)
    """In the cloud, ever."""
    serving: Names = ()
    draining: Names = ()
    leaving: Names = ()
    """DELETING in the ledger."""
    alive: Names = ()
    gone: Names = ()
    """Neither in the cloud nor in the ledger."""
    failed: dict[str, FailureKind] = Field(default_factory=dict)
    kinds: tuple[FailureKind, ...] = ()
    """Failures of any slices."""
    unmet: dict[Code, int] | None = None
    availability: dict[str, Availability] = Field(default_factory=dict)
    untouched: Names = ()
    """Strangers that run."""


class Step(Value):
    """What happens, and what comes of it."""

    cloud: dict[str, dict[str, Any]] = Field(default_factory=dict)
    retire: Names = ()
    demand: tuple[dict[str, Any], ...] | None = None
    usage: dict[str, str] = Field(default_factory=dict)
    drain: Names = ()
    confirm: Names = ()
    cancel_drain: Names = ()
    restart: bool = False
    preempt: Names = ()
    kill_host: Names = ()
    vanish: Names = ()
    appear: Names = ()
    """Groups of which a resource is there that nobody ordered."""
    strangers: Names = ()
    clear_block: bool = False
    expect: Expectation = Expectation()


class Case(Value):
    """One timeline. No group ever has more resources at a time than `most` says."""

    id: str
    title: str
    groups: tuple[dict[str, Any], ...]
    pools: tuple[Pool, ...] = ()
    most: Counts = Field(default_factory=dict)
    steps: tuple[Step, ...]

    @property
    def restarts(self) -> int:
        """How often the worker is killed."""
        return sum(step.restart for step in self.steps)


class Look(Value):
    """A stage at one moment, in the words of expectations; slices by their names there."""

    states: dict[str, SliceState]
    phases: dict[str, str]
    """Of everything ever made."""
    failures: tuple[tuple[str, FailureKind], ...]
    unmet: dict[Code, int]
    availability: dict[str, Availability]
    strangers: Names

    def shortfalls(self, expected: Expectation) -> list[str]:
        """What is not as expected."""
        return [*self._counted(expected), *self._named(expected), *self._told(expected)]

    def _counted(self, expected: Expectation) -> Iterator[str]:
        ready = [name for name, state in self.states.items() if state is SliceState.READY]
        for what, wanted, among in (
            ("ready", expected.ready, ready),
            ("slices", expected.slices, self.states),
            ("made", expected.made, self.phases),
        ):
            for group, count in wanted.items():
                found = sum(name.startswith(f"{group}/") for name in among)
                if found != count:
                    yield f"{what} of {group}: {found}, not {count}"

    def _named(self, expected: Expectation) -> Iterator[str]:
        wanted = dict.fromkeys(expected.serving, SliceState.READY)
        wanted |= dict.fromkeys(expected.draining, SliceState.DRAINING)
        wanted |= dict.fromkeys(expected.leaving, SliceState.DELETING)
        for name, state in wanted.items():
            if self.states.get(name) is not state:
                yield f"{name} is {self.states.get(name)}, not {state}"
        for name in expected.alive:
            if self.phases.get(name) in (None, "gone"):
                yield f"{name} is not alive"
        for name in expected.gone:
            if name in self.states or self.phases.get(name) != "gone":
                yield f"{name} is not gone: {self.phases.get(name)}"
        for name in expected.untouched:
            if name not in self.strangers:
                yield f"{name} does not run"

    def _told(self, expected: Expectation) -> Iterator[str]:
        for failure in expected.failed.items():
            if failure not in self.failures:
                yield f"{failure} is not told"
        for kind in expected.kinds:
            if kind not in [each for _, each in self.failures]:
                yield f"no {kind} is told"
        if expected.unmet is not None and self.unmet != expected.unmet:
            yield f"unmet: {self.unmet}"
        for group, availability in expected.availability.items():
            if self.availability.get(group) is not availability:
                yield f"{group} is {self.availability.get(group)}, not {availability}"


def load_cases(path: Path) -> tuple[Case, ...]:
    """Every case of a file, its groups completed from the file's `group`."""
    told = yaml.safe_load(path.read_text(encoding="utf-8"))
    whole = [case | {"groups": [told["group"] | group for group in case["groups"]]} for case in told["cases"]]
    return tuple(Case.model_validate(case) for case in whole)
