"""Read the text of a file or of standard input, bounded: a device has no end, and a pipe may have nobody who writes."""

import os
import select
import stat
import sys
from pathlib import Path

LARGEST_FILE = 100_000_000
"""Bytes of one file: a hundred thousand tasks take a fifth of that."""
WRITER_SECONDS = 10.0
"""How long to wait for a program that writes into a named pipe."""


class TooLarge(OSError):
    """The file does not end soon enough."""

    def __str__(self) -> str:
        return f"it has more than {LARGEST_FILE // 1_000_000} MB"


class NoWriter(OSError):
    """Nothing came through a pipe."""

    def __str__(self) -> str:
        return f"it is a pipe into which nothing was written for {WRITER_SECONDS:g}s"


def read_text(path: Path) -> str:
    """The text of a file in UTF-8; raises `OSError` or `UnicodeDecodeError`."""
    if not path.exists() or not stat.S_ISFIFO(path.stat().st_mode):
        with path.open("rb") as file:
            return _bounded(file.read(LARGEST_FILE + 1))
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not select.select([descriptor], [], [], WRITER_SECONDS)[0]:
            raise NoWriter
        os.set_blocking(descriptor, True)
        return _bounded(file.read(LARGEST_FILE + 1))


def read_standard_input() -> str:
    """The text of standard input; raises `OSError` or `UnicodeDecodeError`."""
    return _bounded(sys.stdin.buffer.read(LARGEST_FILE + 1))


def _bounded(content: bytes) -> str:
    if len(content) > LARGEST_FILE:
        raise TooLarge
    return content.decode("utf-8")
