"""The base of every public value: frozen, and strict about keys it does not know."""

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """A frozen value that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=False, serialize_by_alias=True)
