"""Usage by source: the newest word of each source on each slice, and what all of them together say about it."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from penstock.core.state import drains, joining
from penstock.core.state.events import SourceForgotten, UsageReported
from penstock.core.state.protections import of_known
from penstock.core.state.sources import bounded, drives_again, driving, has_lapsed, heard, old_words
from penstock.core.state.state import AutoscalerState, Changes, UsageSource
from penstock.model.resources import Resources, Vector
from penstock.model.slices import HostState, HostUsage, SliceUsage

Sources = dict[str, UsageSource]


def usage_reported(state: AutoscalerState, event: UsageReported) -> Changes:
    """Keep the usage of known slices only: nothing would remove any other. An idle draining slice is confirmed empty.

    During a recovery the ledger is incomplete, so usage of unknown slices is kept until it ends.
    """
    before = state.usage_sources.get(event.source, UsageSource())
    speaker = heard(state, before, event)
    said, unnamed = _news(state, event)
    sources, usage = after_words(state, event)
    sources = bounded(sources, driving(state.pressure))
    changes: Changes = {"usage": usage, "usage_sources": sources, "outbox": state.outbox}
    joining.name_slices(state, changes, event.source, said)
    left_out = joining.find_unclaimed(state, changes, event.source)
    speaker = changes["usage_sources"].get(event.source, speaker)
    named = {*speaker.named, *unnamed} - (old_words(speaker) - said.keys())
    anew = named if speaker.began == event.at else {name for name in before.outdated if name in said}
    idle = drains.after_usage(state, changes, named, event.at, anew=anew)
    resumes = has_lapsed(state, event.source, event.at) or speaker.restarted != before.restarted
    resumes = resumes or drives_again(state, event.source, event.at)
    resumes = resumes or (speaker.began == event.at and state.config is not None and state.config.consolidation is not None)
    changes["matters"] = bool(said or unnamed or resumes or left_out or idle)
    return changes


def after_words(state: AutoscalerState, event: UsageReported) -> tuple[Sources, dict[str, SliceUsage]]:
    """All sources and all usage after a report."""
    said, unnamed = _news(state, event)
    speaker = heard(state, state.usage_sources.get(event.source, UsageSource()), event)
    sources, usage = _withdrawn({**state.usage_sources, event.source: speaker}, state.usage, event.source, unnamed)
    sources, merged = _merged(sources, usage, event.source, said)
    return sources, {**usage, **merged}


def _news(state: AutoscalerState, event: UsageReported) -> tuple[dict[str, SliceUsage], set[str]]:
    """What the report says of slices that are kept, and the slices that it withdraws by leaving them out."""
    known = state.by_id if state.recovery is None else None
    said = {name: hosts for name, hosts in event.usage.items() if known is None or name in known}
    before = state.usage_sources.get(event.source, UsageSource())
    return said, set(before.named) - said.keys() if event.complete else set()


def source_forgotten(state: AutoscalerState, event: SourceForgotten) -> Changes:
    """The source and its demand are gone, and slices that only it has named are as if nobody had."""
    known = state.usage_sources.get(event.source, UsageSource())
    sources, usage = _withdrawn(state.usage_sources, state.usage, event.source, set(known.named))
    return {
        "slices": drains.after_withdrawal(state.slices, usage, event.at),
        "usage": usage,
        "usage_sources": {name: source for name, source in sources.items() if name != event.source},
        "demand": {name: source for name, source in state.demand.items() if name != event.source},
        "pressure": {group: said for group, said in state.pressure.items() if said.source != event.source},
    }


def usage_now(state: AutoscalerState) -> Mapping[str, SliceUsage]:
    """The usage that shows which tasks run: all but the words of older epochs of restarted controllers."""
    outdated = {name: frozenset(source.outdated) for name, source in state.usage_sources.items() if source.outdated}
    if not outdated:
        return state.usage
    found = dict(state.usage)
    for slice_id in sorted(frozenset().union(*outdated.values()) & state.usage.keys()):
        current = [name for name in sorted(state.usage_sources) if slice_id not in outdated.get(name, ())]
        sources = [state.usage_sources[name] for name in current]
        words = [source.words[slice_id] for source in sources if slice_id in source.words]
        found[slice_id] = combined(words) if words else ()
    return found


def of_ledger(state: AutoscalerState, changes: Changes) -> Changes:
    """The usage and the protections of slices that the ledger has, once a recovery is over."""
    known = {piece.id for piece in changes.get("slices", state.slices)}
    usage = changes.get("usage", state.usage)
    unknown = usage.keys() - known
    sources = changes.get("usage_sources", state.usage_sources)
    return {
        "usage": {name: hosts for name, hosts in usage.items() if name in known},
        "usage_sources": {name: source.without(unknown) for name, source in sources.items()},
        "protections": of_known(changes.get("protections", state.protections), known),
    }


def _withdrawn(
    known: Mapping[str, UsageSource], before: Mapping[str, SliceUsage], source: str, slice_ids: AbstractSet[str]
) -> tuple[Sources, dict[str, SliceUsage]]:
    """All sources and all usage after a source has withdrawn its words on some slices."""
    sources = {**known, source: known.get(source, UsageSource()).without(slice_ids)}
    usage = {**before}
    for slice_id in sorted(slice_ids):
        words = [other.words[slice_id] for other in sources.values() if slice_id in other.words]
        if words:
            usage[slice_id] = combined(words)
        else:
            usage.pop(slice_id, None)
    return sources, usage


def _merged(
    sources: Sources, usage: Mapping[str, SliceUsage], source: str, said: Mapping[str, SliceUsage]
) -> tuple[Sources, dict[str, SliceUsage]]:
    """The sources after one of them said something, and the usage of the slices that it named."""
    merged = dict(said)
    words = {name: dict(known.words) for name, known in sources.items()}
    for name, other in sources.items():
        for slice_id in other.named if name != source else ():
            if slice_id in said:
                words[name].setdefault(slice_id, usage[slice_id])
                words[source][slice_id] = said[slice_id]
    for slice_id in words[source].keys() & said.keys():
        words[source][slice_id] = said[slice_id]
        merged[slice_id] = combined([words[name][slice_id] for name in sorted(words) if slice_id in words[name]])
    named = dict.fromkeys((*sources[source].named, *said))
    after = {name: known.model_copy(update={"words": words[name]}) for name, known in sources.items()}
    outdated = tuple(slice_id for slice_id in sources[source].outdated if slice_id not in said)
    after[source] = after[source].model_copy(update={"named": tuple(named), "outdated": outdated})
    return after, merged


def combined(words: Sequence[SliceUsage]) -> SliceUsage:
    """What several sources say about one slice: idle if all say so, and reserved resources add up."""
    if len(words) == 1:
        return words[0]
    hosts = max(map(len, words))
    spread = [word if len(word) == hosts else word[:1] * hosts for word in words]
    return tuple(_combined_host(of_host) for of_host in zip(*spread, strict=True))


def _combined_host(said: Sequence[HostUsage]) -> HostUsage:
    working = [host for host in said if not host.idle]
    degraded = any(host.state is HostState.DEGRADED for host in said)
    state = HostState.DEGRADED if degraded else HostState.BUSY if working else HostState.IDLE
    reserved: Resources | None = None
    if working and all(host.reserved is not None for host in working):
        reserved = Resources.of(_sum([host.reserved.vector for host in working if host.reserved is not None]))
    since = [host.idle_since for host in said if host.idle_since is not None]
    return HostUsage(
        state=state,
        reserved=reserved,
        tasks=tuple(dict.fromkeys(task for host in said for task in host.tasks)),
        gangs=tuple(dict.fromkeys(gang for host in said for gang in host.gangs)),
        idle_since=max(since) if since and not working else None,
        do_not_disrupt=any(host.do_not_disrupt for host in said),
    )


def _sum(vectors: Sequence[Vector]) -> Vector:
    cpu, memory, disk, gpu, tpu = (sum(amounts) for amounts in zip(*vectors, strict=True))
    return (cpu, memory, disk, gpu, tpu)


HANDLERS: dict[type, Callable[[AutoscalerState, Any], Changes]] = {
    UsageReported: usage_reported,
    SourceForgotten: source_forgotten,
}
