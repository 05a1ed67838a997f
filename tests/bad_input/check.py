"""Give generated input to the readers, the core and the command, and return what went wrong, if anything."""

import json
import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from unittest.mock import patch

from penstock.cli.failures import EXIT_STATUS, EXIT_UNEXPECTED, EXIT_UNMET
from penstock.cli.main import SECTIONS
from penstock.client.demand_messages import as_demand
from penstock.client.errors import ClientError
from penstock.contract.problems import BadMessage
from penstock.core.answers.evaluate import evaluate
from penstock.core.answers.status import status_of
from penstock.core.state.apply import apply, replay
from penstock.core.state.events import ConfigApplied
from penstock.core.state.signals import read_signal
from penstock.core.state.state import AutoscalerState
from penstock.model.cluster import ClusterConfig
from penstock.model.slices import Slice
from tests.bad_input.generate import (
    CLUSTER,
    MESSAGES,
    SLICES,
    TASKS,
    as_json,
    as_yaml,
    command_line,
    document,
    message,
)
from tests.cli.running import in_process
from workflows.queries import QueryAnswers

WEDGED_SECONDS = 20.0
"""Input that takes longer has wedged its reader; it takes milliseconds, on a busy machine a second."""
_STATUSES = {0, EXIT_UNMET, *EXIT_STATUS.values()} - {EXIT_UNEXPECTED}
_LONGEST_LINE = 1100
"""Characters of one line of an error."""
_MOST_LINES = 130
"""Lines of errors: those of three files with thirty problems each, and warnings."""
_AT = datetime(2026, 11, 17, 5, tzinfo=UTC)
_UPDATES = ("submit_demand", "apply_config", "request_capacity", "drain_slice", "cancel_drain", "clear_block")
_UPDATES_WITHOUT_SUBJECT = ("pause", "resume", "close")


class Finding(NamedTuple):
    """Input that was not answered in words: what happened, the seed of the case, and the input."""

    what: str
    seed: str
    given: str


class Wedged(BaseException):
    """A case took too long. No `Exception`, because readers turn those into refusals."""


Check = Callable[[random.Random, Path], str | None]


def findings(kind: str, seed: int, count: int, folder: Path) -> Iterator[Finding]:
    """The findings of `count` cases of one kind."""
    check = CHECKS[kind]
    for i in range(count):
        name = f"{kind} {seed} {i}"
        try:
            with _bounded():
                wrong = check(random.Random(name), folder)
        except Wedged:
            wrong = f"wedged: {WEDGED_SECONDS:.0f} s without an answer"
        except Exception as error:
            wrong = "".join(traceback.format_exception(error)[-3:])
        if wrong is not None:
            yield Finding(wrong, name, _shown.get("given", ""))


_shown: dict[str, str] = {}
"""The input of the case that runs, for its finding."""


def _showing(given: object) -> None:
    _shown["given"] = repr(given)[:2000]


