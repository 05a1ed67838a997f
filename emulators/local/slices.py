"""Slices of local hosts: what is asked for, what is on record, and the phase that follows from it."""

import shutil
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field

from emulators.local.processes import Process
from emulators.sim.cloud import Phase, Refusal, Request, Resource
from penstock.model.value import Value

SHELL = "/bin/sh"
_INHERITED = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
"""What hosts get of the daemon's environment. The rest is its own: it may hold credentials that no host should see."""
_LABELS = {"PENSTOCK_CLUSTER": "penstock-cluster", "PENSTOCK_GROUP": "penstock-group", "PENSTOCK_SLICE": "penstock-slice"}


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain a NUL character")
    return text


Argument = Annotated[str, AfterValidator(_without_nul)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class LocalRequest(Request):
    """What a create call asks for: as of the simulated cloud, and what each host runs."""

    command: Argument | Annotated[tuple[Argument, ...], Field(min_length=1)]
    """A program and its arguments, or a line for the shell."""
    env: dict[Variable, Argument] = Field(default_factory=dict)

    @property
    def plain(self) -> Request:
        """The part that every cloud judges."""
        return Request.model_validate(self.model_dump(include=set(Request.model_fields)))

    @property
    def program(self) -> tuple[str, ...]:
        """What to execute."""
        return (SHELL, "-c", self.command) if isinstance(self.command, str) else self.command


class LocalHost(Value):
    """One host: its process, and the port of its health check."""

    process: Process
    port: int


class Slice(Value):
    """A slice on record: the resource, what it runs, its hosts once they are begun, and how far they are.

    Variables are forgotten as soon as the hosts have them: some are secrets.
    """

    resource: Resource
    program: tuple[str, ...]
    env: dict[str, str]
    hosts: tuple[LocalHost, ...] = ()
    started: bool = False
    """Every host was begun, put on record and let go."""
    ended: bool = False
    """Every process was seen to be gone, after the slice was given up."""

    @property
    def name(self) -> str:
        """The name of the resource."""
        return self.resource.name

    @property
    def leaving(self) -> bool:
        """Whether its processes are to end: it was taken away or deleted."""
        return self.resource.gone_at is not None or self.resource.preempted_at is not None

    @property
    def waits_for_start(self) -> bool:
        """Whether its hosts are to be begun."""
        return self.resource.booting_at is not None and not self.started and not self.leaving

    def phase(self, now: datetime) -> Phase:
        """What the resource's moments say, but for what the processes have yet to catch up with."""
        phase = self.resource.phase(now)
        if phase is Phase.GONE and not self.ended:
            return Phase.DELETING
        return Phase.CREATING if phase in (Phase.BOOTING, Phase.RUNNING) and not self.started else phase


def environment_of(held: Slice, host: int, own: Mapping[str, str]) -> dict[str, str]:
    """The environment of a host: a little of the daemon's `own`, what was asked for, and who the host is."""
    inherited = {name: own[name] for name in _INHERITED if name in own}
    labels = {variable: held.resource.labels.get(label, "") for variable, label in _LABELS.items()}
    return inherited | held.env | labels | {"PENSTOCK_HOST": str(host)}


def refuse_missing_program(asked: LocalRequest, own: Mapping[str, str]) -> None:
    """Refuse a program that is not on this machine, which no repetition would mend."""
    path = asked.env.get("PATH", own.get("PATH"))
    if shutil.which(asked.program[0], path=path) is None:
        raise Refusal(400, "INVALID", f"command: there is no program {asked.program[0]!r} on this machine")
