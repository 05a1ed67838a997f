"""What the status says of groups that reports of pressure drive."""

from datetime import datetime

from penstock.contract.answers import DrivenStatus
from penstock.core.state.pressure import pressure_now
from penstock.core.state.state import AutoscalerState
from penstock.model.elasticity import Drive


def driven_groups(state: AutoscalerState, now: datetime) -> dict[str, DrivenStatus]:
    """The last report on each group that pressure drives. A controller that knows only queues need not name slices in usage."""
    driven = pressure_now(state)
    found: dict[str, DrivenStatus] = {}
    for group in state.config.groups if state.config else ():
        if group.drive is not Drive.PRESSURE:
            continue
        said = driven.get(group.name)
        if said is None:
            found[group.name] = DrivenStatus()
            continue
        found[group.name] = DrivenStatus(
            desired=said.desired,
            report=said.report,
            at=said.at,
            source=said.source,
            stale_since=None if said.is_fresh(now) else said.stale_at,
            acted_at=said.acted_at,
        )
    return found
