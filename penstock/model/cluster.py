"""The configuration of a cluster: groups, pools, limits, timeouts, and every default value."""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import Field, JsonValue, field_validator, model_validator
from pydantic_core import PydanticCustomError

from penstock.model.constraints import AttributeName, Scalar
from penstock.model.elasticity import (
    DEFAULT_DEGRADED_SECONDS,
    DEFAULT_GROW_SECONDS,
    DEFAULT_SHRINK_SECONDS,
    DEFAULT_UNAVAILABLE,
    Consolidation,
    Drive,
    ReturnHome,
    Share,
    Window,
)
from penstock.model.location import Location
from penstock.model.provider_kinds import kind_of
from penstock.model.resources import GPU, TPU, Resources
from penstock.model.shape import DeviceType
from penstock.model.tpu import TpuVariant, tpu_variant
from penstock.model.units import MILLI, Count, Positive, Seconds, format_seconds
from penstock.model.value import Value
from penstock.wording import shortened

DEFAULT_PRIORITY = 100
"""In the middle: operators give preferred groups lower numbers, and groups of last resort higher ones."""
DEFAULT_PATIENCE_SECONDS = 600.0
"""Longer than a cloud with capacity takes to show a slice, and shorter than users wait before they ask why."""
DEFAULT_READY_GRACE_SECONDS = 120.0
"""Several report intervals. After it, a controller's silence counts: on READY slices and the tasks placed on them (alerts), on a
slice that it never names (unclaimed), and after a restart (its demand buys again)."""
STALE_AFTER_IDLE_TIMEOUTS = 3
"""A source of usage is stale after so many times the longest idle timeout: its word must outlast what it decides."""
DEFAULT_EVALUATION_SECONDS = 5.0
"""Least time between two evaluations: demand arrives in bursts, and one evaluation answers a whole burst."""

DEFAULT_REQUESTING_SECONDS = 900.0
"""Clouds with capacity show a slice within minutes. A slice that is still REQUESTING after this time fails."""
DEFAULT_BOOT_SECONDS = 1800.0
"""Large slices take many minutes until every host has an address."""
DEFAULT_INIT_SECONDS = 1800.0
"""Start-up scripts pull images of tens of gigabytes."""
DEFAULT_DRAIN_SECONDS = 600.0
"""Time for a controller to move or finish the work of a slice."""
DEFAULT_IDLE_SECONDS = 600.0
"""How long a READY slice stays idle before it is given back: a slice takes minutes to come back, and work comes in waves."""
DEFAULT_CANCEL_SECONDS = 60.0
"""How long a slice on its way stays unneeded before it is called off: demand that moves between sources is gone for moments."""
DEFAULT_LOOK_SECONDS = 2.0
"""Interval between polls of a location while slices there are starting or leaving."""
DEFAULT_REST_SECONDS = 15.0
"""Interval between polls of a location in which nothing is changing."""
DEFAULT_AUDIT_SECONDS = 60.0
"""Interval between audits, which compare cloud, ledger and slice workflows."""
DEFAULT_ORPHAN_GRACE_SECONDS = 300.0
"""Least age of an orphan, a labelled resource without a slice workflow, before it is deleted."""
DEFAULT_LOST_MISSES = 3
"""Consecutive polls that must miss a slice or host before it counts as lost: one failed poll is no evidence."""
DEFAULT_LOST_SECONDS = 30.0
"""Least time that those polls must span: network faults of a few seconds are common."""

DEFAULT_FIRST_BACKOFF_SECONDS = 60.0
DEFAULT_LONGEST_BACKOFF_SECONDS = 1800.0
"""Stockouts last minutes to hours: retry soon at first, and rarely later."""

MOST_SLICES = 50_000
"""Slices of a floor, or of a file: ten times the designed size of a cluster. A mistyped count is not unfolded."""
MOST_HOSTS = 10_000
"""Hosts of one slice: several times those of the largest pods."""
MOST_FLOOR_HOSTS = 500_000
"""Hosts of a group's floor: every host of an opened slice is a bin of the decision."""
GREATEST_GROWTH = 1_000_000.0
"""Upper bound of the setting: a larger growth limit would never bind."""

