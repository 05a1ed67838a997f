"""A location: one zone of one account of a provider, and the key that names it within a cluster."""

from pydantic import Field, JsonValue

from penstock.model.value import Value


def location_key(account: str, name: str) -> str:
    """The key of a location within its cluster: `account/name`."""
    return f"{account}/{name}"


class Location(Value):
    """Where slices are created and listed, and the provider settings that reach it."""

    provider: str
    """The provider's kind."""
    account: str
    name: str
    """The zone, or `anywhere`."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def key(self) -> str:
        """Its key within the cluster."""
        return location_key(self.account, self.name)
