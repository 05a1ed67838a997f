"""Which slice workflows `verify` need not ask: those that show the state that the ledger has, at a known location."""

from activities.verify import agreed_slices
from penstock.core.slices.audit import RunningSlice
from penstock.model.location import Location
from penstock.model.slices import Slice, SliceState
from tests.core.state.ledgers import cluster

READY = SliceState.READY
TOLD = {"s": ("g", "READY")}


def agreed(piece: Slice, told: dict[str, tuple[str, str]]) -> dict[str, RunningSlice]:
    return agreed_slices(cluster({"name": "g"}).model_copy(update={"slices": (piece,)}), told)


def test_a_slice_whose_workflow_shows_the_state_of_the_ledger_is_agreed_on() -> None:
    assert agreed(Slice(id="s", group="g", state=READY), TOLD) == {"s": RunningSlice(READY, "g")}


def test_a_workflow_that_shows_another_state_or_none_is_asked() -> None:
    assert not agreed(Slice(id="s", group="g", state=SliceState.BOOTING), TOLD)
    assert not agreed(Slice(id="s", group="g", state=READY), {"s": ("g", "")})
    assert not agreed(Slice(id="s", group="g", state=READY), {})


def test_a_slice_of_a_group_that_is_gone_is_asked_where_it_is_unless_the_ledger_knows() -> None:
    gone = Slice(id="s", group="gone", state=READY)
    told = {"s": ("gone", "READY")}
    assert not agreed(gone, told)
    assert agreed(gone.changed(location=Location(provider="sim", account="sim", name="z")), told)
