"""Give generated signals, updates and queries to the core as an autoscaler does."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from temporalio.exceptions import ApplicationError

from penstock.contract.problems import BadMessage
from penstock.core.answers.evaluate import evaluate
from penstock.core.answers.status import status_of
from penstock.core.state import inbox, size_limits
from penstock.core.state.apply import apply
from penstock.core.state.inbox import WORK, Received
from penstock.core.state.state import AutoscalerState
from penstock.model.packed import pack
from tests.bad_input.findings import showing
from tests.bad_input.generate import as_json, message, raw_of, swollen
from tests.bad_input.queries import answer_of, misread, unnamed
from tests.bad_input.states import AT, Good, good_messages, states
from tests.bad_input.valid import CONTROLLERS, QUERIES, SIGNALS, UPDATES
from workflows.queries import QueryAnswers

LONGEST_REFUSAL = 1100
"""Characters of one refusal."""
LARGEST_ANSWER = 2_000_000
"""Bytes of an answer that Temporal carries."""
_UNEXPECTED = ("cannot be used", "failed unexpectedly")
"""How the rejection of a message begins that stopped its reader."""
_SMALL = {"LARGEST_DEMAND": 20_000, "LARGEST_NAMES": 2_000, "LARGEST_USAGE": 4_000}
"""Size limits that a few messages reach."""
_STAMPS = 5_000
"""Bytes of sources, beside their tasks."""
_MOST_GROWTH = 20_000
"""Bytes that rejections and the like may add to a state."""


def check_messages(rng: random.Random, _folder: Path) -> str | None:
    """Several signals and updates, one after the other: each is applied or refused in words, and the state stays usable."""
    state = rng.choice(states())
    for _ in range(3):
        name, raw = some_message(rng, rng.choice((SIGNALS, UPDATES)))
        showing((name, raw[:1500]))
        state, wrong = _after_update(state, name, raw) if name in UPDATES else _after_signals(state, [Received(name, raw, AT)])
        if wrong is not None:
            return wrong
    return _unusable(state)


def check_batches(rng: random.Random, _folder: Path) -> str | None:
    """Signals that wait together: good ones have their effect among bad ones, and the state keeps to its size limits."""
    before, small = rng.choice(states()), rng.random() < 0.2
    some = [_swollen_message(rng) if small else some_message(rng, SIGNALS) for _ in range(rng.randint(1, 7))]
    good = () if small else tuple(each for each in good_messages(before) if rng.random() < 0.5)
    sent = [*some, *((each.name, raw_of(each.body)) for each in good)]
    rng.shuffle(sent)
    showing([(name, raw[:300]) for name, raw in sent])
    batch = [Received(name, raw, AT + timedelta(seconds=i)) for i, (name, raw) in enumerate(sent)]
    with patch.dict(vars(size_limits), _SMALL) if small else nullcontext():
        after, wrong = _after_signals(before, batch, work=rng.choice([0, 500, WORK]))
        wrong = wrong or _without_effect(after, good) or (_oversized(before, after) if small else None)
    return wrong or _unusable(after)


def check_queries(rng: random.Random, _folder: Path) -> str | None:
    """Queries with any argument, after some signals: an answer of bounded size, or a refusal that names the field."""
    state, answers = rng.choice(states()), QueryAnswers("any")
    some = [Received(*some_message(rng, SIGNALS), AT) for _ in range(rng.randint(0, 2))]
    state, _ = _after_signals(state, some)
    for _ in range(3):
        name = rng.choice(list(QUERIES))
        raw = as_json(rng, message(rng, QUERIES[name])) if rng.random() < 0.95 else rng.choice([b"", b"null", rng.randbytes(20)])
        showing((name, raw[:1500]))
        wrong = _wrong_answer(rng, answers, state, name, raw)
        if wrong is not None:
            return wrong
    return None


def some_message(rng: random.Random, bodies: Mapping[str, Sequence[Any]]) -> tuple[str, bytes]:
    """The name and the raw body of a message. A few have a name that nobody knows."""
    name = rng.choice(list(bodies)) if rng.random() < 0.97 else rng.choice(["", "x", "a" * 100_000, "__init__", "~signals"])
    if rng.random() < 0.03:
        return name, rng.randbytes(20)
    return name, as_json(rng, message(rng, bodies.get(name) or bodies[rng.choice(list(bodies))]))


def _swollen_message(rng: random.Random) -> tuple[str, bytes]:
    """A signal of a controller, which size limits bound, with far more in it than usual."""
    name = rng.choice(CONTROLLERS)
    return name, raw_of(swollen(rng, rng.choice(SIGNALS[name])))


@contextmanager
def _noting(raised: list[Exception]) -> Iterator[None]:
    """Note what stops a batch: its messages are then read one by one, which hides it."""
    coalesced = inbox._coalesced

    def watched(*arguments: Any) -> Any:
        try:
            return coalesced(*arguments)
        except Exception as error:
            raised.append(error)
            raise

    with patch.object(inbox, "_coalesced", watched):
        yield


def _after_signals(state: AutoscalerState, batch: Sequence[Received], *, work: int = WORK) -> tuple[AutoscalerState, str | None]:
    """The state after a batch, read as an autoscaler reads it; and what was wrong: no message may stop its reader."""
    raised: list[Exception] = []
    rejected = state.rejected
    with _noting(raised):
        while batch:
            state, count, _ = inbox.read_batch(state, batch, work=work)
            if count < 1:
                return state, "a batch without messages"
            batch = batch[count:]
    found = [each.problem for each in state.rejected if each not in rejected and each.problem.startswith(_UNEXPECTED)]
    return state, found[0] if found else f"a batch was stopped: {raised[0]!r}" if raised else None


def _after_update(state: AutoscalerState, name: str, raw: bytes) -> tuple[AutoscalerState, str | None]:
    answers = QueryAnswers("any")
    try:
        events, answer_in = answers.checked(state, name, raw, AT)
    except BadMessage as bad:
        return state, None if 0 < len(str(bad)) <= LONGEST_REFUSAL else f"a refusal of {len(str(bad))} characters"
    for event in events:
        state = apply(state, event)
    answer_in(state).model_dump_json()
    return state, None


def _without_effect(after: AutoscalerState, good: Sequence[Good]) -> str | None:
    """What good messages should have done, and did not."""
    lost = [each for each in good if not each.holds(after)]
    return f"without effect: {lost[0].name} {lost[0].body}" if lost else None


def _oversized(before: AutoscalerState, after: AutoscalerState) -> str | None:
    """Which part of the state outgrew its limit."""
    was, now = _sizes(before), _sizes(after)
    limits = {
        "demand": size_limits.LARGEST_DEMAND + _STAMPS,
        "names": size_limits.LARGEST_NAMES,
        "the rest": was["the rest"] + _MOST_GROWTH,
    }
    for part, limit in limits.items():
        if now[part] > max(was[part], limit):
            return f"{part}: {now[part]} bytes are more than {limit}"
    return None


def _sizes(state: AutoscalerState) -> dict[str, int]:
    """Bytes of the demand, of the names of running tasks and gangs, and of all but the demand."""
    tables = [state.usage, *(source.words for source in state.usage_sources.values())]
    hosts = [host for table in tables for hosts in table.values() for host in hosts]
    return {
        "demand": len(state.model_dump_json(include={"demand"})),
        "names": len(pack([name for host in hosts for name in (*host.tasks, *host.gangs)])),
        "the rest": len(state.model_dump_json(exclude={"demand"})),
    }


def _unusable(state: AutoscalerState) -> str | None:
    """What is wrong with a state: it must be carried on, shown and decided on."""
    carried = AutoscalerState.model_validate_json(state.model_dump_json())
    if carried.model_dump_json() != state.model_dump_json():
        return "the state changes when it is carried to the next run"
    status_of(state).model_dump_json()
    if state.config is not None:
        evaluate(state, now=AT, chance=lambda: "0" * 8).orders.model_dump_json()
    return None


def _wrong_answer(rng: random.Random, answers: QueryAnswers, state: AutoscalerState, name: str, raw: bytes) -> str | None:
    """What is wrong with the answer of a query."""
    now = AT + timedelta(seconds=rng.choice([-3600, 0, 1, 10**6]))
    try:
        size = len(answer_of(answers, state, name, raw, now).model_dump_json())
    except BadMessage as bad:
        return unnamed(name, raw, str(bad)) if len(str(bad)) <= LONGEST_REFUSAL else f"a refusal of {len(str(bad))} characters"
    except ApplicationError as refused:
        return None if state.config is None else f"refused: {refused}"
    return misread(name, raw) if size <= LARGEST_ANSWER else f"an answer of {size} bytes"
