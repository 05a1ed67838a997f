"""Run a command that the kernel kills when its parent dies: `python die_with_parent.py PARENT_PID COMMAND…`."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""From <linux/prctl.h>: the signal that a process gets when its parent dies, for any reason. It survives exec."""


def main() -> None:
    """Request SIGKILL on the parent's death, then exec the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # The parent died before prctl took effect.
        sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 - the command is the caller's own


if __name__ == "__main__":
    main()
