"""Why a shape is unmet: a code, a short sentence, and the code of every group considered."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from penstock.core.decision.fleet import Fleet
from penstock.core.decision.headroom import Headroom
from penstock.core.decision.match import per_host_need, requirement_exclusion, size_exclusion
from penstock.model.cluster import ScaleGroup
from penstock.model.constraints import Constraint, Operator, as_text
from penstock.model.decision import Code
from penstock.model.resources import DIMENSIONS, format_amount
from penstock.model.shape import Shape
from penstock.wording import LISTED, listed, similar


class Reason(NamedTuple):
    """The explanation given to the owner of an unmet task."""

    code: Code
    message: str
    groups: dict[str, Code]


class Reasons:
    """Explains unmet shapes. Shapes with the same candidates and the same headroom share one explanation."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._groups = fleet.groups
        self._without_headroom: dict[object, Reason] = {}

    def why(self, shape: Shape, headroom: Headroom) -> Reason:
        """Why no group can take the shape, given the headroom that is left after placing."""
        matching = self._fleet.matcher.matching(shape)
        if not matching:
            excluded = {group.name: requirement_exclusion(shape, group) or Code.NO_MATCHING_GROUP for group in self._groups}
            return Reason(Code.NO_MATCHING_GROUP, _no_match(shape, self._groups), excluded)
        candidates = self._fleet.matcher.candidates(shape).order
        if not candidates:
            return self._no_size(shape, [self._groups[g] for g in matching])
        key = (matching, self._fleet.matcher.size_exclusions(shape), headroom)
        if key not in self._without_headroom:
            self._without_headroom[key] = self._no_headroom(shape, matching, headroom)
        return self._without_headroom[key]

    def _no_size(self, shape: Shape, matching: Sequence[ScaleGroup]) -> Reason:
        codes = {group.name: size_exclusion(shape, group) or Code.NO_CAPACITY for group in matching}
        mismatched = [group for group in matching if codes[group.name] is Code.GANG_SIZE_MISMATCH]
        if mismatched:
            return Reason(Code.GANG_SIZE_MISMATCH, _gang_sizes(shape, mismatched), codes)
        return Reason(Code.INSUFFICIENT_RESOURCES, _shortage(shape, matching), codes)

    def _no_headroom(self, shape: Shape, matching: Sequence[int], headroom: Headroom) -> Reason:
        causes = {g: size_exclusion(shape, self._groups[g]) or headroom.cause(g) for g in matching}
        codes = {self._groups[g].name: code for g, code in causes.items()}
        fitting = [g for g in matching if size_exclusion(shape, self._groups[g]) is None]
        if all(causes[g] is Code.TIER_BLOCKED for g in fitting):
            blocks = {g: headroom.blocked[g] for g in fitting}
            names = [f"{self._groups[g].name} ({block.reason}{until(block.until)})" for g, block in blocks.items() if block]
            return Reason(Code.TIER_BLOCKED, f"every matching group is in a blocked tier: {listed(names)}", codes)
        names = [f"{self._groups[g].name}={causes[g]}{self._detail(g, headroom)}" for g in matching]
        return Reason(Code.NO_CAPACITY, f"no matching group can take it now: {listed(names)}", codes)

    def _detail(self, g: int, headroom: Headroom) -> str:
        block = headroom.blocked[g]
        if block is None:
            return ""
        return until(block.until) + (f" ({block.reason})" if block.reason else "")


def until(moment: datetime | None) -> str:
    """` until 2026-01-31 12:05:00Z`, or nothing if the end is not known."""
    return "" if moment is None else f" until {moment:%Y-%m-%d %H:%M:%S}Z"


# --- no group of that kind -----------------------------------------------------------------------------------------


class _Requirement(NamedTuple):
    """One requirement of a shape: the groups that meet it, and the message if none does."""

    holds: Callable[[ScaleGroup], bool]
    text: str
    no_group: Callable[[], str]


