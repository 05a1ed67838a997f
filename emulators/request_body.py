"""Parse the JSON body of an HTTP request into a model; `InvalidBody` says which field is wrong."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from aiohttp import web
from pydantic import ValidationError

from penstock.config.problems import problems_of
from penstock.contract.problems import path_text
from penstock.model.value import Value

T = TypeVar("T", bound=Value)
Explain = Callable[[ValidationError, type[Value]], str]


class InvalidBody(Exception):
    """The body is not JSON, or does not fit the model."""


def with_values(error: ValidationError, model: type[Value]) -> str:
    """Every problem with its path, the given value and a hint."""
    return "; ".join(f"{problem.path}: {problem.message}" for problem in problems_of(error, model, "body", {}))


def without_values(error: ValidationError, _: type[Value]) -> str:
    """Every problem with its path but without the given values, which may be secrets."""
    found: list[Any] = list(error.errors(include_input=False))
    return "; ".join(f"{path_text(each['loc'])}: {each['msg']}" for each in found)


async def read_body(request: web.Request, model: type[T], *, explain: Explain = with_values) -> T:
    """The body as an instance of the model; raises `InvalidBody`."""
    try:
        return model.model_validate(await request.json())
    except json.JSONDecodeError as error:
        raise InvalidBody(f"the body is not JSON: {error}") from None
    except ValidationError as error:
        raise InvalidBody(explain(error, model)) from None
