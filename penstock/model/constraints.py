"""Constraints on a group's attributes: hard ones exclude groups, soft ones rank them."""

from enum import StrEnum
from functools import cached_property
from math import inf, isfinite
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from penstock.model.value import JsonSchema, Value
from penstock.wording import shortened

LONGEST_TEXT = 200
"""Characters of the name or value of an attribute: reasons quote them."""


def _plain(value: Any) -> Any:
    """Refuse in one sentence what no member of the union takes."""
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise ValueError(f"has {len(value)} characters, the limit is {LONGEST_TEXT}; shorten it")
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} is not a finite number; write a number, or a text in quotes")
    if not isinstance(value, bool | int | float | str):
        raise ValueError(f"should be a text, a number, or true or false, not {shortened(repr(value), 60)}")
    return value


Scalar: TypeAlias = Annotated[bool | int | float | str, BeforeValidator(_plain)]
AttributeName = Annotated[str, Field(max_length=LONGEST_TEXT)]


class Operator(StrEnum):
    """How an attribute is compared with the values of a constraint."""

    EQ = "eq"
    NE = "ne"
    IN = "in"
    NOT_IN = "not_in"
    EXISTS = "exists"
    NOT_EXISTS = "not_exists"
    GT = "gt"
    GE = "ge"
    LT = "lt"
    LE = "le"


_UNARY = (Operator.EXISTS, Operator.NOT_EXISTS)
_LISTS = (Operator.IN, Operator.NOT_IN)
_NUMERIC = (Operator.GT, Operator.GE, Operator.LT, Operator.LE)
_SYMBOL = {Operator.EQ: "=", Operator.NE: "≠", Operator.GT: ">", Operator.GE: "≥", Operator.LT: "<", Operator.LE: "≤"}


def as_text(value: Scalar) -> str:
    """The text by which values are compared: true, 4, us-west4-a."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def as_number(value: Scalar) -> float | None:
    """The value as a number; None if it is not numeric. An integer that no float can hold is infinite."""
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return inf if int(value) > 0 else -inf
    except ValueError:
        return None


class Constraint(Value):
    """An attribute, an operator, and a value or values. A `soft` constraint ranks groups instead of excluding them."""

    attribute: AttributeName
    op: Operator
    values: tuple[Scalar, ...] = ()
    soft: bool = False

    @model_validator(mode="before")
    @classmethod
    def _accept_single_value(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "value" not in data:
            return data
        if "values" in data:
            raise ValueError("give either value or values, not both")
        return {key: item for key, item in data.items() if key != "value"} | {"values": (data["value"],)}

    @classmethod
    def _shorthand(cls, described: JsonSchema) -> None:
        described["properties"]["value"] = described["properties"]["values"]["items"]

    @model_validator(mode="after")
    def _check_number_of_values(self) -> "Constraint":
        if self.op in _UNARY and self.values:
            raise ValueError(f"{self.op} takes no value; remove {self.values[0]!r}")
        if self.op in _LISTS and not self.values:
            raise ValueError(f"{self.op} needs at least one of values")
        if self.op not in _UNARY + _LISTS and len(self.values) != 1:
            raise ValueError(f"{self.op} takes exactly one value, not {len(self.values)}")
        if self.op in _NUMERIC and as_number(self.values[0]) is None:
            raise ValueError(f"{self.op} compares numbers; {self.values[0]!r} is not a number")
        return self

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Hashable key, equal for equivalent constraints. `true` and `1` are different values."""
        return (self.attribute, self.op, tuple(as_text(value) for value in self.values), self.soft)

    def holds(self, attributes: dict[str, Scalar]) -> bool:
        """Whether the attributes satisfy the constraint. A missing attribute is unequal to every value."""
        actual = attributes.get(self.attribute)
        if self.op in _UNARY:
            return (actual is not None) == (self.op is Operator.EXISTS)
        if self.op in _NUMERIC:
            return actual is not None and self._compares(actual)
        listed = actual is not None and as_text(actual) in {as_text(value) for value in self.values}
        return listed == (self.op in (Operator.EQ, Operator.IN))

    def _compares(self, actual: Scalar) -> bool:
        left, right = as_number(actual), as_number(self.values[0])
        if left is None or right is None:
            return False
        return {
            Operator.GT: left > right,
            Operator.GE: left >= right,
            Operator.LT: left < right,
            Operator.LE: left <= right,
        }[self.op]

    def __str__(self) -> str:
        if self.op in _UNARY:
            return f"{self.attribute} {'exists' if self.op is Operator.EXISTS else 'does not exist'}"
        if self.op is Operator.NOT_IN:
            return f"{self.attribute} not in {', '.join(as_text(value) for value in self.values)}"
        values = " or ".join(as_text(value) for value in self.values)
        if self.op is Operator.IN:
            return f"{self.attribute} = {values}"
        return f"{self.attribute} {_SYMBOL[self.op]} {values}"
