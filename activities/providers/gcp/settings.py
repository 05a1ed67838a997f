"""What a group's `provider` says beside `kind`, for both kinds of Google provider."""

import json
from collections.abc import Mapping
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field, JsonValue, ValidationError, field_validator, model_validator

from activities.providers.gcp.naming import RESERVED
from activities.providers.port import Invalid, Order
from penstock.model.units import Bytes, Positive, Seconds
from penstock.model.value import Value

DEFAULT_HEALTH_PORT = 10001
"""A port that nothing on Google's images listens on; the start-up script is told it as PENSTOCK_HEALTH_PORT."""
DEFAULT_HEALTH_SECONDS = 3.0
"""A host that answers at all answers a health check in milliseconds; longer looks only delay the look at the others."""
DEFAULT_CREATE_WAIT_SECONDS = 30.0
"""How long a create waits for its operation to fail. Stockouts mostly come within seconds; one that comes later is seen by
`observe`. An activity that lasted longer would hold its slot for a machine that is coming up anyway."""
DEFAULT_QUEUE_SECONDS = 7200.0
"""The longest that Compute Engine keeps a flex-start machine waiting."""
LONGEST_RUN_SECONDS = 7 * 86400.0
"""The longest run of a flex-start machine."""
DEFAULT_DISK_BYTES = 100 << 30
"""Room for an image of tens of gigabytes and its layers."""

_LABEL_KEY = r"^[a-z][a-z0-9_-]{0,62}$"
_LABEL_VALUE = r"^[a-z0-9_-]{0,63}$"

Text = Annotated[str, Field(min_length=1)]
S = TypeVar("S", bound="Connection")


class Secret(Value):
    """Where a secret is: `env:NAME` or `file:PATH` on the machine of the worker. What it holds is read when it is used."""

    secret: Annotated[str, Field(pattern=r"^(env|file):.+$")]


Words = str | Secret
"""Text, or the place of a secret one."""


