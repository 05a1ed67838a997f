"""Timelines: what a case of `timelines.yaml` says, and what one look at a stage is compared with.

A word the format does not know is an error, and so are a group, a zone or a stranger that the case does not have.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from emulators.sim.behaviour import Behaviour
from penstock.config.documents import read_document
from penstock.model.cluster import ClusterConfig
from penstock.model.decision import Code
from penstock.model.failures import FailureKind
from penstock.model.slices import Availability, SliceState
from penstock.model.units import Seconds
from penstock.model.value import Value

Counts = dict[str, int]
Names = tuple[str, ...]
Standing = dict[str, Code | Literal["met"]]


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
    deferred: int | None = None
    """Slices that a limit holds back."""
    availability: dict[str, Availability] = Field(default_factory=dict)
    until: dict[str, Seconds | None] = Field(default_factory=dict)
    """Groups that are blocked, for no longer than so long from now; without a number, until someone clears it."""
    standing: Standing | None = None
    """Every owner's request: met, or why not."""
    rejected: int | None = None
    """Messages that could not be read, ever."""
    resync: bool | None = None
    """Whether a source of demand is asked to send everything again."""
    untouched: Names = ()
    """Strangers that run."""

    @model_validator(mode="after")
    def _something_is_expected(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("expect something")
        return self

    def groups(self) -> set[str]:
        """The groups it speaks of, by themselves or by their slices."""
        slices = (self.serving, self.draining, self.leaving, self.alive, self.gone, self.failed)
        groups = (self.ready, self.slices, self.made, self.availability, self.until)
        return {name for names in groups for name in names} | _groups_of(*slices)


class Request(Value):
    """A standing request of an owner; an empty one withdraws the one before."""

    wants: tuple[dict[str, Any], ...] = ()
    expires_seconds: Seconds | None = Field(default=None, alias="expires")
    """From now."""


class Step(Value):
    """What happens, and what comes of it."""

    cloud: dict[str, Behaviour] = Field(default_factory=dict)
    """How zones behave from now on."""
    cluster: dict[str, Any] = Field(default_factory=dict)
    groups: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """What changes in the configuration; a group that is not there is added."""
    retire: Names = ()
    pause: bool = False
    resume: bool = False
    demand: tuple[dict[str, Any], ...] | None = None
    send: tuple[dict[str, Any], ...] = ()
    """Signals by their names, as any program may send them."""
    usage: dict[str, Any] = Field(default_factory=dict)
    request: dict[str, Request] = Field(default_factory=dict)
    """Standing requests by their owners."""
    drain: Names = ()
    force_drain: Names = ()
    confirm: Names = ()
    cancel_drain: Names = ()
    restart: bool = False
    preempt: Names = ()
    kill_host: Names = ()
    """Slices that lose their first host, g/1, or another one, g/1/3."""
    vanish: Names = ()
    admit: Names = ()
    """Slices that the cloud lets out of its queue."""
    appear: Names = ()
    """Groups of which an orphan appears; a group may be unknown."""
    strangers: Names = ()
    clear_block: bool | str = False
    """Of one group, or of all."""
    expect: Expectation
    hold_seconds: Seconds = Field(default=0.0, alias="hold")
    """For so long everything stays as expected."""

    def named_groups(self) -> set[str]:
        """The groups it speaks of without bringing them."""
        slices = (self.usage, self.drain, self.force_drain, self.confirm, self.cancel_drain)
        struck = (self.preempt, self.kill_host, self.vanish, self.admit)
        cleared = {self.clear_block} if isinstance(self.clear_block, str) else set()
        return {*self.retire, *cleared} | _groups_of(*slices, *struck) | self.expect.groups()


class Case(Value):
    """One timeline. No group ever has more resources at a time than `most` says."""

    id: str
    title: str
    group: dict[str, Any] = Field(default_factory=dict)
    """What holds for every group that does not say otherwise."""
    groups: tuple[dict[str, Any], ...]
    cluster: dict[str, Any] = Field(default_factory=dict)
    """What else is configured."""
    most: Counts = Field(default_factory=dict)
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]

    @property
    def restarts(self) -> int:
        """How often the worker is killed."""
        return sum(step.restart for step in self.steps)

    def changed(self, groups: dict[str, dict[str, Any]], step: Step) -> dict[str, dict[str, Any]]:
        """The groups, those a step retires among them, with what the step changes."""
        return groups | {name: groups.get(name, self.group | {"name": name}) | change for name, change in step.groups.items()}

    def first_groups(self) -> dict[str, dict[str, Any]]:
        """The groups of the beginning, by their names."""
        return {group["name"]: self.group | group for group in self.groups}

    @model_validator(mode="after")
    def _the_configuration_is_valid(self) -> Self:
        ClusterConfig.model_validate({"cluster": "any", "groups": list(self.first_groups().values())} | self.cluster)
        return self

    @model_validator(mode="after")
    def _what_is_named_is_there(self) -> Self:
        groups = self.first_groups()
        _refuse_unknown("groups", set(self.most), set(groups))
        appeared: set[str] = set()
        strangers: set[str] = set()
        for step in self.steps:
            groups = self.changed(groups, step)
            appeared |= set(step.appear)
            strangers |= set(step.strangers)
            _refuse_unknown("groups", step.named_groups(), {*groups, *appeared})
            _refuse_unknown("zones", set(step.cloud), {group["zone"] for group in groups.values()})
            _refuse_unknown("strangers", set(step.expect.untouched), strangers)
        return self


