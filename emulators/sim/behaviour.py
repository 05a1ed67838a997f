"""Behaviour of a zone of the simulated cloud, and the scenario file that sets it for every zone."""

from pathlib import Path

from pydantic import Field, ValidationError

from emulators.behaviour import Quota, ZoneBehaviour
from penstock.config.documents import read_document
from penstock.config.problems import BadInput, problems_of
from penstock.model.units import Positive
from penstock.model.value import Value


class Behaviour(ZoneBehaviour):
    """The shared settings, and those of the simulated cloud alone."""

    quota: Quota | None = None
    creates_per_second: Positive | None = None
    partial_lists: bool = False
    """Lists of the zone are empty and marked as incomplete."""


class Scenario(Value):
    """Behaviour of every zone: the defaults, overridden by the zone's own entry."""

    defaults: Behaviour = Behaviour()
    zones: dict[str, Behaviour] = Field(default_factory=dict)

    def behaviour_of(self, zone: str) -> Behaviour:
        """The defaults, overridden by the keys that the zone's entry sets."""
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
