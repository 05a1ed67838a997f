"""Why a shape is unmet: a code, a short sentence, and the code of every group considered."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from penstock.core.decision.cursors import ShapeCursor
from penstock.core.decision.fleet import Fleet
from penstock.core.decision.headroom import UNLIMITED, GroupBlock, Headroom
from penstock.core.decision.holders import pool_holders
from penstock.core.decision.match import Candidates, per_host_need, requirement_exclusion, size_exclusion
from penstock.model.cluster import ScaleGroup
from penstock.model.constraints import Constraint, Operator, as_text
from penstock.model.decision import Code, Unmet
from penstock.model.elasticity import Drive
from penstock.model.resources import DIMENSIONS, GPU, format_amount
from penstock.model.shape import GangPlacement, Shape
from penstock.model.slices import Slice
from penstock.model.snapshot import Snapshot
from penstock.wording import LISTED, listed, similar

EXPLAINING_STEPS = 12_000_000
"""Steps that the reasons of one decision may take: some thousand shapes that all differ."""
GROUP_STEPS = 10
"""Steps of saying why one group cannot take a shape."""
NO_DETAILS = "{}; so many shapes differ that not every one is explained in full here: ask penstock explain"
"""A brief explanation."""
DRIVEN_BY_PRESSURE = "only {} could take it, and no entry is placed there: pressure reports drive {}"
"""Why a shape that no other group matches is unmet."""
_TOO_SMALL = {
    Code.GANG_SIZE_MISMATCH: "the gang does not fill whole slices",
    Code.INSUFFICIENT_RESOURCES: "too big for a host of every matching group",
    Code.NO_CAPACITY: "no matching group can take it",
}


_WITHOUT_CAPACITY = (Code.NO_MATCHING_GROUP, Code.GANG_SIZE_MISMATCH, Code.INSUFFICIENT_RESOURCES)
"""Codes that follow from the shape and the configuration alone."""


class Reason(NamedTuple):
    """The explanation given to the owner of an unmet task."""

    code: Code
    message: str
    groups: dict[str, Code]


class Reasons:
    """Explains unmet shapes. Shapes with the same candidates and the same headroom share one explanation.

    Explanations have an effort of their own. Once it is spent they are brief: the code is true, and `explain` says more.
    """

    def __init__(self, fleet: Fleet, *, most: int | None = None) -> None:
        """`most` is how many steps the explanations may take together."""
        self._fleet = fleet
        self._groups = fleet.groups
        self._left = EXPLAINING_STEPS if most is None else most
        self._without_headroom: dict[object, Reason] = {}
        self._excluded: dict[object, dict[str, Code]] = {}
        self._by_entries = [group for group in self._groups if group.drive is Drive.ENTRIES]
        self._too_small: dict[object, dict[str, Code]] = {}
        self._holders: dict[object, str] = {}

    def why(self, shape: Shape, headroom: Headroom, idle: Sequence[Slice] = (), *, pending: int = 1) -> Reason:
        """Why no group can take the shape, given the headroom after placing and the idle slices that nothing needs.

        `pending` are the tasks of one gang that wait: of the smallest, if gangs of the shape differ in that.
        """
        matcher = self._fleet.matcher
        matching = matcher.matching(shape)
        if not matching.bits:
            return Reason(Code.NO_MATCHING_GROUP, self._no_match(shape), self._exclusions(shape))
        if not matcher.candidates(shape).bits:
            return self._no_size(shape, matching)
        lacking = self._lacking(shape, matcher.candidates(shape), headroom, pending)
        key = (matching.bits, matcher.sizes(shape), headroom, lacking)
        if key not in self._without_headroom:
            brief = not self._spends(len(matching.order) * GROUP_STEPS)
            self._without_headroom[key] = (
                self._first_without_headroom(shape, matching.order[0], headroom)
                if brief
                else self._no_headroom(shape, matching.order, headroom, idle, lacking)
            )
        return self._without_headroom[key]

    def _spends(self, steps: int) -> bool:
        """Take steps of the effort; whether there are as many."""
        self._fleet.effort.look()
        if self._left < steps:
            return False
        self._left -= steps
        return True

    def _no_match(self, shape: Shape) -> str:
        compared = (1 + len(shape.constraints)) * len(self._groups) + sum(len(c.values) for c in shape.constraints)
        return _no_match(shape, self._groups) if self._spends(compared * GROUP_STEPS) else NO_DETAILS.format("no group matches")

    def _exclusions(self, shape: Shape) -> dict[str, Code]:
        """What excludes each group of a shape that no group matches.

        Beyond device and variant, only constraints exclude groups that are driven by entries. Of others, those that match are
        told as long as the effort lasts.
        """
        key: object = (shape.device.type, shape.device.variants)
        groups: Sequence[ScaleGroup] = self._by_entries
        if len(groups) < len(self._groups) and (self._spends(len(self._groups) * GROUP_STEPS) or not groups):
            key, groups = shape.requirement, self._groups
        if key not in self._excluded:
            self._excluded[key] = {group.name: requirement_exclusion(shape, group) or Code.NO_MATCHING_GROUP for group in groups}
        return self._excluded[key]

    def _no_size(self, shape: Shape, matching: Candidates) -> Reason:
        groups = [self._groups[g] for g in matching.order]
        key = (matching.bits, self._fleet.matcher.sizes(shape))
        if not self._spends(len(groups) * GROUP_STEPS):
            code = size_exclusion(shape, groups[0]) or Code.NO_CAPACITY
            return Reason(code, NO_DETAILS.format(_TOO_SMALL[code]), {groups[0].name: code})
        if key not in self._too_small:
            self._too_small[key] = {group.name: size_exclusion(shape, group) or Code.NO_CAPACITY for group in groups}
        codes = self._too_small[key]
        mismatched = [group for group in groups if codes[group.name] is Code.GANG_SIZE_MISMATCH]
        if mismatched:
            return Reason(Code.GANG_SIZE_MISMATCH, _gang_sizes(shape, mismatched), codes)
        return Reason(Code.INSUFFICIENT_RESOURCES, _shortage(shape, groups), codes)

    def _first_without_headroom(self, shape: Shape, g: int, headroom: Headroom) -> Reason:
        code = size_exclusion(shape, self._groups[g]) or headroom.cause(g)
        return Reason(Code.NO_CAPACITY, NO_DETAILS.format("no matching group can take it now"), {self._groups[g].name: code})

    def _pool_holders(self, group: ScaleGroup, headroom: Headroom, idle: Sequence[Slice]) -> str:
        key = (group.pool, headroom)
        if key not in self._holders:
            self._holders[key] = pool_holders(self._fleet, group, headroom, idle)
        return self._holders[key]

    def _lacking(self, shape: Shape, candidates: Candidates, headroom: Headroom, pending: int) -> str:
        """What a gang that combines groups lacks for ever; empty if all slices of its candidates could hold it."""
        gang = shape.gang
        if gang is None or gang.placement is GangPlacement.WHOLE_SLICES or not self._spends(len(candidates.order)):
            return ""
        cursor, held = ShapeCursor(shape, candidates), 0
        for g in candidates.order:
            group = self._groups[g]
            held += headroom.most(g) * group.hosts_per_slice * cursor.tasks_in_new(group, pending)
            if held >= pending:
                return ""
        return f"; all their slices together can hold {held} of the gang's {pending} tasks"

    def _no_headroom(
        self, shape: Shape, matching: Sequence[int], headroom: Headroom, idle: Sequence[Slice], lacking: str
    ) -> Reason:
        """What excludes a group for ever comes before a block that ends: the end of that block would change nothing."""
        needed = {g: UNLIMITED if lacking else _slices_of_gang(shape, self._groups[g]) for g in matching}
        forever = {g: size_exclusion(shape, self._groups[g]) or headroom.never(g, needed[g]) for g in matching}
        causes = {g: forever[g] or headroom.cause(g) for g in matching}
        codes = {self._groups[g].name: code for g, code in causes.items()}
        waiting = [g for g in matching if forever[g] is None]
        if waiting and all(causes[g] is Code.TIER_BLOCKED for g in waiting):
            blocks = {g: headroom.blocked[g] for g in waiting}
            names = [f"{self._groups[g].name} ({block.reason}{until(block.until)})" for g, block in blocks.items() if block]
            return Reason(Code.TIER_BLOCKED, f"every matching group is in a blocked tier: {listed(names)}", codes)
        details = {
            g: "" if lacking else _gang_too_large(needed[g]) if forever[g] else _detail(headroom.blocked[g]) for g in matching
        }
        names = [f"{self._groups[g].name}={causes[g]}{details[g]}" for g in matching]
        exhausted = [self._groups[g] for g in matching if causes[g] is Code.POOL_EXHAUSTED]
        holders = f"; {self._pool_holders(exhausted[0], headroom, idle)}" if exhausted else ""
        return Reason(Code.NO_CAPACITY, f"no matching group can take it now: {listed(names)}{lacking}{holders}", codes)


def explained_in_full(snapshot: Snapshot, unmet: Unmet) -> Unmet:
    """The unmet shape with all that keeps groups from taking it, if the decision was brief and capacity does not matter."""
    if unmet.code not in _WITHOUT_CAPACITY:
        return unmet
    fleet = Fleet(snapshot)
    headroom = Headroom(snapshot, fleet.groups, [counts.total for counts in fleet.counts])
    code, message, groups = Reasons(fleet, most=UNLIMITED).why(snapshot.workload.shapes[unmet.shape], headroom)
    return unmet.model_copy(update={"code": code, "message": message, "groups": groups})


def _slices_of_gang(shape: Shape, group: ScaleGroup) -> int:
    """Slices of the group that one entry needs at the same time, at the least."""
    gang = shape.gang
    whole = gang is not None and gang.placement is GangPlacement.WHOLE_SLICES
    return max(1, gang.hosts // group.hosts_per_slice) if gang is not None and whole else 1


def _gang_too_large(slices: int) -> str:
    return f" (the gang needs {slices} slices)" if slices > 1 else ""


def _detail(block: GroupBlock | None) -> str:
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
    driven = [group.name for group in groups if requirement_exclusion(shape, group) is Code.DRIVEN_BY_PRESSURE]
    if driven:
        return DRIVEN_BY_PRESSURE.format(listed(driven), "that group" if len(driven) == 1 else "those groups")
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
        asked = shape.resources.vector[d] * (need[d] // shape.need[d])
        own = " (a share above one half takes a GPU of its own)" if d == GPU and asked and asked != need[d] else ""
        amounts = (format_amount(d, asked or need[d]), format_amount(d, have), format_amount(d, need[d] - have))
        lacks.append(f"needs {DIMENSIONS[d]} {amounts[0]}{own}, one host has {amounts[1]}: {amounts[2]} short")
    others = f" (closest of {len(groups)} matching groups)" if len(groups) > 1 else ""
    return f"too big for a host of {closest.name}{others}: {'; '.join(lacks)}"


def _gang_sizes(shape: Shape, groups: Sequence[ScaleGroup]) -> str:
    assert shape.gang is not None
    per_host = shape.gang.tasks_per_host or 1
    sizes = sorted({group.hosts_per_slice * per_host for group in groups})
    offered = " or ".join(f"{size}, {2 * size}, …" for size in sizes[:LISTED])
    hosts = " or ".join(str(size // per_host) for size in sizes[:LISTED])
    return f"a gang of {shape.gang.size} does not fill whole slices of {hosts} hosts; sizes on offer: {offered}"
