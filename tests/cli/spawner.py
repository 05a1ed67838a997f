"""A process that has imported what commands need, and forks one for each of them: importing takes most of a command's time.

Each command is a process of its own all the same, with its own environment, directory and streams, as its exit status shows.
"""

import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import penstock.cli
import penstock.client
import penstock.connection
from penstock.cli.main import main

STREAMS = 3
"""Standard input, output and error come with each order."""
_BROKEN = 70
"""The exit status of a command that raised an exception. That of the interpreter is one of the command's own."""


def serve(address: str) -> None:
    """Take orders until the standard input ends, as it does when the tests' process is gone."""
    for module in pkgutil.iter_modules(penstock.cli.__path__):
        importlib.import_module(f"penstock.cli.{module.name}")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Nothing waits for the guardians.
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        gc.freeze()
        print("ready", flush=True)  # noqa: T201 - what the tests wait for
        while True:
            readable, _, _ = select.select([listening, sys.stdin], [], [])
            if sys.stdin in readable:
                return
            connection, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _guard(connection)
            connection.close()


def _guard(connection: socket.socket) -> NoReturn:
    """Run one command in a child, and answer with its process id, then with its exit status."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _, streams, _, _ = socket.recv_fds(connection, 1, STREAMS)
        with connection.makefile("rw") as orders:
            order = json.loads(orders.readline())
            command = os.fork()
            if command == 0:
                _run(order, streams)
            print(command, file=orders, flush=True)
            _, status = os.waitpid(command, 0)
            print(os.waitstatus_to_exitcode(status), file=orders, flush=True)
    finally:
        os._exit(0)  # Whatever happened: what takes orders is the parent.


def _run(order: dict[str, Any], streams: list[int]) -> NoReturn:
    """What the installed program does, in the environment and directory of the order."""
    status = _BROKEN
    try:
        _settle(order, streams)
        main(prog_name="penstock")
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _settle(order: dict[str, Any], streams: list[int]) -> None:
    """Take over the streams, the directory, the environment and the arguments of the order."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(STREAMS, 256)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - until the process ends
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    sys.argv = ["penstock", *order["arguments"]]


if __name__ == "__main__":
    serve(str(Path(sys.argv[1])))
