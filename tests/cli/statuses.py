"""A status with every part that a view can show, and terminals to render it on."""

from datetime import UTC, datetime, timedelta

from rich.console import Console, RenderableType

from penstock.contract.answers import (
    ClusterStatus,
    GroupStatus,
    RecentFailure,
    RecoveryStatus,
    Rejection,
    SourceStatus,
)
from penstock.contract.capacity import StandingStatus
from penstock.contract.slice_answers import DrainStatus
from penstock.model.decision import Code, Tier
from penstock.model.failures import Failure, FailureKind
from penstock.model.slices import Availability, SliceState

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def shown(view: RenderableType, width: int = 100) -> str:
    """The view without colours; no line may be wider than the terminal."""
    console = Console(width=width, highlight=False, emoji=False, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(view)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    return text


def words(view: RenderableType, width: int = 200) -> str:
    """The view in one line, to search for sentences however they are folded."""
    return " ".join(shown(view, width).split())


EVERYTHING = ClusterStatus(
    cluster="demo",
    version=1234,
    held="The cluster is paused (maintenance of the network): nothing is launched or drained until it is resumed.",
    outdated=True,
    behind="decided at 11:59:30Z; what was reported since waits for the next evaluation",
    now=NOW,
    config_revision=3,
    slices=9,
    groups=(
        GroupStatus(
            name="v5e-16-west",
            slices={SliceState.READY: 5, SliceState.BOOTING: 1, SliceState.DRAINING: 1},
            max_slices=12,
        ),
        GroupStatus(
            name="v5e-16-east-spot",
            slices={SliceState.REQUESTING: 1},
            queued=1,
            max_slices=4,
            availability=Availability.BACKOFF,
            until=later(420),
            reason="stockout: zone us-east1-c has no more capacity for machines",
        ),
        GroupStatus(name="l4-west", max_slices=6),
        GroupStatus(name="old", slices={SliceState.READY: 1}, configured=False),
    ),
    demand={
        "default": SourceStatus(epoch=0, revision=12, tasks=10_000),
        "ray": SourceStatus(epoch=2, revision=7, tasks=40, resync_needed="revision 9 builds on 8, but 7 is the latest here"),
    },
    resync_needed={"ray": "revision 9 builds on 8, but 7 is the latest here"},
    evaluations=1432,
    evaluated_at=ago(4),
    next_change_at=later(90),
    placed={Tier.READY: 5, Tier.IN_FLIGHT: 1, Tier.NEW: 2},
    unmet={Code.NO_CAPACITY: 3, Code.NO_MATCHING_GROUP: 1},
    deferred=2,
    drains=(DrainStatus(slice_id="v5e-16-west-261116-115500-1a2b3c4d", cause="operator", force=True, deadline=later(300)),),
    standing=(StandingStatus(owner="notebooks", met=True),),
    paused="maintenance of the network",
    recovery=RecoveryStatus(reason="the ledger is empty", since=ago(30), waiting_for=("sim/us-west4-a", "sim/us-east1-c")),
    recent_failures=(
        RecentFailure(
            at=ago(60),
            group="v5e-16-east-spot",
            slice_id="v5e-16-east-spot-261116-115900-00ff00ff",
            failure=Failure(kind=FailureKind.STOCKOUT, message="zone us-east1-c has no more capacity for machines"),
        ),
    ),
    rejected=(Rejection(at=ago(3600), message="demand", problem="tasks[0].cpus: unknown key"),),
    rejected_in_all=17,
)
