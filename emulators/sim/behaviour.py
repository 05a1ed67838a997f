"""How a zone of the simulated cloud behaves, and the scenario file that says so."""

from enum import StrEnum
from pathlib import Path

from pydantic import Field, ValidationError

from penstock.config.documents import read_document
from penstock.config.problems import BadInput, problems_of
from penstock.model.units import Count, Positive, Seconds
from penstock.model.value import Value


class Scope(StrEnum):
    """How far a quota or a permission reaches."""

    ZONE = "zone"
    REGION = "region"
    PROJECT = "project"


class Quota(Value):
    """At most `limit` resources in the whole zone, region or project that the zone belongs to."""

    scope: Scope = Scope.ZONE
    limit: Count


class Behaviour(Value):
    """What a zone does. Unset, it gives everything at once and never fails.

    Latencies hold for what is admitted or deleted from then on. Counters of next calls run down as they are used up.
    """

    create_latency_seconds: Seconds = Field(default=0.0, alias="create_latency")
    boot_latency_seconds: Seconds = Field(default=0.0, alias="boot_latency")
    init_latency_seconds: Seconds = Field(default=0.0, alias="init_latency")
    delete_latency_seconds: Seconds = Field(default=0.0, alias="delete_latency")
    reply_latency_seconds: Seconds = Field(default=0.0, alias="reply_latency")
    """From the moment a create is stored to its reply."""
    capacity: Count | None = None
    """Resources that may be admitted at once; queued orders wait for room, others find a stockout."""
    hold_queue: bool = False
    """Queued orders wait until they are admitted by name, room or not."""
    stockout: bool = False
    stockout_after: Count | None = None
    """Further creates until the zone runs dry."""
    quota: Quota | None = None
    creates_per_second: Positive | None = None
    lost_replies: Count = 0
    """Next creates that are stored and then lose their connection."""
    failing_deletes: Count = 0
    """Next deletes that are answered with 503 and do nothing."""
    partial_lists: bool = False
    """The zone cannot be reached for listing: lists are empty and say that they are incomplete."""
    permission_denied: Scope | None = None
    invalid: bool = False
    """Every create is refused as malformed."""

    @property
    def dry(self) -> bool:
        """Whether there is nothing to give."""
        return self.stockout or self.stockout_after == 0


class Scenario(Value):
    """How every zone behaves: by the defaults, but for what its own entry says."""

    defaults: Behaviour = Behaviour()
    zones: dict[str, Behaviour] = Field(default_factory=dict)

    def behaviour_of(self, zone: str) -> Behaviour:
        """The defaults with what is written for the zone in their place."""
        own = self.zones.get(zone, Behaviour())
        return self.defaults.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})


def load_scenario(path: Path) -> Scenario:
    """Read a scenario file; raises `BadInput` with every mistake, its line and its field."""
    document = read_document(path)
    if not isinstance(document.data, dict):
        raise BadInput([document.problem((), "must be a mapping with defaults and zones")])
    try:
        return Scenario.model_validate(document.data)
    except ValidationError as error:
        raise BadInput(problems_of(error, Scenario, document.file, document.lines)) from None
