"""Pressure: the last report on each group that queue lengths drive, and what decisions made of the reports so far."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from penstock.core.state import handshake
from penstock.core.state.events import PressureReported
from penstock.core.state.sources import bounded, drives_again, driving, heard, pressure_stale_at
from penstock.core.state.state import AutoscalerState, Changes, UsageSource
from penstock.model.cluster import ClusterConfig
from penstock.model.elasticity import Drive
from penstock.model.pressure import PressureReport, PressureState

Driven = dict[str, PressureState]


def pressure_reported(state: AutoscalerState, event: PressureReported) -> Changes:
    """The reports replace the last ones on their groups. Idle time counts from the first report without any task."""
    before = state.usage_sources.get(event.source, UsageSource())
    speaker = heard(state, before, event)
    after = {**state.pressure, **{name: _after(state, speaker, event, name, said) for name, said in event.pressure.items()}}
    sources = bounded({**state.usage_sources, event.source: speaker}, driving(after))
    changes: Changes = {"pressure": after, "usage_sources": sources}
    if event.from_old_config:
        changes["used_old_config"] = handshake.remembered(state, handshake.reporting(event.source))
    unconfirmed = _unconfirmed(state)
    news = any(_is_news(state.pressure.get(name), after[name], unconfirmed.get(name)) for name in event.pressure)
    changes["matters"] = news or drives_again(state, event.source, event.at)
    return changes


def _after(
    state: AutoscalerState, speaker: UsageSource, event: PressureReported, name: str, report: PressureReport
) -> PressureState:
    """What is known of a group after a report on it. Idle time goes on if the last one was of the same epoch and source."""
    before = state.pressure.get(name, PressureState(at=event.at))
    numbered = event.epoch is not None and event.revision is not None
    stamp = (event.epoch or 0, event.revision or 0) if numbered else speaker.stamp
    same = before.stale_at is None and before.source == event.source and before.stamp[0] == stamp[0]
    idle_from = (before.idle_from if same else None) or event.at
    return before.model_copy(
        update={
            "report": report,
            "at": event.at,
            "source": event.source,
            "stamp": stamp,
            "stale_at": None,
            "idle_from": idle_from if report.idle else None,
        }
    )


def _is_news(before: PressureState | None, after: PressureState, unconfirmed: datetime | None) -> bool:
    """Whether a report may change a decision. Even an equal one may: a drain that nobody confirmed is not repeated before it."""
    if before is None or before.stale_at is not None:
        return True
    changed = (before.report, before.idle_from) != (after.report, after.idle_from)
    return changed or (unconfirmed is not None and before.at <= unconfirmed < after.at)


def _unconfirmed(state: AutoscalerState) -> dict[str, datetime]:
    """When the last drain of each group ended that nobody confirmed."""
    found: dict[str, datetime] = {}
    for piece in state.slices:
        if piece.unconfirmed_at is not None:
            found[piece.group] = max(piece.unconfirmed_at, found.get(piece.group, piece.unconfirmed_at))
    return found


def pressure_now(state: AutoscalerState) -> Driven:
    """What is known of each group at this moment: from when its report is stale, and since when it has been idle.

    Idle time counts only while its source is heard: not from before a silence.
    """
    found: Driven = {}
    for name, said in sorted(state.pressure.items()):
        source = state.usage_sources.get(said.source, UsageSource())
        idle_from = said.idle_from
        if idle_from is not None and source.began is not None:
            idle_from = max(idle_from, source.began)
        found[name] = said.model_copy(update={"stale_at": pressure_stale_at(state, said), "idle_from": idle_from})
    return found


def decided(state: AutoscalerState, desired: Mapping[str, int], at: datetime) -> Driven:
    """What is known of each group after a decision, and when it acted: changed what a group should have, not only bounded it."""
    after = dict(state.pressure)
    for name, slices in desired.items():
        said, group = state.pressure.get(name), state.config.group(name) if state.config else None
        if said is None or group is None:
            continue
        had = said.desired
        if had is None:
            had = sum(piece.group == name and piece.state.serves and piece.drain is None for piece in state.slices)
        acts = slices != min(group.max_slices, max(group.min_slices, had))
        after[name] = said.model_copy(update={"desired": slices, "acted_at": at if acts else said.acted_at})
    return after


def after_config(driven: Mapping[str, PressureState], config: ClusterConfig) -> Driven:
    """What is known of the groups that are still driven by pressure."""
    groups = {group.name for group in config.groups if group.drive is Drive.PRESSURE}
    return {name: said for name, said in driven.items() if name in groups}


def lost(driven: Mapping[str, PressureState], at: datetime) -> Driven:
    """What is known after state was lost: reports since then are not known, so none counts until a new one comes."""
    return {name: said.model_copy(update={"stale_at": said.stale_at or at}) for name, said in driven.items()}


HANDLERS: dict[type, Callable[[AutoscalerState, Any], Changes]] = {PressureReported: pressure_reported}
