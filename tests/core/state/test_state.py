"""What a state derives from its ledger is never out of date."""

from penstock.core.state.apply import apply
from penstock.core.state.events import SlicesStarted
from penstock.model.slices import Slice, SliceChanges, SliceState
from tests.core.state.ledgers import NOW, cluster, launched, reported


def test_a_slice_is_found_by_its_id_in_every_new_ledger() -> None:
    state = apply(cluster(), launched("a"))
    assert (list(state.by_id), [piece.id for piece in state.unstarted]) == (["a"], ["a"])

    more = apply(state, launched("b"))
    assert list(more.by_id) == ["a", "b"]

    started = apply(more, SlicesStarted(at=NOW, slice_ids=("a",)))
    assert [piece.id for piece in started.unstarted] == ["b"]

    ready = apply(started, reported("a", SliceState.READY, 3))
    assert ready.by_id["a"].state is SliceState.READY


def test_changes_of_a_slice_name_every_field_of_a_slice_that_can_change() -> None:
    assert SliceChanges.__annotations__.keys() == Slice.model_fields.keys() - {"id", "group"}


def test_a_change_that_leaves_the_ledger_alone_keeps_what_was_derived_from_it() -> None:
    state = apply(cluster(), launched("a"))
    known = state.by_id
    assert state.model_copy(update={"paused": "repair"}).by_id is known
