"""Decorator that pauses the garbage collector while a function creates many objects."""

import gc
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def gc_paused(make: Callable[P, T]) -> Callable[P, T]:
    """Pause the garbage collector during a call that creates or walks many objects.

    Most of the objects stay in use, so each collection would free almost nothing. With a hundred thousand tasks the
    collections would take more time than the work itself.
    """

    @wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> T:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return make(*args, **kwargs)
        finally:
            if was_enabled:
                gc.enable()

    return made
