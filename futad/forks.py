"""What a process made by a fork (os.fork, multiprocessing) does before anything else runs in it.

Only the thread that forked lives on in the child.  A lock that another one held stays locked there for ever, and what
it guards stays as it was in the middle of a call; so whoever has such a lock is watched, and puts another in its place.
"""

from __future__ import annotations

import itertools
import os
import threading
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


def _forked() -> None:
    for _, owner in sorted(_watched.items()):
        owner.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
