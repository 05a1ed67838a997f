"""A location: one zone of one account of a provider, with the settings that reach it."""

from pydantic import Field, JsonValue

from penstock.model.value import WireMessage


class Location(WireMessage):
    """Where slices are created and listed."""

    provider: str
    """The provider's kind."""
    account: str
    name: str
    """The zone, or `anywhere`."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    """The keys of the group's `provider` other than `kind`."""

    @property
    def key(self) -> str:
        """Its name within the cluster: `account/name`."""
        return f"{self.account}/{self.name}"

    @property
    def identity(self) -> "Location":
        """The location without its settings, for messages that only name it."""
        return self.model_copy(update={"settings": {}}) if self.settings else self
