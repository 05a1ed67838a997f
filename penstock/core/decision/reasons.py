"""Why a shape is unmet: a code, a short sentence, and every candidate group's own code."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import NamedTuple

from penstock.core.decision.fleet import Fleet
from penstock.core.decision.headroom import Headroom
from penstock.core.decision.match import per_host_need, requirement_exclusion, size_exclusion
from penstock.model.cluster import ScaleGroup
from penstock.model.constraints import Constraint, Operator, as_text
from penstock.model.decision import Code
from penstock.model.resources import DIMENSIONS, format_amount
from penstock.model.shape import Shape

NAMED = 5
"""Names in a sentence before the rest are only counted: enough to act on, short enough to read."""


class Reason(NamedTuple):
    """What to tell whoever waits."""

    code: Code
    message: str
    groups: dict[str, Code]


class Reasons:
    """Explains unmet shapes; shapes with the same candidates and the same fate share one explanation."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._groups = fleet.groups
        self._now = fleet.snapshot.now
        self._full: dict[object, Reason] = {}

    def why(self, shape: Shape, headroom: Headroom) -> Reason:
        """Why no group can take the shape, once placing is over and this headroom is left."""
        matching = self._fleet.matcher.matching(shape)
        if not matching:
            excluded = {group.name: requirement_exclusion(shape, group) or Code.NO_MATCHING_GROUP for group in self._groups}
            return Reason(Code.NO_MATCHING_GROUP, _no_match(shape, self._groups), excluded)
        candidates = self._fleet.matcher.candidates(shape).order
        if not candidates:
            return self._no_size(shape, [self._groups[g] for g in matching])
        key = (matching, self._fleet.matcher.size_exclusions(shape), headroom)
        if key not in self._full:
            self._full[key] = self._no_room(shape, matching, headroom)
        return self._full[key]

    def _no_size(self, shape: Shape, matching: Sequence[ScaleGroup]) -> Reason:
        codes = {group.name: size_exclusion(shape, group) or Code.NO_CAPACITY for group in matching}
        mismatched = [group for group in matching if codes[group.name] is Code.GANG_SIZE_MISMATCH]
        if mismatched:
            return Reason(Code.GANG_SIZE_MISMATCH, _gang_sizes(shape, mismatched), codes)
        return Reason(Code.INSUFFICIENT_RESOURCES, _shortage(shape, matching), codes)

    def _no_room(self, shape: Shape, matching: Sequence[int], headroom: Headroom) -> Reason:
        causes = {g: size_exclusion(shape, self._groups[g]) or headroom.cause(g) for g in matching}
        codes = {self._groups[g].name: code for g, code in causes.items()}
        fitting = [g for g in matching if size_exclusion(shape, self._groups[g]) is None]
        if all(causes[g] is Code.TIER_BLOCKED for g in fitting):
            blocks = {g: headroom.blocked[g] for g in fitting}
            listed = [f"{self._groups[g].name} ({block.reason}{until(block.until)})" for g, block in blocks.items() if block]
            return Reason(Code.TIER_BLOCKED, f"every matching group is in a blocked tier: {some(listed)}", codes)
        listed = [f"{self._groups[g].name}={causes[g]}{self._detail(g, headroom)}" for g in matching]
        return Reason(Code.NO_CAPACITY, f"no matching group can take it now: {some(listed)}", codes)

    def _detail(self, g: int, headroom: Headroom) -> str:
        block = headroom.blocked[g]
        if block is None:
            return ""
        return until(block.until) + (f" ({block.reason})" if block.reason else "")


def until(moment: datetime | None) -> str:
    """` until 12:05:00Z`, or nothing where the end is not known."""
    return "" if moment is None else f" until {moment:%Y-%m-%d %H:%M:%S}Z"


