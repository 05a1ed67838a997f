"""A worker with a wrong clock: a small library, preloaded into its process, shifts the time of day that every call returns."""

import shutil
import subprocess
import sys
from pathlib import Path

VARIABLE = "CHAOS_CLOCK_OFFSET"
NO_COMPILER = "clock skew is left out: it needs Linux and a C compiler (cc), and there is none here"
_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long offset(void) {
    static long seconds, known;
    if (!known) {
        const char *text = getenv("CHAOS_CLOCK_OFFSET");
        seconds = text ? atol(text) : 0;
        known = 1;
    }
    return seconds;
}

int clock_gettime(clockid_t id, struct timespec *into) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(id, into);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) into->tv_sec += offset();
    return failed;
}

int gettimeofday(struct timeval *restrict into, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    into->tv_sec = now.tv_sec;
    into->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}
"""


class SkewedClock:
    """The library, compiled in a folder; None without a compiler."""

    def __init__(self, folder: Path) -> None:
        self._library = _compiled(folder)

    @property
    def is_possible(self) -> bool:
        """Whether processes can be given a wrong clock here."""
        return self._library is not None

    def environment(self, offset_seconds: int) -> dict[str, str]:
        """The variables that give a process a clock that is off by so many seconds."""
        if self._library is None or not offset_seconds:
            return {}
        return {"LD_PRELOAD": str(self._library), VARIABLE: str(offset_seconds)}


def _compiled(folder: Path) -> Path | None:
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(_SOURCE)
    made = subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], capture_output=True)
    return library if made.returncode == 0 else None