class Capacity(StrEnum):
    """How the capacity is paid for."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    RESERVED = "reserved"


class HealthBy(StrEnum):
    """How hosts are asked for their health."""

    ADDRESS = "address"
    GUEST_ATTRIBUTES = "guest_attributes"


class Reach(StrEnum):
    """Which address of a host health checks go to."""

    INTERNAL = "internal"
    EXTERNAL = "external"


class _Health(Value):
    """How hosts are asked for their health."""

    health: HealthBy = HealthBy.ADDRESS
    health_port: Annotated[Positive, Field(le=65535)] = DEFAULT_HEALTH_PORT
    health_timeout_seconds: Annotated[Seconds, Field(gt=0)] = Field(default=DEFAULT_HEALTH_SECONDS, alias="health_timeout")
    reach: Reach = Reach.INTERNAL


class Connection(_Health):
    """How a project is reached, and its hosts asked unless their resource says otherwise; groups that agree share a provider."""

    project: Text
    endpoint: Annotated[str, Field(pattern=r"^https?://")] | None = None
    tpu_endpoint: Annotated[str, Field(pattern=r"^[^/]+:\d+$")] | None = None

    @property
    def connection(self) -> "Connection":
        """The part that groups share."""
        return Connection.model_validate(self.model_dump(include=set(Connection.model_fields)))

    @property
    def health_said(self) -> str | None:
        """How the group wants its hosts asked, as its resources say it; None if it says nothing."""
        said = self.model_dump(mode="json", include=set(_Health.model_fields), exclude_unset=True)
        return json.dumps(said, sort_keys=True) if said else None

    def asking(self, health_said: str | None) -> "Connection":
        """The same with hosts asked as their own resource says: groups of one place may differ in that."""
        if health_said is None:
            return self
        try:
            said = _Health.model_validate_json(health_said)
        except ValidationError:
            return self
        return self.model_copy(update=said.model_dump(by_alias=False, exclude_unset=True))


class _Settings(Connection):
    """What both kinds of slice have."""

    network: Text | None = None
    subnetwork: Text | None = None
    external_ips: bool = False
    service_account: Text | None = None
    scopes: tuple[str, ...] = ("https://www.googleapis.com/auth/cloud-platform",)
    tags: tuple[str, ...] = ()
    labels: dict[Annotated[str, Field(pattern=_LABEL_KEY)], Annotated[str, Field(pattern=_LABEL_VALUE)]] = Field(
        default_factory=dict
    )
    startup_script: Words | None = None
    env: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], Words] = Field(default_factory=dict)
    metadata: dict[Text, Words] = Field(default_factory=dict)
    capacity: Capacity | None = None
    reservation: Text | None = None
    create_wait_seconds: Seconds = Field(default=DEFAULT_CREATE_WAIT_SECONDS, alias="create_wait")

    @field_validator("labels", "metadata")
    @classmethod
    def _ours_are_ours(cls, given: dict[str, Any]) -> dict[str, Any]:
        for key in given:
            if key.startswith(RESERVED) or key == "startup-script":
                raise ValueError(f"{key} is set by Penstock; choose another key, or use startup_script")
        return given

    @model_validator(mode="after")
    def _reservations_are_named(self) -> Self:
        if (self.capacity is Capacity.RESERVED) != (self.reservation is not None):
            raise ValueError("capacity: reserved and reservation: NAME go together; give both or neither")
        if self.env and self.startup_script is None:
            raise ValueError("env is exported by startup_script; add one, or remove env")
        return self

    def capacity_of(self, order: Order) -> Capacity:
        """What the order asks for, spot exactly for preemptible groups; `Invalid` if the group says both."""
        implied = Capacity.SPOT if order.preemptible else Capacity.ON_DEMAND
        chosen = self.capacity or implied
        if (chosen is Capacity.SPOT) != order.preemptible:
            said = str(order.preemptible).lower()
            raise Invalid(f"provider.capacity is {chosen}, but the group has preemptible: {said}; they must agree")
        return chosen


class TpuSettings(_Settings):
    """A group of Cloud TPU slices."""

    runtime_version: Text | None = None
    valid_until_seconds: Annotated[Seconds, Field(gt=0)] | None = Field(default=None, alias="valid_until")


class ComputeSettings(_Settings):
    """A group of Compute Engine machines."""

    image: Text
    machine_type: Text | None = None
    disk_bytes: Annotated[Bytes, Field(ge=10 << 30)] = Field(default=DEFAULT_DISK_BYTES, alias="disk")
    disk_type: Text | None = None
    placement_policy: Text | None = None
    max_run_seconds: Annotated[Seconds, Field(ge=30)] | None = Field(default=None, alias="max_run_duration")
    valid_until_seconds: Annotated[Seconds, Field(ge=90, le=DEFAULT_QUEUE_SECONDS)] = Field(
        default=DEFAULT_QUEUE_SECONDS, alias="valid_until"
    )


def read(model: type[S], given: Mapping[str, JsonValue]) -> S:
    """The settings, or `Invalid` with everything that is wrong with them and how to mend it."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        told = "; ".join(_told(detail, model) for detail in error.errors(include_url=False, include_input=False))
        raise Invalid(f"the group's provider cannot be used: {told}") from None


def _told(detail: Any, model: type[Connection]) -> str:
    """One mistake. What was given is left out: it may be a secret that was written where its place belongs."""
    where = ".".join(str(part) for part in ("provider", *detail["loc"]))
    if detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1:
        known = [field.alias or name for name, field in model.model_fields.items()]
        close = get_close_matches(str(detail["loc"][0]), known, n=1)
        return f"{where}: unknown key; " + (f"did you mean {close[0]}?" if close else f"known keys: {', '.join(sorted(known))}")
    if detail["type"] == "missing":
        return f"{where}: is missing; add it"
    return f"{where}: {detail['ctx']['error'] if detail['type'] == 'value_error' else detail['msg']}"
