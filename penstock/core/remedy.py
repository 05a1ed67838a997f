"""Remedies: one single change to the configuration that would meet unmet demand, checked by deciding again."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from penstock.core.decide import decide
from penstock.core.fleet import Fleet
from penstock.model.cluster import ClusterConfig, Pool, ScaleGroup
from penstock.model.decision import Code, Decision, Unmet
from penstock.model.demand import Workload
from penstock.model.snapshot import Snapshot
from penstock.model.value import Value

TRIED_GROUPS = 3
"""Candidate groups whose maximum is tried: those preferred most; each costs two decisions."""
LARGEST = 10
"""Unmet shapes for which remedies are looked for when nobody asks for one in particular."""
PLENTY = 1_000_000
"""A limit that no demand reaches, to see how much the demand takes."""


class Setting(NamedTuple):
    """One number of the configuration: of the cluster (whose name is not given), a group or a pool."""

    kind: Literal["cluster", "group", "pool"]
    name: str
    field: str

    def __str__(self) -> str:
        return self.field if self.kind == "cluster" else f"{self.kind}s.{self.name}.{self.field}"


class Remedy(Value):
    """Set one number of the configuration to another."""

    setting: Setting
    before: int
    after: int

    @property
    def message(self) -> str:
        """What to do, for a person."""
        kind, name, field = self.setting
        whose = {"cluster": "of the cluster", "group": f"of {name}", "pool": f"of pool {name}"}[kind]
        return f"raise {field} {whose} from {self.before} to {self.after}"


def remedies_for(snapshot: Snapshot, decision: Decision) -> dict[int, Remedy]:
    """Remedies for the largest unmet shapes, by position in `decision.unmet`."""
    sizes = sorted(range(len(decision.unmet)), key=lambda i: (-decision.unmet[i].entries, i))
    found = {i: remedy_for(snapshot, decision.unmet[i]) for i in sizes[:LARGEST]}
    return {i: remedy for i, remedy in found.items() if remedy is not None}


def remedy_for(snapshot: Snapshot, unmet: Unmet) -> Remedy | None:
    """The first single change, in order of preference of the groups it helps, with which none of these stays unmet."""
    if unmet.code is not Code.NO_CAPACITY:
        return None
    for setting, before in _settings(snapshot, unmet):
        remedy = _sized(snapshot, unmet, setting, before)
        if remedy is not None:
            return remedy
    return None


def with_remedy(config: ClusterConfig, remedy: Remedy) -> ClusterConfig:
    """The configuration with the remedy applied."""
    return _with_setting(config, remedy.setting, remedy.after)


def _settings(snapshot: Snapshot, unmet: Unmet) -> Iterator[tuple[Setting, int]]:
    """Settings that hold the candidates back, with their values."""
    config = snapshot.config
    fleet = Fleet(snapshot)
    order = [fleet.groups[g] for g in fleet.matcher.candidates(snapshot.workload.shapes[unmet.shape]).order]
    for group in [group for group in order if unmet.groups.get(group.name) is Code.AT_MAX][:TRIED_GROUPS]:
        yield Setting("group", group.name, "max_slices"), group.max_slices
    if config.max_slices is not None and Code.CLUSTER_AT_MAX in unmet.groups.values():
        yield Setting("cluster", "", "max_slices"), config.max_slices
    exhausted = [group.pool for group in order if unmet.groups.get(group.name) is Code.POOL_EXHAUSTED]
    for pool in config.pools:
        if pool.name in exhausted:
            yield Setting("pool", pool.name, "chips"), pool.chips


def _sized(snapshot: Snapshot, unmet: Unmet, setting: Setting, before: int) -> Remedy | None:
    """The setting raised to what the demand takes: first as if nothing came after it, then with all of it."""
    last = unmet.spans[-1].run + 1
    upto = Workload.model_construct(shapes=snapshot.workload.shapes, runs=snapshot.workload.runs[:last])
    for workload in (upto, snapshot.workload):
        plenty = _with_setting(snapshot.config, setting, before + PLENTY)
        taken = decide(snapshot.model_copy(update={"config": plenty, "workload": workload}))
        if _still_unmet(taken, unmet):
            continue
        remedy = Remedy(setting=setting, before=before, after=_amount(snapshot, taken, setting))
        mended = snapshot.model_copy(update={"config": with_remedy(snapshot.config, remedy)})
        if remedy.after > before and not _still_unmet(decide(mended), unmet):
            return remedy
    return None


def _still_unmet(decision: Decision, unmet: Unmet) -> bool:
    """Whether any entry of the shape found no place."""
    return any(item.shape == unmet.shape and item.groups for item in decision.unmet)


def _amount(snapshot: Snapshot, decision: Decision, setting: Setting) -> int:
    """How much of a setting a decision takes up."""
    planned = {group.name: group.launch + group.deferred for group in decision.groups}
    if setting.kind == "cluster":
        return len(snapshot.slices) + sum(planned.values())
    if setting.kind == "pool":
        return next(pool.system + pool.charged + pool.launching for pool in decision.pools if pool.name == setting.name)
    return sum(piece.group == setting.name for piece in snapshot.slices) + planned[setting.name]


def _with_setting(config: ClusterConfig, setting: Setting, value: int) -> ClusterConfig:
    kind, name, field = setting
    if kind == "cluster":
        return config.model_copy(update={field: value})
    parts: Sequence[ScaleGroup | Pool] = config.groups if kind == "group" else config.pools
    changed = tuple(part.model_copy(update={field: value}) if part.name == name else part for part in parts)
    return config.model_copy(update={f"{kind}s": changed})
