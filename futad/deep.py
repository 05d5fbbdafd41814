"""Room for programs that are nested as deeply as text can be: the compiler runs on a stack that is large enough.

The walks over syntax trees and scopes recurse.  A sum of 8,000 terms, or a chain of 5,000 functions, is as many levels
deep, each some frames of Python and, where they go by way of C, of the C stack.  The size of the main thread's stack is
not ours to choose; that of a thread is, and it takes memory only as far as it is used.

Meanwhile Python looks for garbage in cycles less often: what the compiler makes is much, and little of it in such.
"""

from __future__ import annotations

import contextvars
import ctypes
import functools
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

STACKS = (1 << 30, 1 << 28, 1 << 26)  # bytes: the first that the system gives
FRAME = 2600  # bytes of C stack that a frame of Python takes at most
SELDOM = 100_000  # new objects after which Python looks for garbage

_local = threading.local()
_lock = threading.Lock()
_limits: list[int] = []  # of the threads under way
_usual = 0  # the limit when none is
_collecting: tuple[int, int, int] | None = None  # when garbage is looked for then, if that is less seldom
_stack: int | None = None  # the size of other threads' stacks, while one of ours is started


def deep(f: Callable[P, T]) -> Callable[P, T]:
    """The function, run in a thread with a large stack; where the caller is in one already, or there is none, as it is.

    Exceptions come out of it as they would otherwise.  An interrupt stops it.
    """

    @functools.wraps(f)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        if getattr(_local, "deep", False):
            return f(*args, **kwargs)
        for size in STACKS:
            task = _Task(contextvars.copy_context(), functools.partial(f, *args, **kwargs), size // FRAME)
            if (thread := _started(task, size)) is not None:
                return task.result(thread)
        return f(*args, **kwargs)

    return run


class _Task:
    """A call, what came of it, and how deep it may go."""

    def __init__(self, context: contextvars.Context, call: Callable[[], Any], limit: int) -> None:
        self.context, self.call, self.limit = context, call, limit
        self.value: Any = None
        self.error: BaseException | None = None
        self.done = threading.Event()  # an interrupted `join` takes the thread for dead

    def run(self) -> None:
        _local.deep = True
        _recursion(self.limit, True)
        try:
            self.value = self.context.run(self.call)
        except BaseException as e:
            self.error = e
        finally:
            _recursion(self.limit, False)
            self.done.set()

    def result(self, thread: threading.Thread) -> Any:
        """What the call returns or raises, when it has."""
        try:
            self.done.wait()
        except BaseException as e:  # an interrupt: the call gets it
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(type(e)))
            self.done.wait()
            raise
        if self.error is not None:
            raise self.error
        return self.value


def _started(task: _Task, size: int) -> threading.Thread | None:
    """A thread that runs the task; None if there is no such stack."""
    global _stack
    with _lock:
        try:
            _stack = threading.stack_size(size)
        except ValueError:
            return None
        try:
            thread = threading.Thread(target=task.run, name="futad", daemon=True)
            thread.start()
        except (RuntimeError, MemoryError):
            return None
        finally:
            threading.stack_size(_stack)
            _stack = None
    return thread


def _recursion(limit: int, enter: bool) -> None:
    """Python's own limit, which is one for all threads, while such threads run."""
    global _usual
    with _lock:
        if enter and not _limits:
            _usual = sys.getrecursionlimit()
            _collect_seldom()
        _limits.append(limit) if enter else _limits.remove(limit)
        sys.setrecursionlimit(max([_usual, *_limits]))
        if not _limits:
            _collect_as_ever()


def _collect_seldom() -> None:
    global _collecting
    usual = gc.get_threshold()
    if 0 < usual[0] < SELDOM:  # 0: never
        _collecting = usual
        gc.set_threshold(SELDOM, *usual[1:])


def _collect_as_ever() -> None:
    global _collecting
    if _collecting is not None and gc.get_threshold()[0] == SELDOM:  # nobody else has set it since
        gc.set_threshold(*_collecting)
    _collecting = None


@contextmanager
def frames(limit: int) -> Iterator[None]:
    """Room for so many frames of Python that call each other without going by way of C."""
    _recursion(limit, True)
    try:
        yield
    finally:
        _recursion(limit, False)


def _forked() -> None:
    """In a forked child, where the other threads are not: nobody has the lock or starts a thread."""
    global _lock, _stack
    _lock = threading.Lock()
    if _stack is not None:
        threading.stack_size(_stack)
        _stack = None
    if _limits and not getattr(_local, "deep", False):
        _limits.clear()
        sys.setrecursionlimit(_usual)
        _collect_as_ever()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


__all__ = ["deep", "frames"]
