"""The end of a process that used the Temporal SDK."""

import os
import sys
from typing import NoReturn


def finish(status: int) -> NoReturn:
    """End the process at once: threads of the Temporal SDK can crash or block an interpreter that shuts down (sdk-python#300)."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        status = status or 1  # The reader of the output has gone.
    os._exit(status)
