"""Parse slices.yaml: the slices, usage and health that `penstock plan` starts from."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, ValidationError

from penstock.config.documents import Document, read_document
from penstock.config.problems import BadInput, Problem, problems_of
from penstock.model.cluster import MOST_SLICES, ClusterConfig, Where
from penstock.model.elasticity import Drive
from penstock.model.pressure import PressureReport, PressureState
from penstock.model.slices import Health, HostUsage, RecentLaunch, Slice, SliceUsage, StandingRequest
from penstock.model.units import Count, Moment, Positive
from penstock.model.value import Value
from penstock.wording import similar


def _one_usage_will_do(value: Any) -> Any:
    return [value] if isinstance(value, str | dict) else value


UsageItem = Annotated[
    SliceUsage, Field(min_length=1), BeforeValidator(_one_usage_will_do, json_schema_input_type=HostUsage | list[HostUsage])
]
"""Usage per host, or one usage for the slice."""


class SliceItem(Slice):
    """A slice with its usage: per host, or one for all hosts; absent if unknown. `count` repeats it."""

    usage: UsageItem | None = None
    count: Positive = 1

    def slices(self) -> list[Slice]:
        """The slices that this item describes."""
        fields = {name: getattr(self, name) for name in Slice.model_fields}
        names = [self.id] if self.count == 1 else [f"{self.id}/{i}" for i in range(self.count)]
        return [Slice.model_construct(**fields | {"id": name}) for name in names]


class PressureItem(PressureReport):
    """The last report on a group that pressure drives, and what followed from the reports so far."""

    at: Moment | None = None
    """When the report was received; if it is absent, now."""
    desired: Count | None = None
    """Slices that the group should have by the reports before; if it is absent, those that it has."""
    acted_at: Moment | None = None
    """When reports last changed `desired`."""
    idle_from: Moment | None = None
    """Since when nothing runs and nothing waits; if it is absent, since the report."""

    def state(self, now: datetime) -> PressureState:
        """The state of the group at a time."""
        at = self.at or now
        report = PressureReport.model_construct(**{name: getattr(self, name) for name in PressureReport.model_fields})
        idle_from = (self.idle_from or at) if report.idle else None
        return PressureState(report=report, at=at, desired=self.desired, acted_at=self.acted_at, idle_from=idle_from)


class SlicesFile(Value):
    """Slices, usage, health, standing requests and pressure at one time. Slices are listed as they were ordered."""

    now: Moment | None = None
    slices: tuple[SliceItem, ...] = ()
    health: dict[str, Health] = Field(default_factory=dict)
    standing: tuple[StandingRequest, ...] = ()
    launched: tuple[RecentLaunch, ...] = ()
    pressure: dict[str, PressureItem] = Field(default_factory=dict)
    """By group."""

    def all_slices(self) -> tuple[Slice, ...]:
        """Every slice, repeated ones one by one."""
        return tuple(piece for item in self.slices for piece in item.slices())

    def usage(self) -> dict[str, SliceUsage]:
        """Usage by slice id, where it is known."""
        return {piece.id: item.usage for item in self.slices if item.usage is not None for piece in item.slices()}


class LoadedSlices(NamedTuple):
    """A parsed slices file with its lines, for checks against a configuration."""

    content: SlicesFile
    document: Document

    def check(self, config: ClusterConfig) -> tuple[Problem, ...]:
        """Raise `BadInput` for usage or pressure that does not fit its group; returns warnings."""
        groups = {group.name: group for group in config.groups}
        problems = []
        for i, item in enumerate(self.content.slices):
            group = groups.get(item.group)
            if group is None or item.usage is None:
                continue
            given = len(item.usage)
            if given != group.hosts_per_slice and (given != 1 or item.usage[0].reserved is not None):
                message = f"{given} given, but a slice of {group.name} has {group.hosts_per_slice} hosts; give one for each"
                problems.append(self.document.problem(("slices", i, "usage"), message))
        for name in self.content.pressure:
            driven = groups.get(name)
            if driven is not None and driven.drive is not Drive.PRESSURE:
                message = f"{name} is driven by entries; remove it here, or set drive: pressure and slots_per_slice for the group"
                problems.append(self.document.problem(("pressure", name), message))
        if problems:
            raise BadInput(problems)
        return tuple(self._warnings(groups))

    def _warnings(self, groups: Mapping[str, object]) -> Iterator[Problem]:
        named: list[tuple[Where, str]] = [(("slices", i, "group"), item.group) for i, item in enumerate(self.content.slices)]
        named += [(("health", name), name) for name in self.content.health]
        named += [(("pressure", name), name) for name in self.content.pressure]
        for where, name in named:
            if name not in groups:
                close = similar(name, groups)
                hint = f"; did you mean {close[0]}?" if close else ""
                yield self.document.problem(where, f"there is no group {name!r}{hint}")


def load_slices(path: Path) -> LoadedSlices:
    """Parse a slices file; raises `BadInput` with every problem."""
    document = read_document(path)
    try:
        loaded = LoadedSlices(SlicesFile.model_validate(document.data), document)
    except ValidationError as error:
        raise BadInput(problems_of(error, SlicesFile, document.file, document.lines)) from None
    counts = [item.count for item in loaded.content.slices]
    if sum(counts) > MOST_SLICES:
        message = f"{sum(counts)} slices are more than the {MOST_SLICES} that one file may hold; check count"
        raise BadInput([document.problem(("slices", counts.index(max(counts)), "count"), message)])
    problems = _repetitions(loaded)
    if problems:
        raise BadInput(problems)
    return loaded


def _repetitions(loaded: LoadedSlices) -> list[Problem]:
    content, document = loaded
    names = Counter(piece.id for piece in content.all_slices())
    found = [document.problem(("slices",), f"slice id {n!r} appears twice; ids are unique") for n, k in names.items() if k > 1]
    owners: set[str] = set()
    for i, request in enumerate(content.standing):
        if request.owner in owners:
            found.append(document.problem(("standing", i, "owner"), f"{request.owner!r} has a request already; merge them"))
        owners.add(request.owner)
    return found