def _no_match(shape: Shape, groups: Sequence[ScaleGroup]) -> str:
    """The first requirement that no group meets; if some group meets each one, the requirement that excludes the last group."""
    if not groups:
        return "the configuration has no groups"
    requirements = _requirements(shape, groups)
    for requirement in requirements:
        if not any(map(requirement.holds, groups)):
            return requirement.no_group()
    left = groups
    for requirement in requirements:
        kept = [group for group in left if requirement.holds(group)]
        if not kept:
            return f"{requirement.text} excludes the last candidates: {listed(group.name for group in left)}"
        left = kept
    return "no group matches"


def _requirements(shape: Shape, groups: Sequence[ScaleGroup]) -> list[_Requirement]:
    """The device, its variants, and every hard constraint, in the order in which they are checked."""
    found = [_device(shape, groups)] if shape.accelerated else []
    found += [_variant(shape, groups)] if shape.device.variants else []
    hard = [constraint for constraint in shape.constraints if not constraint.soft]
    if shape.preemptible is not None:
        hard.insert(0, Constraint(attribute="preemptible", op=Operator.EQ, values=(shape.preemptible,)))
    return found + [_satisfied(constraint, groups) for constraint in hard]


def _device(shape: Shape, groups: Sequence[ScaleGroup]) -> _Requirement:
    def no_group() -> str:
        offered = sorted({str(group.device.type) for group in groups})
        return f"no group offers device {shape.device.type}; groups offer {listed(offered)}"

    return _Requirement(lambda group: group.device.type is shape.device.type, f"device {shape.device.type}", no_group)


def _variant(shape: Shape, groups: Sequence[ScaleGroup]) -> _Requirement:
    device, variants = shape.device.type, shape.device.variants
    wanted = " or ".join(variants)

    def no_group() -> str:
        known = sorted({group.device.variant for group in groups if group.device.type is device and group.device.variant})
        return f"no {device} group offers variant {wanted}{_suggestion(variants, known)}"

    return _Requirement(
        lambda group: group.device.type is device and group.device.variant in variants, f"variant {wanted}", no_group
    )


def _satisfied(constraint: Constraint, groups: Sequence[ScaleGroup]) -> _Requirement:
    return _Requirement(
        lambda group: constraint.holds(group.all_attributes),
        str(constraint),
        lambda: f"no group satisfies {constraint}{_hint(constraint, groups)}",
    )


def _hint(constraint: Constraint, groups: Sequence[ScaleGroup]) -> str:
    """Suggest an existing value; or `region`, if the zone asked for is a region. Only for `=` and `in`."""
    if constraint.op not in (Operator.EQ, Operator.IN):
        return ""
    wanted = [as_text(value) for value in constraint.values]
    regions = {group.region: group.zone for group in groups if group.region}
    for value in wanted:
        if constraint.attribute == "zone" and value in regions:
            return f"; {value} is a region: use region = {value}, or a zone such as {regions[value]}"
    known = {
        as_text(group.all_attributes[constraint.attribute]) for group in groups if constraint.attribute in group.all_attributes
    }
    if not known:
        attributes = sorted({name for group in groups for name in group.all_attributes})
        return _suggestion([constraint.attribute], attributes, kind="attributes ")
    return _suggestion(wanted, sorted(known))


def _suggestion(wanted: Sequence[str], known: Sequence[str], *, kind: str = "") -> str:
    close = [match for value in wanted for match in similar(value, known)]
    if close:
        return f"; did you mean {' or '.join(dict.fromkeys(close))}?"
    return f"; {kind}on offer: {listed(known)}" if known else ""


# --- no group of that size ----------------------------------------------------------------------------------------


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
    offered = " or ".join(f"{size}, {2 * size}, …" for size in sizes[:LISTED])
    hosts = " or ".join(str(size // per_host) for size in sizes[:LISTED])
    return f"a gang of {shape.gang.size} does not fill whole slices of {hosts} hosts; sizes on offer: {offered}"
