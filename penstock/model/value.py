"""Base classes of public values and wire messages: frozen pydantic models."""

from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic_core import CoreSchema

JsonSchema: TypeAlias = dict[str, Any]


class Value(BaseModel):
    """A frozen value that rejects unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=False, serialize_by_alias=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        """The JSON schema of the value, and of its shorthand if it has one."""
        described = handler(core_schema)
        short = cls._shorthand(handler.resolve_ref_schema(described))
        return described if short is None else {"anyOf": [short, described]}

    @classmethod
    def _shorthand(cls, described: JsonSchema) -> JsonSchema | None:
        """The schema of the shorthand, if there is one. An override may also amend `described`, the schema of the full form."""
        return None


class WireMessage(Value):
    """Base of messages between workflows. Unknown fields are ignored, so old and new workers run side by side in a rollout."""

    model_config = Value.model_config | {"extra": "ignore"}
