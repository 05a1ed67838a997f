"""Locations that cannot be watched or listed, and what that blocks: their groups, and what these share with others."""

from collections.abc import Iterable, Mapping

from penstock.contract.answers import LocationProblem, ProblemKind
from penstock.core.state.events import LocationReported, LocationsUnwatched
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig, ScaleGroup
from penstock.model.slices import Availability, Health
from penstock.wording import listed, shortened

LONGEST_MESSAGE = 160
"""Characters kept of a problem's message: every location of a large cluster may have one at once."""


def after_report(state: AutoscalerState, event: LocationReported) -> dict[str, LocationProblem]:
    """The problems after a report of a location: a listing ends its problem, a failure keeps the time at which it began."""
    key, report = event.report.location.key, event.report
    others = {other: problem for other, problem in state.location_problems.items() if other != key}
    problem = report.problem
    if problem is None and report.failure is not None:
        problem = LocationProblem(kind=ProblemKind.REFUSED, since=event.at, message=report.failure.message)
    if problem is None or state.config is None or not state.config.groups_at(key):
        return others
    known = state.location_problems.get(key)
    began = min(known.since, problem.since) if known is not None else problem.since
    return others | {key: _short(problem.model_copy(update={"since": began}))}


def after_start(state: AutoscalerState, event: LocationsUnwatched) -> dict[str, LocationProblem]:
    """The problems after all inventories were started, except those that could not be."""
    kept = {key: known for key, known in state.location_problems.items() if known.kind is not ProblemKind.NOT_WATCHED}
    for key, message in event.failed.items():
        known = state.location_problems.get(key)
        began = known.since if known is not None else event.at
        kept[key] = _short(LocationProblem(kind=ProblemKind.NOT_WATCHED, since=began, message=message))
    return kept


def after_config(problems: Mapping[str, LocationProblem], config: ClusterConfig) -> dict[str, LocationProblem]:
    """The problems of locations that are still configured."""
    return {key: problem for key, problem in problems.items() if config.groups_at(key)}


def _short(problem: LocationProblem) -> LocationProblem:
    return problem.model_copy(update={"message": shortened(problem.message, LONGEST_MESSAGE)})


def unlisted_groups(state: AutoscalerState, config: ClusterConfig) -> tuple[ScaleGroup, ...]:
    """Groups whose slices are not all known, although the rest of the cluster goes on after a recovery."""
    recovery = state.recovery
    if recovery is None or not recovery.goes_on:
        return ()
    silent = set(recovery.silent.values())
    awaited = set(recovery.waiting)
    return tuple(group for group in config.groups if group.location_key in awaited or group.name in silent)


def unseen_slices(state: AutoscalerState, config: ClusterConfig) -> int:
    """The most slices that unlisted groups may have beside those in the ledger."""
    groups = unlisted_groups(state, config)
    names = {group.name for group in groups}
    known = sum(piece.group in names for piece in state.slices)
    return max(0, sum(group.max_slices for group in groups) - known)


def health_of_unlisted(state: AutoscalerState, config: ClusterConfig) -> dict[str, Health]:
    """Groups that buy nothing because their location cannot be seen, or because they share a pool with one that cannot."""
    found = {group.name: Health(availability=Availability.BACKOFF, reason=reason) for group, reason in _blocked(state, config)}
    unlisted = unlisted_groups(state, config)
    sharing: dict[str, list[str]] = {}
    for group in unlisted:
        if group.pool is not None:
            sharing.setdefault(group.pool, []).append(group.name)
    for group in config.groups if sharing else ():
        if group.pool in sharing and group.name not in found:
            reason = f"shares pool {group.pool} with {listed(sharing[group.pool])}, whose slices are not all known yet"
            found[group.name] = Health(availability=Availability.BACKOFF, reason=reason)
    return found


def _blocked(state: AutoscalerState, config: ClusterConfig) -> Iterable[tuple[ScaleGroup, str]]:
    for key, problem in state.location_problems.items():
        if problem.kind is not ProblemKind.REFUSED:  # A refusal blocks by what it names: see `blocks`.
            for group in config.groups_at(key):
                yield group, f"{key} {problem}"
    for group in unlisted_groups(state, config):
        if group.location_key not in state.location_problems:
            yield group, f"{group.location_key} has not been listed since the recovery began; its slices are not all known"
