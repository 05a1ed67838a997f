"""The settings of groups on Google's clouds: the keys of `provider` beside `kind: gcp-tpu` or `kind: gce`."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field, JsonValue, ValidationError, field_validator, model_validator

from activities.providers.gcp.naming import RESERVED
from activities.providers.gcp.references import LONGEST_KEY, MetadataKey, Name, Path, Reservation, Scope, ServiceAccount, Tag
from activities.providers.port import Invalid, Order
from penstock.model.units import Bytes, Positive, Seconds
from penstock.model.value import Value
from penstock.wording import did_you_mean, shortened

DEFAULT_HEALTH_PORT = 10001
"""A port that nothing on Google's images listens on; the start-up script gets it as PENSTOCK_HEALTH_PORT."""
DEFAULT_HEALTH_SECONDS = 3.0
"""Timeout of a health check. A healthy host answers in milliseconds; a longer wait only delays the other checks."""
DEFAULT_CREATE_WAIT_SECONDS = 30.0
"""How long a create waits for its operation to fail. Most stockouts come within seconds, and `observe` reports later ones.
A longer activity would hold its slot for a machine that is starting anyway."""
DEFAULT_QUEUE_SECONDS = 7200.0
"""The longest time in the queue that Compute Engine allows a flex-start machine."""
LONGEST_RUN_SECONDS = 7 * 86400.0
"""The longest run of a flex-start machine."""
DEFAULT_DISK_BYTES = 100 << 30
"""Space for an image of tens of gigabytes and its layers."""

_OF_THE_KEY = "[key]"
"""What pydantic appends to the path of a dictionary's key."""
_LABEL_KEY = r"^[a-z][a-z0-9_-]{0,62}$"
_LABEL_VALUE = r"^[a-z0-9_-]{0,63}$"

Text = Annotated[str, Field(min_length=1)]
S = TypeVar("S", bound="Connection")


class Secret(Value):
    """A reference to a secret on the worker's machine, `env:NAME` or `file:PATH`, read when it is used."""

    secret: Annotated[str, Field(pattern=r"^(env|file):.+$")]


SecretText = str | Secret
"""Text, or a reference to secret text."""


class Capacity(StrEnum):
    """How the capacity is bought."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    RESERVED = "reserved"


class HealthBy(StrEnum):
    """Where health checks read a host's answer: from its HTTP endpoint, or from its guest attributes."""

    ADDRESS = "address"
    GUEST_ATTRIBUTES = "guest_attributes"


class Reach(StrEnum):
    """The address of a host that health checks use."""

    INTERNAL = "internal"
    EXTERNAL = "external"


class _Health(Value):
    """The settings of health checks."""

    health: HealthBy = HealthBy.ADDRESS
    health_port: Annotated[Positive, Field(le=65535)] = DEFAULT_HEALTH_PORT
    health_timeout_seconds: Annotated[Seconds, Field(gt=0)] = Field(default=DEFAULT_HEALTH_SECONDS, alias="health_timeout")
    reach: Reach = Reach.INTERNAL


class Connection(_Health):
    """A project's endpoints and default health settings. Groups with equal connections share a provider."""

    project: Text
    endpoint: Annotated[str, Field(pattern=r"^https?://")] | None = None
    tpu_endpoint: Annotated[str, Field(pattern=r"^[^/]+:\d+$")] | None = None

    @property
    def connection(self) -> "Connection":
        """The connection alone, without the settings of one group."""
        return Connection.model_validate(self.model_dump(include=set(Connection.model_fields)))

    @property
    def health_metadata(self) -> str | None:
        """The group's health settings as its resources carry them in their metadata; None if it has none."""
        given = self.model_dump(mode="json", include=set(_Health.model_fields), exclude_unset=True)
        return json.dumps(given, sort_keys=True) if given else None

    def with_health_settings(self, health_metadata: str | None) -> "Connection":
        """The connection with a resource's own health settings: groups of one location may differ in them."""
        if health_metadata is None:
            return self
        try:
            own = _Health.model_validate_json(health_metadata)
        except ValidationError:
            return self
        return self.model_copy(update=own.model_dump(by_alias=False, exclude_unset=True))


