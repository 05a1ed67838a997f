"""What the parts of a simulated world need of each other."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from penstock.contract.inventories import LocationReport
from penstock.contract.slices import SliceLifecycle, SliceReport
from penstock.core.state.events import AnyEvent
from penstock.core.state.state import AutoscalerState
from tests.core.elastic.clock import Clock
from tests.core.elastic.cloud import Cloud

if TYPE_CHECKING:
    from tests.core.elastic.inventory import Watch
    from tests.core.elastic.jobs import Size
    from tests.core.elastic.slice_runs import SliceRun


class Surroundings(Protocol):
    """The world, as its parts see it."""

    clock: Clock
    cloud: Cloud
    sizes: "dict[str, Size]"
    """Of the slices of every group that was ever configured."""
    driven: set[str]
    """The groups that pressure drives."""
    runs: "dict[str, SliceRun]"
    """The workflow of every slice, running or ended."""
    watches: "dict[str, Watch]"
    """The watch of every location that was ever in use, by key."""

    @property
    def state(self) -> AutoscalerState:
        """The state of the autoscaler."""

    def delay(self) -> float:
        """How long the next message takes, in seconds."""

    def hear_report(self, report: SliceReport) -> None:
        """The autoscaler receives the report of a slice."""

    def hear_location(self, report: LocationReport) -> None:
        """The autoscaler receives the report of an audit."""

    def send(self, name: str, message: Mapping[str, object]) -> None:
        """A controller sends the autoscaler a signal, which takes its time."""

    def note_event(self, before: AutoscalerState, event: AnyEvent, after: AutoscalerState) -> None:
        """The state of the autoscaler changed."""

    def note_read(self, before: AutoscalerState, after: AutoscalerState) -> None:
        """The autoscaler has read messages."""

    def note_move(self, before: SliceLifecycle, after: SliceLifecycle) -> None:
        """The lifecycle of a slice changed."""