def some(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    listed = list(names)
    more = len(listed) - NAMED
    return ", ".join(listed[:NAMED]) + (f" and {more} more" if more > 0 else "")


# --- nothing of that kind -----------------------------------------------------------------------------------------


def _no_match(shape: Shape, groups: Sequence[ScaleGroup]) -> str:
    """Which requirement left no group: one that nothing satisfies if there is one, else the one that excluded the last."""
    if not groups:
        return "the configuration has no groups"
    of_type = [group for group in groups if not shape.accelerated or group.device.type is shape.device.type]
    if not of_type:
        offered = sorted({str(group.device.type) for group in groups})
        return f"no group offers device {shape.device.type}; groups offer {some(offered)}"
    if shape.device.variants and not any(group.device.variant in shape.device.variants for group in of_type):
        known = sorted({group.device.variant for group in of_type if group.device.variant})
        wanted = " or ".join(shape.device.variants)
        return f"no {shape.device.type} group offers variant {wanted}{_suggestion(shape.device.variants, known)}"
    hard = [*_preemptible(shape), *(constraint for constraint in shape.constraints if not constraint.soft)]
    for constraint in hard:
        if not any(constraint.holds(group.all_attributes) for group in groups):
            return f"no group satisfies {constraint}{_hint(constraint, groups)}"
    left = [group for group in of_type if not shape.device.variants or group.device.variant in shape.device.variants]
    for constraint in hard:
        kept = [group for group in left if constraint.holds(group.all_attributes)]
        if not kept:
            return f"{constraint} excludes the last candidates: {some(group.name for group in left)}"
        left = kept
    return "no group matches"


def _preemptible(shape: Shape) -> list[Constraint]:
    if shape.preemptible is None:
        return []
    return [Constraint(attribute="preemptible", op=Operator.EQ, values=(shape.preemptible,))]


def _hint(constraint: Constraint, groups: Sequence[ScaleGroup]) -> str:
    """A spelling that exists, or a region where a zone was asked for; what excludes values needs no hint."""
    if constraint.op not in (Operator.EQ, Operator.IN):
        return ""
    wanted = [as_text(value) for value in constraint.values]
    regions = {group.region: group.zone for group in groups if group.region}
    for value in wanted:
        if constraint.attribute == "zone" and value in regions:
            return f"; {value} is a region: ask for region = {value}, or a zone such as {regions[value]}"
    known = {
        as_text(group.all_attributes[constraint.attribute]) for group in groups if constraint.attribute in group.all_attributes
    }
    if not known:
        attributes = sorted({name for group in groups for name in group.all_attributes})
        return _suggestion([constraint.attribute], attributes, kind="attributes ")
    return _suggestion(wanted, sorted(known))


def _suggestion(wanted: Sequence[str], known: Sequence[str], *, kind: str = "") -> str:
    close = [match for value in wanted for match in get_close_matches(value, known, n=1, cutoff=0.6)]
    if close:
        return f"; did you mean {' or '.join(dict.fromkeys(close))}?"
    return f"; {kind}on offer: {some(known)}" if known else ""


# --- the wrong size -----------------------------------------------------------------------------------------------


def _shortage(shape: Shape, groups: Sequence[ScaleGroup]) -> str:
    """What the closest host lacks."""
    need = per_host_need(shape)

    def short(group: ScaleGroup) -> list[int]:
        return [d for d in range(len(DIMENSIONS)) if need[d] > group.host.vector[d]]

    def shortage(group: ScaleGroup) -> tuple[float, str]:
        return (sum(1 - group.host.vector[d] / need[d] for d in short(group)), group.name)

    closest = min(groups, key=shortage)
    lacks = []
    for d in short(closest):
        have = closest.host.vector[d]
        amounts = (format_amount(d, need[d]), format_amount(d, have), format_amount(d, need[d] - have))
        lacks.append(f"needs {DIMENSIONS[d]} {amounts[0]}, one host has {amounts[1]}: {amounts[2]} short")
    others = f" (closest of {len(groups)} matching groups)" if len(groups) > 1 else ""
    return f"too big for a host of {closest.name}{others}: {'; '.join(lacks)}"


def _gang_sizes(shape: Shape, groups: Sequence[ScaleGroup]) -> str:
    assert shape.gang is not None
    per_host = shape.gang.tasks_per_host or 1
    sizes = sorted({group.hosts_per_slice * per_host for group in groups})
    offered = " or ".join(f"{size}, {2 * size}, …" for size in sizes[:NAMED])
    hosts = " or ".join(str(size // per_host) for size in sizes[:NAMED])
    return f"a gang of {shape.gang.size} does not fill whole slices of {hosts} hosts; sizes on offer: {offered}"
