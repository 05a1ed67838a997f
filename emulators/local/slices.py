"""Slices of local hosts: the create request, the stored record, its phase, and the environment of each host."""

import shutil
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field

from emulators.local.processes import Process
from emulators.sim.cloud import ApiError, Phase, Request, Resource
from penstock.model.value import Value

SHELL = "/bin/sh"
_INHERITED = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
"""Variables of the daemon that hosts inherit. The others may be credentials that hosts must not see."""
_LABELS = {"PENSTOCK_CLUSTER": "penstock-cluster", "PENSTOCK_GROUP": "penstock-group", "PENSTOCK_SLICE": "penstock-slice"}


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain a NUL character")
    return text


Argument = Annotated[str, AfterValidator(_without_nul)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class LocalRequest(Request):
    """Body of a create call: that of the simulated cloud, and the command and variables of each host."""

    command: Argument | Annotated[tuple[Argument, ...], Field(min_length=1)]
    """A program with its arguments, or a line for the shell."""
    env: dict[Variable, Argument] = Field(default_factory=dict)

    @property
    def program(self) -> tuple[str, ...]:
        """The program to execute, with its arguments."""
        return (SHELL, "-c", self.command) if isinstance(self.command, str) else self.command


class LocalHost(Value):
    """One host: its process, and the port of its health check."""

    process: Process
    port: int


class LocalSlice(Resource):
    """A stored slice: the resource, its command, and its host processes once they are started.

    The variables are deleted as soon as the hosts have them, because some are secrets.
    """

    program: tuple[str, ...]
    env: dict[str, str]
    local_hosts: tuple[LocalHost, ...] = ()
    started: bool = False
    """Every host is started, stored and released."""
    ended: bool = False
    """The slice was preempted or deleted, and no process of it is left."""

    @property
    def leaving(self) -> bool:
        """Whether its processes must stop, because it was preempted or deleted."""
        return self.gone_at is not None or self.preempted_at is not None

    @property
    def waits_for_start(self) -> bool:
        """Whether its hosts must be started."""
        return self.booting_at is not None and not self.started and not self.leaving

    def phase(self, now: datetime) -> Phase:
        """The phase of the resource, held back until the processes have followed."""
        phase = super().phase(now)
        if phase is Phase.GONE and not self.ended:
            return Phase.DELETING
        return Phase.CREATING if phase in (Phase.BOOTING, Phase.RUNNING) and not self.started else phase


def environment_of(piece: LocalSlice, host: int, daemon: Mapping[str, str]) -> dict[str, str]:
    """The environment of a host: some variables of the daemon, those of the request, and the host's identity."""
    inherited = {name: daemon[name] for name in _INHERITED if name in daemon}
    labels = {variable: piece.labels.get(label, "") for variable, label in _LABELS.items()}
    return inherited | piece.env | labels | {"PENSTOCK_HOST": str(host)}


def check_program(request: LocalRequest, daemon: Mapping[str, str]) -> None:
    """Refuse a program that is not on this machine; a retry would fail again."""
    path = request.env.get("PATH", daemon.get("PATH"))
    if shutil.which(request.program[0], path=path) is None:
        raise ApiError(400, "INVALID", f"command: there is no program {request.program[0]!r} on this machine")
