"""What is wrong after a run: pure rules over the facts that were read from cloud, slice workflows, ledger and demand."""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from penstock.core.slices import audit

READY = "READY"


class Fault(StrEnum):
    """The kinds of faults; a run passes only without any."""

    DOUBLED = "doubled"
    """An order that the cloud carried out more than once, or a group beyond its maximum."""
    LEAKED = "leaked"
    """A resource with the cluster's labels that no slice workflow or ledger knows."""
    LOST = "lost"
    """A slice or a demand that was accepted and is gone without a cause."""
    STUCK = "stuck"
    """A slice, a task or a location that did not come to rest before the deadline."""
    WEDGED = "wedged"
    """A workflow that gives no answer although server and workers run."""
    TOUCHED = "touched"
    """A foreign resource that was changed."""


class Finding(NamedTuple):
    """One fault: its kind, whom it concerns, and what was seen."""

    fault: Fault
    subject: str
    message: str


class Made(NamedTuple):
    """One resource that the cloud created for the cluster, gone or not."""

    slice_id: str
    group: str
    name: str
    exists: bool


class Held(NamedTuple):
    """What one source of demand sent last, and what the autoscaler has of it."""

    sent: frozenset[str]
    held: frozenset[str]


class Facts(NamedTuple):
    """One reading of everything that a run is judged by."""

    made: tuple[Made, ...] = ()
    ledger: Mapping[str, str] = {}
    """State by slice id."""
    workflows: Mapping[str, str] = {}
    """State by slice id, of the running slice workflows."""
    ordered: frozenset[str] = frozenset()
    """Slice ids for which a workflow was ever started."""
    demand: Mapping[str, Held] = {}
    """Task ids by source."""
    waiting: int = 0
    """Tasks and launches that the last decision leaves to wait."""
    silent: Mapping[str, str] = {}
    """What went wrong with asking, by workflow id."""
    differences: tuple[tuple[str, str, str], ...] = ()
    """Kind, slice id and message of each difference that `penstock verify` told."""
    unlisted: tuple[str, ...] = ()
    """Locations that could not be listed completely."""
    missing_foreign: tuple[str, ...] = ()
    """Foreign resources that are not as they were made."""


_OF_VERIFY = {
    audit.DOUBLED: Fault.DOUBLED,
    audit.NO_WORKFLOW: Fault.LEAKED,
    audit.NOT_IN_LEDGER: Fault.LEAKED,
    audit.FOREIGN: Fault.LEAKED,
    audit.NO_RESOURCE: Fault.LOST,
    audit.NOWHERE: Fault.LOST,
    audit.LOST: Fault.LOST,
    audit.STATE: Fault.STUCK,
}


def orders(facts: Facts) -> int:
    """How many slices were ordered, by workflow or by create call."""
    return len(facts.ordered | {made.slice_id for made in facts.made})


def findings(facts: Facts, *, stolen: Iterable[str] = ()) -> tuple[Finding, ...]:
    """Every fault, at most one of a kind for each subject, in order.

    A resource that was `stolen` before its reply arrived is rightly created again under its name.
    """
    found = [
        *_doubled(facts.made, frozenset(stolen)),
        *_leaked(facts),
        *_lost(facts),
        *_stuck(facts),
        *(Finding(Fault.WEDGED, name, why) for name, why in facts.silent.items()),
        *(Finding(Fault.TOUCHED, name, "a foreign resource is not as it was") for name in facts.missing_foreign),
        *(Finding(_OF_VERIFY[kind], subject, f"verify: {message}") for kind, subject, message in facts.differences),
    ]
    first = {(each.fault, each.subject): each for each in reversed(found)}
    return tuple(sorted(first.values(), key=lambda each: (list(Fault).index(each.fault), each.subject)))


def beyond_maximum(made: Iterable[Made], maxima: Mapping[str, int]) -> tuple[Finding, ...]:
    """The groups that have more resources at this moment than their maximum allows."""
    counts = Counter(each.group for each in made if each.exists)
    return tuple(
        Finding(Fault.DOUBLED, group, f"{count} resources, and the maximum is {maxima.get(group, 0)}")
        for group, count in sorted(counts.items())
        if count > maxima.get(group, 0)
    )


def is_clean(facts: Facts) -> bool:
    """Whether every slice is READY, in ledger, workflows and cloud alike, and nothing waits."""
    return not findings(facts, stolen={made.name for made in facts.made})


def _doubled(made: Iterable[Made], stolen: frozenset[str]) -> Iterable[Finding]:
    times = Counter(each.slice_id for each in made if each.exists or each.name not in stolen)
    for slice_id, count in times.items():
        if count > 1:
            yield Finding(Fault.DOUBLED, slice_id, f"created {count} times")


def _leaked(facts: Facts) -> Iterable[Finding]:
    for each in facts.made:
        if each.exists and each.slice_id not in facts.workflows:
            yield Finding(Fault.LEAKED, each.slice_id, f"{each.name} exists without a workflow")
        elif each.exists and each.slice_id not in facts.ledger:
            yield Finding(Fault.LEAKED, each.slice_id, f"{each.name} exists and is not in the ledger")


def _lost(facts: Facts) -> Iterable[Finding]:
    existing = {each.slice_id for each in facts.made if each.exists}
    for slice_id, state in facts.ledger.items():
        if slice_id not in facts.workflows:
            yield Finding(Fault.LOST, slice_id, f"{state} in the ledger, without a workflow")
        elif slice_id not in existing and state == READY:
            yield Finding(Fault.LOST, slice_id, f"{state} in the ledger, without a resource")
    for source, tasks in facts.demand.items():
        if tasks.sent != tasks.held:
            differ = sorted(tasks.sent ^ tasks.held)
            yield Finding(Fault.LOST, f"demand of {source}", f"{len(differ)} tasks differ, such as {differ[0]}")


def _stuck(facts: Facts) -> Iterable[Finding]:
    for where, states in (("ledger", facts.ledger), ("workflows", facts.workflows)):
        for slice_id, state in states.items():
            if state != READY:
                yield Finding(Fault.STUCK, slice_id, f"{state} in the {where}")
    for slice_id in facts.workflows.keys() - facts.ledger.keys():
        yield Finding(Fault.STUCK, slice_id, "its workflow runs, and it is not in the ledger")
    if facts.waiting:
        yield Finding(Fault.STUCK, "demand", f"{facts.waiting} tasks or launches still wait")
    for location in facts.unlisted:
        yield Finding(Fault.STUCK, location, "the location cannot be listed completely")
