"""Notices of the cloud that are moved while their slices drain."""

from datetime import timedelta

from penstock.core.decision.decide import decide
from penstock.model.failures import Notice, NoticeKind
from penstock.model.slices import DrainCause, DrainTerms, SliceState
from tests.core.decision.test_give_back import snapshot_of
from tests.scenarios.builder import scenario
from tests.scenarios.cases import NOW

SOON, LATER = NOW + timedelta(minutes=5), NOW + timedelta(hours=1)


def test_a_slice_that_drains_for_a_notice_follows_it_to_its_new_moment_and_is_not_drained_again_otherwise() -> None:
    given = snapshot_of(scenario("a moved notice").group("g").slice("s", "g", SliceState.DRAINING, usage="busy"))
    piece = given.slices[0].changed(drain=DrainTerms(cause=DrainCause.NOTICE, number=1, deadline=SOON))
    for until, deadlines in ((LATER, [LATER]), (SOON, [])):
        noticed = piece.changed(notice=Notice(kind=NoticeKind.MAINTENANCE, until=until))
        drains = decide(given.model_copy(update={"slices": (noticed,)})).drains
        assert [drain.deadline for drain in drains] == deadlines