LONGEST_ZONE = 63
"""Names of zones become part of workflow ids and URLs; Google's longest is half as long."""
LONGEST_ACCOUNT = 100
"""The same for accounts. A project id has at most 30 characters, and a domain before it."""
_ACCOUNT = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.:]*[A-Za-z0-9])?")

FINGERPRINT_DIGITS = 8
"""Hexadecimal digits of a fingerprint: it tells apart the few ways in which slices of one group were made."""
LONGEST_VARIANT = 63
"""The same for variants of devices. Google's longest name of an accelerator has about thirty characters."""
_VARIANT = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.+]*[A-Za-z0-9+])?")

LONGEST_ADDRESS = 300
"""Characters of the address of an API server."""
_ADDRESS = re.compile(r"(https?://)?[A-Za-z0-9\[][-A-Za-z0-9._:\]]*(/[^\s?#]*)?")
Money = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""An amount in the currency of the prices."""
Name = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9_.]*[a-z0-9])?$")]
"""The name of a group or pool: it becomes part of ids, metrics and tables."""
NO_ZONE = "anywhere"
"""The location name of groups without a zone."""
DISAGREEMENT = "disagreement"
"""Pydantic error type for parts of a configuration that contradict each other."""


class Placement(StrEnum):
    """The strategy that places demand on slices."""

    PRIORITY = "priority"
    PACKING = "packing"
    COST = "cost"


class ScaleDown(StrEnum):
    """Whether drains that decisions ask for are ordered, or only shown."""

    ON = "on"
    OBSERVE = "observe"


class Limits(Value):
    """How fast slices may be launched. An unset field does not limit."""

    in_flight: Positive | None = None
    creates_per_minute: Positive | None = None
    growth: Annotated[float, Field(gt=0, le=GREATEST_GROWTH, allow_inf_nan=False)] | None = None


class Pool(Value):
    """A budget of chips that several groups share; `system` chips of it are reserved for other users."""

    name: Name
    chips: Count
    system: Count = 0


class GroupDevice(Value):
    """The device of a group's hosts."""

    type: DeviceType = DeviceType.CPU
    variant: str | None = None

    @field_validator("variant")
    @classmethod
    def _variant_fits_ids_and_urls(cls, variant: str | None) -> str | None:
        if variant == "":
            raise ValueError("is empty; write it like v5litepod-16 or h100, or leave it out")
        if variant is not None and (len(variant) > LONGEST_VARIANT or ".." in variant or not _VARIANT.fullmatch(variant)):
            raise ValueError(
                f"{shortened(repr(variant), 60)} may have only letters, digits and - _ . +, with a letter or digit first and no "
                f"- _ . last, and at most {LONGEST_VARIANT} characters; write it like v5litepod-16 or h100"
            )
        return variant


class ProviderConfig(Value):
    """The cloud that creates the slices: its kind, and the settings of that kind."""

    model_config = Value.model_config | {"extra": "allow"}

    kind: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9_.]*[a-z0-9])?$")] = "sim"

    @model_validator(mode="after")
    def _account_fits_ids_and_urls(self) -> Self:
        key = kind_of(self.kind).account_key
        account = self.settings.get(key)
        if account is None or account == "":
            return self
        if not isinstance(account, str) or len(account) > LONGEST_ACCOUNT or not _ACCOUNT.fullmatch(account):
            raise ValueError(
                f"{key} {shortened(repr(account), 60)} may have only letters, digits and - _ . :, with a letter or digit "
                f"first and last, and at most {LONGEST_ACCOUNT} characters; write the id of the account, such as my-project"
            )
        return self

    @model_validator(mode="after")
    def _addresses_are_addresses(self) -> Self:
        for key in kind_of(self.kind).connection_keys:
            address = self.settings.get(key)
            if address is None or address == "":
                continue
            if not isinstance(address, str) or len(address) > LONGEST_ADDRESS or not _ADDRESS.fullmatch(address):
                raise ValueError(
                    f"{key} {shortened(repr(address), 60)} is not an address of at most {LONGEST_ADDRESS} characters; write it "
                    f"like {'tpu.example.com:443' if key == 'tpu_endpoint' else 'http://127.0.0.1:7234'}"
                )
        return self

    @property
    def settings(self) -> dict[str, JsonValue]:
        """All keys other than `kind`."""
        return dict(self.model_extra or {})

    @property
    def account(self) -> str:
        """The cloud account, as names of queues and inventories have it: `kind`, or `kind:account` if the settings name one."""
        account = (self.model_extra or {}).get(kind_of(self.kind).account_key)
        return f"{self.kind}:{account}" if account else self.kind


