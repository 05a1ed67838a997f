"""Run a command that does not outlive its parent: `python tether.py PARENT COMMAND…`, in the command's own process."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""From <linux/prctl.h>: the signal a process gets when its parent dies, whatever it died of. It survives exec."""


def main() -> None:
    """Ask the kernel for SIGKILL when the parent is gone, then become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # It died before the kernel was asked.
        sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 - the command is the caller's own


if __name__ == "__main__":
    main()