class CaseFile(Value):
    """A file of cases: which cases of the study it omits, with the reason, and which it changes, with the change."""

    about: str
    restated: dict[str, str] = Field(default_factory=dict)
    group: dict[str, Any] = Field(default_factory=dict)
    shapes: dict[str, Any] = Field(default_factory=dict)
    cases: tuple[dict[str, Any], ...]

    def parsed(self) -> tuple[Case, ...]:
        """The cases; each has an id of its own."""
        cases = tuple(Case.model_validate({"group": self.group} | case) for case in self.cases)
        repeated = [i for i, count in Counter(case.id for case in cases).items() if count > 1]
        assert not repeated, f"every case needs an id of its own; repeated: {repeated}"
        return cases


def load_file(path: Path) -> CaseFile:
    """A file as written; a key that occurs twice in one mapping is refused."""
    return CaseFile.model_validate(read_document(path).data)


class Look(Value):
    """A stage at one moment, in the words of expectations; slices by their names there."""

    now: datetime
    states: dict[str, SliceState]
    phases: dict[str, str]
    """Of every resource ever created."""
    failures: tuple[tuple[str, FailureKind], ...]
    unmet: dict[Code, int]
    deferred: int
    availability: dict[str, Availability]
    blocked_until: dict[str, datetime | None]
    standing: Standing
    rejected: int
    resync: bool
    strangers: Names

    def shortfalls(self, expected: Expectation) -> list[str]:
        """One sentence for each expectation that does not hold."""
        return [*self._counted(expected), *self._named(expected), *self._reported(expected), *self._of_groups(expected)]

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
        wanted = [(name, SliceState.READY) for name in expected.serving]
        wanted += [(name, SliceState.DRAINING) for name in expected.draining]
        wanted += [(name, SliceState.DELETING) for name in expected.leaving]
        for name, state in wanted:
            if self.states.get(name) is not state:
                yield f"{name} is {self.states.get(name)}, not {state}"
        for name in expected.alive:
            if self.phases.get(name) in (None, "gone"):
                yield f"{name} is not alive"
        for name in expected.gone:
            if name in self.states or self.phases.get(name) != "gone":
                yield f"{name} is not gone: {self.phases.get(name)}, {self.states.get(name)}"
        for name in expected.untouched:
            if name not in self.strangers:
                yield f"{name} does not run"

    def _reported(self, expected: Expectation) -> Iterator[str]:
        for failure in expected.failed.items():
            if failure not in self.failures:
                yield f"{failure} is not reported"
        for kind in expected.kinds:
            if kind not in [each for _, each in self.failures]:
                yield f"no {kind} is reported"
        for what in ("unmet", "deferred", "standing", "rejected", "resync"):
            wanted, found = getattr(expected, what), getattr(self, what)
            if wanted is not None and found != wanted:
                yield f"{what}: {found}, not {wanted}"

    def _of_groups(self, expected: Expectation) -> Iterator[str]:
        for group, availability in expected.availability.items():
            if self.availability.get(group) is not availability:
                yield f"{group} is {self.availability.get(group)}, not {availability}"
        for group, longest in expected.until.items():
            if group not in self.blocked_until:
                yield f"{group} is not blocked"
                continue
            end = self.blocked_until[group]
            if (end is None) != (longest is None) or (end and longest and not 0 < (end - self.now).total_seconds() <= longest):
                yield f"{group} is blocked until {end}"


def _groups_of(*slices: Any) -> set[str]:
    return {name.split("/")[0] for names in slices for name in names}


def _refuse_unknown(what: str, named: set[str], known: set[str]) -> None:
    if named - known:
        raise ValueError(f"no such {what}: {', '.join(sorted(named - known))}")
