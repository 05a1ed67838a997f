"""Answer the queries of an autoscaler as its workflow does, from raw arguments; and what a refusal of them must say."""

import json
from collections.abc import Callable
from datetime import datetime

from pydantic import BaseModel

from penstock.contract import names
from penstock.contract.messages import DecisionRequest, ExplainRequest, ExplainSliceRequest, SlicesRequest, StatusRequest
from penstock.contract.problems import read
from penstock.core.answers.status import status_of
from penstock.core.state.state import AutoscalerState
from workflows.queries import QueryAnswers

REQUESTS: dict[str, type[BaseModel]] = {
    names.STATUS: StatusRequest,
    names.DECISION: DecisionRequest,
    names.EXPLAIN: ExplainRequest,
    names.EXPLAIN_SLICE: ExplainSliceRequest,
    names.SLICES: SlicesRequest,
}
_ANSWERS: dict[str, Callable[..., BaseModel]] = {
    names.STATUS: lambda _, state, request, now: status_of(state, request.since, now=now),
    names.DECISION: lambda answers, state, _, now: answers.decision(state, now),
    names.EXPLAIN: lambda answers, state, request, now: answers.explanation(state, request.task_id, now),
    names.EXPLAIN_SLICE: lambda answers, state, request, now: answers.slice_explanation(state, request.slice_id, now),
    names.SLICES: lambda answers, state, request, now: answers.page(state, request, now),
}


def answer_of(answers: QueryAnswers, state: AutoscalerState, name: str, raw: bytes, now: datetime) -> BaseModel:
    """The answer of a query; raises `BadMessage` if the argument is invalid."""
    return _ANSWERS[name](answers, state, read(REQUESTS[name], raw or b"{}"), now)


def unnamed(name: str, raw: bytes, problem: str) -> str | None:
    """What is wrong with a refusal: it must begin with the field, or with what an argument should be."""
    try:
        data = json.loads(raw.decode())
    except ValueError:  # No JSON, so it has no fields.
        return None
    fields = {*REQUESTS[name].model_fields, *(data if isinstance(data, dict) else ())}
    begins = ("should be an object", "Invalid JSON", *(f"{field[:100]}" for field in fields))
    return None if problem.startswith(begins) else f"a refusal that names no field: {problem}"


def misread(name: str, raw: bytes) -> str | None:
    """What an accepted argument says other than what was written."""
    request, data = read(REQUESTS[name], raw or b"{}"), json.loads(raw.decode() or "{}")
    for field, value in (data if isinstance(data, dict) else {next(iter(REQUESTS[name].model_fields)): data}).items():
        means = getattr(request, field)
        if not _says(value, means):
            return f"{field}: {value!r} was read as {means!r}"
    return None


def _says(written: object, means: object) -> bool:
    if isinstance(written, bool) or isinstance(means, bool):
        return written is means
    if isinstance(means, int):
        return isinstance(written, int | float | str) and float(written) == means
    return means == written or means == str(written).upper()