class EvaluationConfig(Value):
    """How often the cluster is evaluated."""

    interval_seconds: Seconds = Field(default=DEFAULT_EVALUATION_SECONDS, alias="interval")


class Timeouts(Value):
    """How long a slice may stay in each state before it fails. At the end of `drain`, the cause of the drain decides."""

    requesting_seconds: Seconds = Field(default=DEFAULT_REQUESTING_SECONDS, alias="requesting")
    boot_seconds: Seconds = Field(default=DEFAULT_BOOT_SECONDS, alias="boot")
    init_seconds: Seconds = Field(default=DEFAULT_INIT_SECONDS, alias="init")
    drain_seconds: Seconds = Field(default=DEFAULT_DRAIN_SECONDS, alias="drain")


class Backoff(Value):
    """How long a group launches nothing after a stockout. The time doubles with each consecutive stockout, up to the longest."""

    first_seconds: Seconds = Field(default=DEFAULT_FIRST_BACKOFF_SECONDS, alias="first")
    longest_seconds: Seconds = Field(default=DEFAULT_LONGEST_BACKOFF_SECONDS, alias="longest")


class InventoryRules(Value):
    """How often each location is polled and audited, and when a slice counts as lost or a resource as an orphan."""

    look_seconds: Seconds = Field(default=DEFAULT_LOOK_SECONDS, alias="look")
    rest_seconds: Seconds = Field(default=DEFAULT_REST_SECONDS, alias="rest")
    audit_seconds: Seconds = Field(default=DEFAULT_AUDIT_SECONDS, alias="audit")
    orphan_grace_seconds: Seconds = Field(default=DEFAULT_ORPHAN_GRACE_SECONDS, alias="orphan_grace")
    lost_misses: Positive = DEFAULT_LOST_MISSES
    lost_seconds: Seconds = Field(default=DEFAULT_LOST_SECONDS, alias="lost_after")