class _Settings(Connection):
    """The settings that both kinds have."""

    network: Path | None = None
    subnetwork: Path | None = None
    external_ips: bool = False
    service_account: ServiceAccount | None = None
    scopes: tuple[Scope, ...] = ("https://www.googleapis.com/auth/cloud-platform",)
    tags: tuple[Tag, ...] = ()
    labels: dict[Annotated[str, Field(pattern=_LABEL_KEY)], Annotated[str, Field(pattern=_LABEL_VALUE)]] = Field(
        default_factory=dict
    )
    startup_script: SecretText | None = None
    env: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], SecretText] = Field(default_factory=dict)
    metadata: dict[MetadataKey, SecretText] = Field(default_factory=dict)
    capacity: Capacity | None = None
    reservation: Reservation | None = None
    create_wait_seconds: Seconds = Field(default=DEFAULT_CREATE_WAIT_SECONDS, alias="create_wait")

    @field_validator("labels", "metadata")
    @classmethod
    def _reserved_keys_are_refused(cls, given: dict[str, Any]) -> dict[str, Any]:
        for key in given:
            if key.startswith(RESERVED) or key == "startup-script":
                raise ValueError(f"{key} is set by Penstock; choose another key, or use startup_script")
        return given

    @model_validator(mode="after")
    def _settings_agree(self) -> Self:
        if (self.capacity is Capacity.RESERVED) != (self.reservation is not None):
            raise ValueError("capacity: reserved and reservation: NAME go together; give both or neither")
        if self.env and self.startup_script is None:
            raise ValueError("env is exported by startup_script; add one, or remove env")
        return self

    def capacity_of(self, order: Order) -> Capacity:
        """The order's capacity: spot for preemptible groups and only for them; `Invalid` if the settings contradict that."""
        implied = Capacity.SPOT if order.preemptible else Capacity.ON_DEMAND
        chosen = self.capacity or implied
        if (chosen is Capacity.SPOT) != order.preemptible:
            preemptible = str(order.preemptible).lower()
            raise Invalid(f"provider.capacity is {chosen}, but the group has preemptible: {preemptible}; they must agree")
        return chosen


class TpuSettings(_Settings):
    """A group of Cloud TPU slices."""

    runtime_version: Name | None = None
    valid_until_seconds: Annotated[Seconds, Field(gt=0)] | None = Field(default=None, alias="valid_until")


class ComputeSettings(_Settings):
    """A group of Compute Engine machines."""

    image: Path
    machine_type: Name | None = None
    disk_bytes: Annotated[Bytes, Field(ge=10 << 30)] = Field(default=DEFAULT_DISK_BYTES, alias="disk")
    disk_type: Name | None = None
    placement_policy: Path | None = None
    max_run_seconds: Annotated[Seconds, Field(ge=30)] | None = Field(default=None, alias="max_run_duration")
    valid_until_seconds: Annotated[Seconds, Field(ge=90, le=DEFAULT_QUEUE_SECONDS)] = Field(
        default=DEFAULT_QUEUE_SECONDS, alias="valid_until"
    )


def read(model: type[S], given: Mapping[str, JsonValue]) -> S:
    """The settings; raises `Invalid` with every mistake in them and its fix."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        problems = "; ".join(_problem(detail, model) for detail in error.errors(include_url=False, include_input=False))
        raise Invalid(f"the group's provider cannot be used: {problems}") from None


def _readable(key: str) -> str:
    """A key of a file as a message shows it, whatever it is."""
    return shortened(key if key.isprintable() else repr(key), LONGEST_KEY)


def _problem(detail: Any, model: type[Connection]) -> str:
    """One mistake, without the value: it may be a secret that was written instead of its reference."""
    where = ".".join(("provider", *(_readable(str(part)) for part in detail["loc"] if part != _OF_THE_KEY)))
    if detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1:
        known = [field.alias or name for name, field in model.model_fields.items()]
        return f"{where}: unknown key; {did_you_mean(str(detail['loc'][0]), sorted(known), noun='known keys')}"
    if detail["type"] == "missing":
        return f"{where}: is missing; add it"
    return f"{where}: {detail['ctx']['error'] if detail['type'] == 'value_error' else detail['msg']}"
