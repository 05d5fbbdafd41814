"""What a process made by a fork (os.fork, multiprocessing) does before anything else runs in it.

Only the thread that forked lives on in the child.  A lock that another one held stays locked there for ever, and what
it guards stays as it was in the middle of a call; so whoever has such a lock is watched, and puts another in its place.
Python's own locks of modules nobody can replace: a fork waits until no other thread is importing a part of futad, which
is done where it is first needed, mostly by a first call.
"""

from __future__ import annotations

import importlib
import itertools
import os
import threading
import time
import weakref
from typing import Protocol


class Forked(Protocol):
    """Something that has a lock."""

    def forked(self) -> None:
        """In the child: if the lock is held, have a new one, and new state in place of what it guards."""


_watched: weakref.WeakValueDictionary[int, Forked] = weakref.WeakValueDictionary()
_count = itertools.count()


def watch(owner: Forked) -> None:
    """From now on call `owner.forked()` in every child, as long as the owner lives.

    Owners are called in the order in which they were watched: one made of others finds those as they should be.
    """
    _watched[next(_count)] = owner


def is_held(lock: threading.Lock) -> bool:
    """Whether a thread has the lock.  `lock.locked()` does not know yet of one that has just come by it by waiting."""
    if lock.acquire(blocking=False):
        lock.release()
        return False
    return True


_PATIENCE = 10.0  # seconds for an import by another thread


def _imported_by_others() -> bool:
    """Whether another thread holds the lock of a module of futad's."""
    held = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})
    own = threading.get_ident()
    locks = [ref() for name, ref in list(held.items()) if name.partition(".")[0] == "futad"]
    return any(getattr(lock, "owner", None) not in (None, own) for lock in locks)


def _to_fork() -> None:
    end = time.monotonic() + _PATIENCE
    while _imported_by_others() and time.monotonic() < end:
        time.sleep(0.001)


def _forked() -> None:
    for _, owner in sorted(_watched.items()):
        owner.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_to_fork, after_in_child=_forked)