@contextmanager
def _bounded() -> Iterator[None]:
    def wedged(_number: int, _frame: FrameType | None) -> None:
        raise Wedged

    before = signal.signal(signal.SIGALRM, wedged)
    signal.setitimer(signal.ITIMER_REAL, WEDGED_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def check_files(rng: random.Random, folder: Path) -> str | None:
    """`penstock plan` with one or several bad files: placed, unmet, or bad input with a line for each problem."""
    paths = {}
    for kind, valid in (("cluster", CLUSTER), ("demand", TASKS), ("slices", SLICES)):
        data = document(rng, valid) if rng.random() < 0.5 else valid
        is_json = rng.random() < 0.5
        paths[kind] = folder / f"{kind}.{'json' if is_json else 'yaml'}"
        paths[kind].write_bytes((as_json if is_json else as_yaml)(rng, data))
    _showing({kind: path.read_bytes()[:600] for kind, path in paths.items()})
    options = rng.choice([[], ["--json"], ["--explain", "t/3"]])
    return _run_command("plan", str(paths["cluster"]), str(paths["demand"]), "--slices", str(paths["slices"]), *options)


def check_messages(rng: random.Random, _folder: Path) -> str | None:
    """Several signals and updates, one after the other: each is applied or refused in words, and the state stays usable."""
    state = _first_state()
    for _ in range(3):
        name = rng.choice(list(MESSAGES)) if rng.random() < 0.97 else rng.choice(["", "x", "a" * 100_000, "__init__"])
        raw = as_json(rng, message(rng, name)) if rng.random() < 0.97 else rng.randbytes(20)
        _showing((name, raw[:1500]))
        read = _after_update if name in _UPDATES + _UPDATES_WITHOUT_SUBJECT else _after_signal
        state, wrong = read(state, name, raw)
        if wrong is not None:
            return wrong
    return _unusable(state)


def check_client(rng: random.Random, _folder: Path) -> str | None:
    """Tasks as Python values, for the client: demand, or an error that says what is wrong."""
    tasks = document(rng, TASKS)
    _showing(tasks)
    if not isinstance(tasks, list):
        return None
    try:
        as_demand(tasks).model_dump_json()
    except (BadMessage, ClientError):
        return None
    return None


def check_commands(rng: random.Random, folder: Path) -> str | None:
    """A command line with wrong arguments: a documented exit status, and an error of bounded length."""
    words = command_line(rng, _commands(), _files(folder))
    if words[:1] == ["completion"] or "--watch" in words:
        return None
    _showing(words)
    return _run_command(*words)


CHECKS: dict[str, Check] = {
    "files": check_files,
    "messages": check_messages,
    "tasks of the client": check_client,
    "command lines": check_commands,
}


def _first_state() -> AutoscalerState:
    slices = tuple(Slice(id=id_, group=id_[:-2], state="READY", since=_AT) for id_ in ("cpu-1", "cpu-2", "v5e-1"))
    return replay([ConfigApplied(at=_AT, config=ClusterConfig.model_validate(CLUSTER))], AutoscalerState(slices=slices))


def _after_signal(state: AutoscalerState, name: str, raw: bytes) -> tuple[AutoscalerState, str | None]:
    events = read_signal(state, name, raw, _AT)
    for event in events:
        problem = getattr(event, "problem", "")
        if problem.startswith("cannot be used"):
            return state, problem
        state = apply(state, event)
    return state, None


def _after_update(state: AutoscalerState, name: str, raw: bytes) -> tuple[AutoscalerState, str | None]:
    answers = QueryAnswers("any")
    try:
        events, answer_in = answers.checked(state, name, raw, _AT)
    except BadMessage as bad:
        return state, None if 0 < len(str(bad)) <= _LONGEST_LINE else f"a refusal of {len(str(bad))} characters"
    for event in events:
        state = apply(state, event)
    answer_in(state).model_dump_json()
    return state, None


def _unusable(state: AutoscalerState) -> str | None:
    """What is wrong with a state: it must be carried on, shown and decided on."""
    carried = AutoscalerState.model_validate_json(state.model_dump_json())
    if carried.model_dump_json() != state.model_dump_json():
        return "the state changes when it is carried to the next run"
    status_of(state).model_dump_json()
    if state.config is not None:
        evaluate(state, now=_AT, chance=lambda: "0" * 8).orders.model_dump_json()
    return None


def _run_command(*words: str) -> str | None:
    def end(status: int) -> None:
        raise SystemExit(status)

    with patch("penstock.cli.connect.finish", end):  # The real one ends this process.
        done = in_process(*words, TEMPORAL_ADDRESS="127.0.0.1:9", PENSTOCK_SIM_URL="http://127.0.0.1:9")
    if done.returncode not in _STATUSES:
        return f"exit status {done.returncode}: {(done.stdout + done.stderr)[-1500:]}"
    lines = done.stderr.splitlines()
    if "Traceback" in done.stderr or len(lines) > _MOST_LINES or max(map(len, lines), default=0) > _LONGEST_LINE:
        return f"an error of {len(lines)} lines, the longest {max(map(len, lines))} characters: {done.stderr[:500]}"
    if _asks_for_json(words) and done.returncode == 2 and done.stdout:
        json.loads(done.stdout)
    return None


def _asks_for_json(words: Sequence[str]) -> bool:
    """Whether `--json` is an option here, and not the value of the one before, as in `--explain --json`."""
    return any(word == "--json" and not before.startswith("--") for before, word in pairwise(("", *words)))


def _commands() -> tuple[tuple[str, ...], ...]:
    listed: list[tuple[str, ...]] = [(name,) for section in SECTIONS.values() for name in section]
    for group, subcommands in (
        ("demand", "submit show clear"),
        ("config", "apply diff show"),
        ("sim", "show set list preempt admit"),
    ):
        listed += [(group, each) for each in subcommands.split()]
    return ((), *listed, ("plan", "examples/cluster.yaml", "examples/demand.json"))


def _files(folder: Path) -> tuple[str, ...]:
    bad = folder / "bad.yaml"
    bad.write_text("cluster: demo\ngroups: {x: 1}\n")
    return ("examples/cluster.yaml", "examples/demand.json", "examples/slices.yaml", str(bad), str(folder), "nowhere.yaml", "-")


def timed(kind: str, seed: int, count: int, folder: Path) -> tuple[list[Finding], float]:
    """The findings, and the seconds that all cases took."""
    began = time.monotonic()
    return list(findings(kind, seed, count, folder)), time.monotonic() - began


def describe(found: list[Any]) -> str:
    """The first findings in full."""
    return "\n\n".join(f"{finding.seed}\n{finding.what}\n{finding.given}" for finding in found[:3])
