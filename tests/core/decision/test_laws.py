"""Laws: properties of the decision on any snapshot."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.decision.decide import decide
from penstock.model.cluster import Placement
from penstock.model.decision import Cause, Decision, Span
from penstock.model.demand import Workload
from penstock.model.runs import Run
from penstock.model.shape import Shape
from penstock.model.slices import RecentLaunch, Slice, SliceState
from penstock.model.snapshot import Snapshot
from tests.core.decision.generators import shapes_with_and_without_soft_constraints, snapshots
from tests.core.decision.oracle import Verdict, judge

LONGEST_MESSAGE = 400
EXAMPLES = int(os.environ.get("LAW_EXAMPLES", "15"))
"""Examples of each law: few in `make test`, for which newcomers wait; more in `make check-laws`."""
law = settings(max_examples=EXAMPLES, deadline=None, print_blob=True)


def keys(spans: Iterable[Span]) -> list[tuple[int, int]]:
    return [(span.run, span.first + index) for span in spans for index in range(span.entries)]


def ordered(decision: Decision) -> list[str]:
    """The group of every slice launched, in the order of launching."""
    return [launch.group for launch in decision.launches for _ in range(launch.slices)]


def opened(decision: Decision) -> Counter[str]:
    """Slices of each group that the decision opens, launched or deferred."""
    return Counter(ordered(decision)) + deferred(decision)


def launched_for_demand(decision: Decision) -> int:
    return sum(launch.slices for launch in decision.launches if launch.cause is Cause.DEMAND)


def deferred(decision: Decision) -> Counter[str]:
    counts: Counter[str] = Counter()
    for each in decision.deferred:
        counts[each.group] += each.slices
    return counts


def verdict(decision: Decision) -> Verdict:
    places = {key: (placed.group, placed.tier) for placed in decision.placed for key in keys([placed.span])}
    unmet = {key: each.code for each in decision.unmet for key in keys(each.spans)}
    return Verdict(places, unmet, tuple(ordered(decision)))


def outcomes(decision: Decision) -> tuple[object, ...]:
    """Placement or code of every entry, outcome of every standing request, and target of every group."""
    places, unmet, _ = verdict(decision)
    granted = [(outcome.owner, outcome.met) for outcome in decision.standing]
    return {key: group for key, (group, _) in places.items()}, unmet, granted, [group.target for group in decision.groups]


def orders(decision: Decision) -> Decision:
    """The decision without its moments, which may differ while the orders stay the same."""
    silent = tuple(group.model_copy(update={"why": "", "reason": ""}) for group in decision.groups)
    return decision.model_copy(update={"now": None, "next_change_at": None, "waiting_since": {}, "groups": silent})


def shuffled(snapshot: Snapshot, random: Sequence[int]) -> Snapshot:
    """The same snapshot with its lists rotated."""

    def rotate(items: Sequence[object], by: int) -> tuple[object, ...]:
        cut = by % len(items) if items else 0
        turned = (*items[cut:], *items[:cut])
        return turned[::-1] if by % 2 else turned

    config = snapshot.config
    moved = config.model_copy(update={"groups": rotate(config.groups, random[0]), "pools": rotate(config.pools, random[1])})
    fresh = type(config).model_validate(moved.model_dump(by_alias=True))
    health, usage = rotate([*snapshot.health.items()], random[2]), rotate([*snapshot.usage.items()], random[3])
    standing = rotate(snapshot.standing, random[4])
    parts = {"config": fresh, "health": dict(health), "usage": dict(usage), "standing": standing}  # type: ignore[arg-type]
    return snapshot.model_copy(update=parts)


def carried_out(snapshot: Snapshot, decision: Decision) -> Snapshot:
    """The snapshot after the decision was carried out: launched slices are in flight, in launch order."""
    first = len(snapshot.slices)
    ordered_slices = [launch for launch in decision.launches for _ in range(launch.slices)]
    new = tuple(
        Slice(
            id=f"launched-{first + number}",
            group=launch.group,
            state=SliceState.REQUESTING,
            since=snapshot.now,
            cause=launch.cause,
            replaces=launch.replaces,
            home=launch.home,
        )
        for number, launch in enumerate(ordered_slices)
    )
    launched = tuple(RecentLaunch(launch.group, launch.slices, snapshot.now) for launch in decision.launches)
    return snapshot.model_copy(update={"slices": snapshot.slices + new, "launched": snapshot.launched + launched})


@pytest.mark.parametrize("placement", Placement)
def test_fast_placing_equals_naive_placing(placement: Placement) -> None:
    @law
    @given(snapshots([placement]))
    def check(snapshot: Snapshot) -> None:
        assert verdict(decide(snapshot)) == judge(snapshot)

    check()


@law
@given(snapshots(limited=True))
def test_launch_limits_change_when_slices_launch_and_not_where_entries_are_placed(snapshot: Snapshot) -> None:
    decision, naive = decide(snapshot), judge(snapshot)
    found = verdict(decision)
    assert (found.places, found.unmet, opened(decision)) == (naive.places, naive.unmet, Counter(naive.opened))


@law
@given(snapshots(limited=True))
def test_every_entry_is_placed_or_explained_exactly_once(snapshot: Snapshot) -> None:
    decision = decide(snapshot)
    spans = [placed.span for placed in decision.placed] + [span for unmet in decision.unmet for span in unmet.spans]
    every = [(number, index) for number, run in enumerate(snapshot.workload.runs) for index in range(run.entries)]
    assert sorted(keys(spans)) == every
    for unmet in decision.unmet:
        assert unmet.code
        assert unmet.message
        assert len(unmet.message) <= LONGEST_MESSAGE


@law
@given(snapshots(limited=True))
def test_no_maximum_of_a_group_a_pool_or_the_cluster_is_exceeded(snapshot: Snapshot) -> None:
    config, wanted = snapshot.config, opened(decide(snapshot))
    existing = Counter(each.group for each in snapshot.slices)
    for group in config.groups:
        if wanted[group.name]:
            assert existing[group.name] + wanted[group.name] <= group.max_slices
    if config.max_slices is not None and wanted.total():
        assert len(snapshot.slices) + wanted.total() <= config.max_slices
    for pool in config.pools:
        members = [group for group in config.groups if group.pool == pool.name]
        if any(wanted[group.name] for group in members):
            chips = sum((existing[group.name] + wanted[group.name]) * group.chips_per_slice for group in members)
            gone = [each.left for each in snapshot.slices if each.left is not None and config.group(each.group) is None]
            assert chips + sum(left.chips for left in gone if left.pool == pool.name) + pool.system <= pool.chips


@law
@given(snapshots(limited=True), st.tuples(*[st.integers(0, 5)] * 5))
def test_the_order_of_listing_is_irrelevant(snapshot: Snapshot, random: tuple[int, ...]) -> None:
    assert decide(shuffled(snapshot, random)) == decide(snapshot)


@law
@given(snapshots(), shapes_with_and_without_soft_constraints())
def test_soft_constraints_never_decide_whether_an_entry_is_met(snapshot: Snapshot, pair: tuple[Shape, Shape]) -> None:
    pending = pair[0].gang.size if pair[0].gang else 1
    alone = [Workload(shapes=(shape,), runs=(Run(0, 1, pending),)) for shape in pair]
    with_soft, without = (bool(decide(snapshot.model_copy(update={"workload": each})).placed) for each in alone)
    assert with_soft == without


@law
@given(snapshots(limited=True))
def test_deciding_is_deterministic_and_does_not_change_the_snapshot(snapshot: Snapshot) -> None:
    before = snapshot.model_dump_json()
    copy = Snapshot.model_validate(snapshot.model_dump(by_alias=True))
    assert decide(snapshot) == decide(snapshot) == decide(copy)
    assert snapshot.model_dump_json() == before


shares = st.floats(0, 1, exclude_max=True)


def moment_before(change: datetime | None, now: datetime, share: float) -> datetime:
    """A moment between now and the next change, or within a day if there is no next change."""
    until = change or now + timedelta(days=1)
    return now + timedelta(seconds=int((until - now).total_seconds() * share))


@law
@given(snapshots(limited=True), shares)
def test_time_alone_does_not_change_the_decision_before_next_change_at(snapshot: Snapshot, share: float) -> None:
    decision = decide(snapshot)
    assert decision.next_change_at is None or decision.next_change_at > snapshot.now
    later = moment_before(decision.next_change_at, snapshot.now, share)
    assert orders(decide(snapshot.model_copy(update={"now": later}))) == orders(decision)


@law
@given(snapshots(limited=True), shares)
def test_after_a_decision_was_carried_out_only_deferred_slices_are_launched(snapshot: Snapshot, share: float) -> None:
    """Immediately, and until `next_change_at`, before which no patience with the launched slices ends.

    Demand that was placed on deferred slices is placed anew. If it goes to another group then, the spares of both groups follow
    it, so the bound holds for slices that demand opens and not for spares.
    """
    first = decide(snapshot)
    after = carried_out(snapshot, first)
    for now in (snapshot.now, moment_before(first.next_change_at, snapshot.now, share)):
        second = decide(after.model_copy(update={"now": now}))
        assert launched_for_demand(second) <= deferred(first).total()
        if not first.deferred:
            assert not opened(second)
            assert outcomes(second) == outcomes(first)


@law
@given(snapshots(limited=True))
def test_a_slice_ordered_to_drain_counts_as_draining_immediately(snapshot: Snapshot) -> None:
    def draining(each: Slice) -> Slice:
        return each.model_copy(update={"state": SliceState.DRAINING}) if each.drain and not each.queued else each

    reported = snapshot.model_copy(update={"slices": tuple(map(draining, snapshot.slices))})
    assert decide(snapshot) == decide(reported)
