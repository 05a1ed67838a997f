"""Parse cluster.yaml: the configuration of a cluster."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from penstock.config.documents import Document, read_document
from penstock.config.problems import BadInput, Problem, problems_of
from penstock.model.cluster import ClusterConfig, Placement, Pool, ScaleGroup, disagreements, needs_prices, repeated_names
from penstock.model.provider_kinds import KINDS, kind_of
from penstock.model.units import parse_count, parse_seconds
from penstock.wording import did_you_mean

T = TypeVar("T", bound=BaseModel)
N = TypeVar("N", int, float)


class LoadedCluster(NamedTuple):
    """A configuration, and warnings about values that are valid but look wrong."""

    config: ClusterConfig
    warnings: tuple[Problem, ...]


def load_cluster(path: Path, *, placement: Placement | None = None) -> LoadedCluster:
    """Parse a configuration; `placement` overrides the file's. Raises `BadInput` with every problem."""
    document = read_document(path)
    data = document.data
    if not isinstance(data, dict):
        raise BadInput([Problem(document.file, 1, "", "must be a mapping that begins with cluster: NAME")])
    if placement is not None:
        data = data | {"placement": placement}
    config: ClusterConfig | None = None
    problems: list[Problem] = []
    try:
        config = ClusterConfig.model_validate(data)
    except ValidationError as error:
        problems = problems_of(error, ClusterConfig, document.file, document.lines)
        problems += _disagreements(document, data) or ([] if problems else [document.problem((), str(error))])
    problems += _unknown_providers(document, data)
    contradictions = _contradictions(document, data)
    problems += _provider_contradictions(document, data)
    problems += [problem for problem, binding in contradictions if binding]
    if config is None or problems:
        raise BadInput(sorted(problems, key=lambda problem: problem.line or 0))
    warnings = [problem for problem, binding in contradictions if not binding]
    return LoadedCluster(config, (*warnings, *_without_a_way_home(document, config)))


def _disagreements(document: Document, data: dict[str, Any]) -> list[Problem]:
    """Contradictions between parts that are valid on their own."""
    found = [repeated for kind in ("pools", "groups") for repeated in repeated_names(kind, _names(data.get(kind)))]
    found += disagreements(
        groups=_valid(ScaleGroup, data.get("groups")),
        pools=_valid(Pool, data.get("pools")),
        max_slices=_read(parse_count, data.get("max_slices")),
        usage_stale_after=_read(parse_seconds, data.get("usage_stale_after")),
        priced=needs_prices(data.get("placement"), data.get("max_cost_per_hour"), data.get("consolidation")),
    )
    return [document.problem(where, message) for where, message in found]


def _read(parse: Callable[[object], N], value: Any) -> N | None:
    try:
        return parse(value)
    except ValueError:
        return None


def _without_a_way_home(document: Document, config: ClusterConfig) -> list[Problem]:
    """What keeps slices from returning to better groups: a placement without an order of preference, unknown prices."""
    if config.return_home is None:
        return []
    if config.placement is not Placement.PRIORITY:
        message = f"has no effect with placement {config.placement}: only priority has an order of preference; remove it"
        return [document.problem(("return_home",), message)]
    unpriced = (i for i, group in enumerate(config.groups) if group.price_per_hour is None)
    message = "is unknown, so slices never return to this group or from it; add it"
    return [document.problem(("groups", i, "price_per_hour"), message) for i in unpriced]


def _unknown_providers(document: Document, data: dict[str, Any]) -> list[Problem]:
    """Groups whose `provider.kind` is not registered: no worker could create or list slices there."""
    found = []
    for i, group in _valid(ScaleGroup, data.get("groups")).items():
        kind = group.provider.kind
        if kind not in KINDS:
            hint = did_you_mean(kind, sorted(KINDS))
            found.append(document.problem(("groups", i, "provider", "kind"), f"there is no provider {kind!r}; {hint}"))
    return found


def _contradictions(document: Document, data: dict[str, Any]) -> list[tuple[Problem, bool]]:
    """Groups that contradict the table of TPU variants: an error (True) at Google, elsewhere a warning."""
    found = []
    for i, group in _valid(ScaleGroup, data.get("groups")).items():
        known = group.known_variant
        if known is None:
            continue
        binding = kind_of(group.provider.kind).sells_tpu_slices
        variant = group.device.variant
        if group.hosts_per_slice != known.hosts:
            message = f"{group.hosts_per_slice} contradicts {variant}, which has {known.hosts} hosts; leave it out to derive it"
            found.append((document.problem(("groups", i, "hosts_per_slice"), message), binding))
        if group.host.tpu_chips != known.chips_per_host:
            message = f"{group.host.tpu_chips} contradicts {variant}, whose hosts have {known.chips_per_host} chips; leave it out"
            found.append((document.problem(("groups", i, "host", "tpu"), message), binding))
    return found


def _provider_contradictions(document: Document, data: dict[str, Any]) -> list[Problem]:
    """Groups that contradict the rules of their provider kind."""
    return [
        document.problem(("groups", i, *where), message)
        for i, group in _valid(ScaleGroup, data.get("groups")).items()
        for where, message in kind_of(group.provider.kind).contradictions(group)
    ]


def _valid(model: type[T], items: Any) -> dict[int, T]:
    """The items that are valid on their own, by position."""
    found: dict[int, T] = {}
    for i, item in enumerate(items if isinstance(items, list) else []):
        try:
            found[i] = model.model_validate(item)
        except ValidationError:
            continue
    return found


def _names(items: Any) -> list[object]:
    """The names of items, also of invalid ones."""
    return [item.get("name") if isinstance(item, dict) else None for item in (items if isinstance(items, list) else [])]
