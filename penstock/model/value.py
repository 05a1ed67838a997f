"""The base of every public value: frozen, and strict about keys it does not know."""

from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic_core import CoreSchema

JsonSchema: TypeAlias = dict[str, Any]


class Value(BaseModel):
    """A frozen value that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=False, serialize_by_alias=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        """The schema of the value, or of a shorter way to write it where there is one."""
        described = handler(core_schema)
        short = cls._shorthand(handler.resolve_ref_schema(described))
        return described if short is None else {"anyOf": [short, described]}

    @classmethod
    def _shorthand(cls, described: JsonSchema) -> JsonSchema | None:
        """The schema of a shorter way to write the value, given the schema of the long one, which may be amended."""
        return None


class WireMessage(Value):
    """Base of messages between workflows. Unknown fields are ignored, so old and new workers run side by side in a rollout."""

    model_config = Value.model_config | {"extra": "ignore"}