class ScaleGroup(Value):
    """A group of equal slices: their hardware, location, price and limits."""

    name: Name
    device: GroupDevice = GroupDevice()
    host: Resources = Resources()
    hosts_per_slice: Annotated[Positive, Field(le=MOST_HOSTS)] = 1
    shared_tpu: bool = False
    min_slices: Annotated[Count, Field(le=MOST_SLICES)] = 0
    max_slices: Count
    warm_slices: Annotated[Count, Field(le=MOST_SLICES)] = 0
    priority: Count = DEFAULT_PRIORITY
    preemptible: bool = False
    zone: Annotated[str, Field(min_length=1, max_length=LONGEST_ZONE, pattern=r"^[a-z0-9]([-a-z0-9_.]*[a-z0-9])?$")] | None = None
    attributes: dict[AttributeName, Scalar] = Field(default_factory=dict)
    price_per_hour: Money | None = None
    pool: Name | None = None
    quota_pool: Name | None = None
    quota_tier: Count = 0
    watermark: Annotated[int, Field(ge=1, le=100)] | None = None
    limits: Limits = Limits()
    patience_seconds: Seconds | None = Field(default=None, alias="patience")
    timeouts: Timeouts = Timeouts()
    idle_timeout_seconds: Seconds = Field(default=DEFAULT_IDLE_SECONDS, alias="idle_timeout")
    """How long a READY slice that nothing needs stays idle before it drains."""
    cancel_after_seconds: Seconds = Field(default=DEFAULT_CANCEL_SECONDS, alias="cancel_after")
    """How long a slice on its way stays unneeded before it is called off."""
    protect_first: bool = False
    """Whether the oldest READY slice is the last to be given back."""
    queued: bool = False
    """Whether create requests wait in the cloud's queue when it has no capacity."""
    keep_queued: bool = False
    """Whether a slice keeps its place in the cloud's queue even if nothing wants it any more."""
    hold_after_stockout_seconds: Seconds | None = Field(default=None, alias="hold_after_stockout")
    """How long after a stockout of the group its idle slices are kept."""
    degraded_after_seconds: Seconds = Field(default=DEFAULT_DEGRADED_SECONDS, alias="degraded_after")
    """How long a slice with a degraded host is kept before it is replaced."""
    max_age_seconds: Seconds | None = Field(default=None, alias="max_age")
    """The age at which a slice is replaced. If unset, none is too old."""
    max_unavailable: Share = DEFAULT_UNAVAILABLE
    """How many of its slices may drain at a time to be replaced."""
    window: Window | None = None
    """When drains that replace its slices may begin. If unset, at any time."""
    drive: Drive = Drive.ENTRIES
    slots_per_slice: Count | None = None
    """Tasks that one slice of a group driven by pressure runs at a time; 0 counts as 1."""
    grow_cooldown_seconds: Seconds = Field(default=DEFAULT_GROW_SECONDS, alias="grow_cooldown")
    """Least time between an action on pressure and the next growth."""
    shrink_cooldown_seconds: Seconds = Field(default=DEFAULT_SHRINK_SECONDS, alias="shrink_cooldown")
    """Least time between an action on pressure and the next shrinking."""
    provider: ProviderConfig = ProviderConfig()

    @model_validator(mode="before")
    @classmethod
    def _size_follows_from_a_known_variant(cls, data: Any) -> Any:
        known = _variant_of(data)
        host = data.get("host", {}) if isinstance(data, dict) else None
        if known is None or not isinstance(host, dict):
            return data
        derived = {} if data.get("hosts_per_slice") is not None else {"hosts_per_slice": known.hosts}
        return data | derived | ({} if "tpu" in host else {"host": host | {"tpu": known.chips_per_host}})

    @field_validator("attributes")
    @classmethod
    def _reserved_attributes_come_from_fields(cls, attributes: dict[str, Scalar]) -> dict[str, Scalar]:
        for name in ("zone", "region", "variant", "preemptible", "device"):
            if name in attributes:
                raise ValueError(f"{name} is already an attribute, from the group's own fields; remove it here")
        return attributes

    @model_validator(mode="after")
    def _slices_fit_their_bounds(self) -> Self:
        if self.min_slices > self.max_slices:
            raise ValueError(f"min_slices {self.min_slices} is above max_slices {self.max_slices}; lower one or raise the other")
        floor = (self.min_slices + self.warm_slices) * self.hosts_per_slice
        if floor > MOST_FLOOR_HOSTS:
            raise ValueError(f"min_slices and warm_slices are {floor} hosts, the limit is {MOST_FLOOR_HOSTS}; lower them")
        if self.quota_tier and self.quota_pool is None:
            raise ValueError(f"quota_tier {self.quota_tier} needs a quota_pool; add one, or remove quota_tier")
        return self

    @model_validator(mode="after")
    def _drive_has_its_fields(self) -> Self:
        if self.drive is Drive.ENTRIES:
            if self.slots_per_slice is not None:
                raise ValueError("slots_per_slice needs drive: pressure; set drive, or remove slots_per_slice")
            return self
        if self.slots_per_slice is None:
            raise ValueError("drive: pressure needs slots_per_slice, the tasks that one slice runs at a time; add it")
        for name in ("warm_slices", "watermark"):
            if getattr(self, name):
                raise ValueError(f"{name} needs drive: entries, and drive is pressure; remove {name}, or change drive")
        return self

    @model_validator(mode="after")
    def _hosts_have_the_device(self) -> Self:
        offered = {DeviceType.CPU: 1, DeviceType.GPU: self.host.gpu_milli, DeviceType.TPU: self.host.tpu_chips}
        if not offered[self.device.type]:
            raise ValueError(f"device.type is {self.device.type}, but host.{self.device.type} is 0; set how many one host has")
        if self.host.gpu_milli % MILLI:
            raise ValueError("host.gpu must be a whole number of GPUs")
        if self.device.type is DeviceType.CPU and self.device.variant:
            raise ValueError("device.variant needs device.type gpu or tpu")
        return self

    @property
    def known_variant(self) -> TpuVariant | None:
        """The size of the group's TPU variant; None if the variant is not in Google's table."""
        return tpu_variant(self.device.variant) if self.device.type is DeviceType.TPU and self.device.variant else None

    @property
    def location(self) -> Location:
        """Where its slices are created and listed. Not cached: a copy with another zone or provider would keep the old one."""
        provider = self.provider
        return Location(provider=provider.kind, account=provider.account, name=self.zone or NO_ZONE, settings=provider.settings)

    @property
    def fingerprint(self) -> str:
        """What a slice is made with, as a digest: settings of the provider, image, start-up script, hardware.

        It changes if a new slice would be made differently. Not cached: a copy with other settings would keep the old one.
        """
        connection = kind_of(self.provider.kind).connection_keys
        made_with = {
            "kind": self.provider.kind,
            "settings": {key: value for key, value in self.provider.settings.items() if key not in connection},
            "device": self.device.model_dump(mode="json"),
            "host": self.host.vector,
            "hosts_per_slice": self.hosts_per_slice,
            "preemptible": self.preemptible,
            "zone": self.zone,
        }
        return hashlib.sha256(json.dumps(made_with, sort_keys=True).encode()).hexdigest()[:FINGERPRINT_DIGITS]

    @property
    def location_key(self) -> str:
        """The key of its location, without the cost of building that."""
        return f"{self.provider.account}/{self.zone or NO_ZONE}"

    @cached_property
    def region(self) -> str | None:
        """The zone without its last part."""
        return self.zone.rsplit("-", 1)[0] if self.zone and "-" in self.zone else None

    @cached_property
    def all_attributes(self) -> dict[str, Scalar]:
        """Every attribute that a constraint can name."""
        own = {"zone": self.zone, "region": self.region, "variant": self.device.variant}
        named = {key: value for key, value in own.items() if value is not None}
        return {**self.attributes, **named, "device": str(self.device.type), "preemptible": self.preemptible}

    @property
    def accelerated(self) -> bool:
        """Whether the hosts have accelerators, also if `device.type` is cpu."""
        return bool(self.host.vector[GPU] or self.host.vector[TPU])

    @property
    def hosts_alone(self) -> bool:
        """Whether a task on TPU chips has its host to itself."""
        return bool(self.host.tpu_chips) and not self.shared_tpu

    @cached_property
    def chips_per_slice(self) -> int:
        """Chips that one slice charges to its pool."""
        return self.hosts_per_slice * (self.host.tpu_chips or self.host.gpu_milli // MILLI)

    @property
    def price(self) -> float:
        """Price per hour of one slice; 0 if it is unknown."""
        return self.price_per_hour or 0.0


class ClusterConfig(Value):
    """The whole configuration of one cluster."""

    cluster: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9_]*[a-z0-9])?$")]
    placement: Placement = Placement.PRIORITY
    max_slices: Count | None = None
    max_cost_per_hour: Money | None = None
    """Launches beyond it are deferred."""
    limits: Limits = Limits()
    conserve_accelerators: bool = True
    scale_down: ScaleDown = ScaleDown.ON
    patience_seconds: Seconds = Field(default=DEFAULT_PATIENCE_SECONDS, alias="patience")
    ready_grace_seconds: Seconds = Field(default=DEFAULT_READY_GRACE_SECONDS, alias="ready_grace")
    unclaimed_after_seconds: Seconds | None = Field(default=None, alias="unclaimed_after")
    """How long an unclaimed slice is kept. If unset, for ever."""
    usage_stale_after_seconds: Seconds | None = Field(default=None, alias="usage_stale_after")
    """How long the word of a silent source of usage counts as fresh."""
    max_unavailable: Share = DEFAULT_UNAVAILABLE
    """How many slices may drain at a time to be replaced."""
    window: Window | None = None
    """When drains that replace slices may begin. If unset, at any time."""
    replace_drifted: bool = True
    """Whether slices are replaced that were made with another fingerprint than their group has now."""
    return_home: ReturnHome | None = None
    """Whether slices return to a better group. If unset, they do not."""
    consolidation: Consolidation | None = None
    """Whether busy slices are emptied to save money. If unset, they are not."""
    evaluation: EvaluationConfig = EvaluationConfig()
    inventory: InventoryRules = InventoryRules()
    backoff: Backoff = Backoff()
    pools: tuple[Pool, ...] = ()
    groups: tuple[ScaleGroup, ...]

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        problems = repeated_names("pools", [pool.name for pool in self.pools])
        problems += repeated_names("groups", [group.name for group in self.groups])
        problems += disagreements(
            groups=dict(enumerate(self.groups)),
            pools=dict(enumerate(self.pools)),
            max_slices=self.max_slices,
            usage_stale_after=self.usage_stale_after_seconds,
            priced=needs_prices(self.placement, self.max_cost_per_hour, self.consolidation),
        )
        if problems:
            message = "; ".join(f"{'.'.join(map(str, where))}: {problem}" for where, problem in problems)
            raise PydanticCustomError(DISAGREEMENT, "{message}", {"message": message})
        return self

    def group(self, name: str) -> ScaleGroup | None:
        """The group with that name; None if it is not configured."""
        return self._by_name.get(name)

    def groups_at(self, location_key: str) -> tuple[ScaleGroup, ...]:
        """The groups that are configured at a location."""
        return self._by_location.get(location_key, ())

    @cached_property
    def _by_name(self) -> dict[str, ScaleGroup]:
        return {group.name: group for group in reversed(self.groups)}

    @cached_property
    def _by_location(self) -> dict[str, tuple[ScaleGroup, ...]]:
        found: dict[str, list[ScaleGroup]] = {}
        for group in self.groups:
            found.setdefault(group.location_key, []).append(group)
        return {key: tuple(groups) for key, groups in found.items()}

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields replaced, whose groups are looked up anew."""
        copied = super().model_copy(update=update, deep=deep)
        for derived in ("_by_name", "_by_location"):
            copied.__dict__.pop(derived, None)
        return copied

    @property
    def stale_after_seconds(self) -> float:
        """How long a silent source of usage counts as fresh."""
        if self.usage_stale_after_seconds is not None:
            return self.usage_stale_after_seconds
        return STALE_AFTER_IDLE_TIMEOUTS * longest_idle_timeout(self.groups)

    def patience_of(self, group: ScaleGroup) -> float:
        """How long a REQUESTING slice of the group holds demand."""
        return self.patience_seconds if group.patience_seconds is None else group.patience_seconds


Where = tuple[str | int, ...]
"""A path into a configuration: groups, 2, max_slices."""


def longest_idle_timeout(groups: Iterable[ScaleGroup]) -> float:
    """The longest `idle_timeout` of the groups, in seconds; the default without groups."""
    return max((group.idle_timeout_seconds for group in groups), default=DEFAULT_IDLE_SECONDS)


def repeated_names(kind: str, names: Sequence[object]) -> list[tuple[Where, str]]:
    """Names that an earlier group or pool already has."""
    found: list[tuple[Where, str]] = []
    seen: set[str] = set()
    for i, name in enumerate(names):
        if not isinstance(name, str):  # Its own problem is reported.
            continue
        if name in seen:
            found.append(((kind, i, "name"), f"{name!r} is already in use; choose another name"))
        seen.add(name)
    return found


def disagreements(
    *,
    groups: Mapping[int, ScaleGroup],
    pools: Mapping[int, Pool],
    max_slices: int | None = None,
    usage_stale_after: float | None = None,
    priced: Sequence[str] = (),
) -> list[tuple[Where, str]]:
    """Contradictions between parts of a configuration, each with its path and the fix. Groups and pools are keyed by position.

    `priced` are the parts that need the price of every group.
    """
    found: list[tuple[Where, str]] = []
    for i, group in groups.items():
        found += _group_disagreements(i, group, {pool.name for pool in pools.values()}, priced)
    found += _endpoint_conflicts(groups)
    for i, pool in pools.items():
        if pool.system > pool.chips:
            found.append((("pools", i, "system"), f"{pool.system} is more than the pool's {pool.chips} chips; lower it"))
    floor = sum(group.min_slices for group in groups.values())
    if max_slices is not None and floor > max_slices:
        found.append((("max_slices",), f"{max_slices} is less than {floor}, the sum of all min_slices; raise it"))
    return found + _staleness_conflicts(groups.values(), usage_stale_after)


def needs_prices(placement: object, max_cost_per_hour: object, consolidation: object) -> tuple[str, ...]:
    """The parts of a configuration that need the price of every group. Values may be unread."""
    cost = ("placement cost",) if placement == Placement.COST else ()
    maximum = () if max_cost_per_hour is None else ("max_cost_per_hour",)
    return (*cost, *maximum, *(() if consolidation is None else ("consolidation",)))


def _staleness_conflicts(groups: Collection[ScaleGroup], usage_stale_after: float | None) -> list[tuple[Where, str]]:
    """Timeouts that would end on a stale word of a source of usage."""
    if usage_stale_after is None:
        return []
    drain = max((group.timeouts.drain_seconds for group in groups), default=0.0)
    waits = {"longest idle timeout": longest_idle_timeout(groups), "longest timeouts.drain": drain}
    stale = format_seconds(usage_stale_after)
    return [
        (("usage_stale_after",), f"{stale} does not exceed the {name}, {format_seconds(seconds)}; raise it")
        for name, seconds in waits.items()
        if usage_stale_after <= seconds
    ]


def _endpoint_conflicts(groups: Mapping[int, ScaleGroup]) -> list[tuple[Where, str]]:
    """Groups of one account and location with different API servers: one inventory cannot list both."""
    found: list[tuple[Where, str]] = []
    first: dict[str, ScaleGroup] = {}
    for i, group in groups.items():
        other = first.setdefault(group.location.key, group)
        for key in kind_of(group.provider.kind).connection_keys:
            if group.provider.settings.get(key) != other.provider.settings.get(key):
                message = f"differs from that of group {other.name} in the same location; make them equal, or use another zone"
                found.append((("groups", i, "provider", key), message))
    return found


def _group_disagreements(i: int, group: ScaleGroup, pools: AbstractSet[str], priced: Sequence[str]) -> list[tuple[Where, str]]:
    found: list[tuple[Where, str]] = []
    if group.pool is not None:
        if group.pool not in pools:
            known = ", ".join(sorted(pools)) or "none"
            found.append((("groups", i, "pool"), f"no pool is called {group.pool!r}; pools: {known}"))
        if not group.chips_per_slice:
            found.append((("groups", i, "pool"), f"group {group.name} has no chips to charge to pool {group.pool}; remove pool"))
    if priced and group.price_per_hour is None:
        found.append((("groups", i, "price_per_hour"), f"{priced[0]} needs the price of group {group.name}; add it"))
    return found


def _variant_of(data: Any) -> TpuVariant | None:
    device = data.get("device") if isinstance(data, dict) else None
    if not isinstance(device, dict) or device.get("type") != DeviceType.TPU:
        return None
    return tpu_variant(str(device.get("variant", "")))
