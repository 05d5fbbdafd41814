"""Which backend runs a program, and the one interface they share.

A backend turns a core `Program` into an object with `run(name, args) -> results` (see
`docs/architecture.md`).  `auto` takes the first that works here, in the order of `AUTO`.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from futad import forks
from futad.core.ir import Program
from futad.core.measures import Measured
from futad.deep import deep
from futad.errors import BackendError, UsageError, warn
from futad.target import Target, target_of

if TYPE_CHECKING:
    from futad.backend.c import CBackend
    from futad.core.interp import Interpreter
    from futad.rewrite.choices import NestChoice

BACKENDS = ("auto", "interp", "c", "multicore", "cuda", "emulated")
AUTO = ("cuda", "multicore", "c", "interp")
DEVICES = ("cuda", "emulated")


class Executor(Protocol):
    """A compiled program.  `fresh`: results share memory neither with arguments nor with each other."""

    fresh: bool

    def run(self, name: str, args: Sequence[Any]) -> Sequence[Any]:
        """Call a function with all its core parameters; its core results."""
        ...

    def measured(self) -> list[Measured]:
        """What the last call told of itself."""
        ...


@runtime_checkable
class Soon(Executor, Protocol):
    """An executor that begins with a quick build."""

    def settled(self) -> Executor:
        """The full one, when it is there."""
        ...


class Interpreted:
    """An interpreter as a backend: one call at a time, as it keeps a call's values; `limit` as of `Interpreter`."""

    fresh = False
    limit: float | None = None

    def __init__(self, program: Program, machine: Callable[[Program], Interpreter] | None = None) -> None:
        from futad.core.interp import Interpreter

        self._make = deep(lambda: (machine or Interpreter)(program))
        self._interpreter = self._make()
        self._lock = threading.Lock()
        forks.watch(self)

    def forked(self) -> None:
        """See `forks.py`."""
        if forks.is_held(self._lock):
            self._interpreter, self._lock = self._make(), threading.Lock()

    def run(self, name: str, args: Sequence[Any]) -> Sequence[Any]:
        """See `Executor`."""
        with self._lock:
            if self.limit is not None:
                self._interpreter.limit = self.limit
            return self._interpreter.run(name, args)

    def measured(self) -> list[Measured]:
        """See `Executor`."""
        with self._lock:
            return self._interpreter.measured()


def check_name(backend: str) -> None:
    """Raises UsageError unless `backend` is one of `BACKENDS`."""
    if not isinstance(backend, str):
        raise UsageError(f"backend must be a str, not {type(backend).__name__}; there are: {', '.join(BACKENDS)}")
    if backend not in BACKENDS:
        raise UsageError(f"no backend is called '{backend}'; there are: {', '.join(BACKENDS)}")


def executor(
    compiled: Callable[[Target], Program],
    backend: str,
    nests: tuple[NestChoice, ...] = (),
    soon: Callable[[CBackend], None] | None = None,
) -> tuple[Executor, str]:
    """A program made ready to run, and the backend that does it.  `compiled` gives the program after all passes of a
    target (see `pipeline.compile_program`); `nests`: what a schedule asks of its loops.  With `soon`, 'auto' may take a
    build that is there sooner than the full one (`quick.py`), of which `soon` is told when its code is there.

    Raises UsageError (unknown backend) and BackendError (it does not work here).
    """
    check_name(backend)
    if backend != "auto":
        return _make(compiled, backend, nests), backend
    reason: BackendError | None = None
    for name in AUTO:
        if name == "cuda" and not gpu_answers():
            continue
        try:
            made = _make(compiled, name, nests, soon)
        except BackendError as e:
            reason = e
            if name == "cuda":
                warn(f"not using the GPU: {_why(e)}")
            continue
        if name == "interp" and reason is not None:
            warn(f"running on the slow interpreter: {_why(reason)}")
        return made, name
    raise AssertionError("the interpreter runs everywhere")


def _why(e: BackendError) -> str:
    return e.message + (f"; {e.hint}" if e.hint else "")


@functools.cache
def gpu_answers() -> bool:
    """Whether NVIDIA's driver is installed and finds a GPU; asked without CuPy, which takes long to import."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        count = ctypes.c_int(0)
        return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    except (OSError, AttributeError):
        return False


@deep  # once for all: a thread of its own begins with cold caches
def _emitted(compiled: Callable[[Target], Program], target: Target, soon: bool) -> CBackend | Program:
    """A program as C text; with `soon`, the program itself where a quick build of it comes first."""
    from futad.backend.c import CBackend

    program = compiled(target)
    if soon:
        from futad.backend import quick

        if quick.wanted(target) and not quick.differs(program):
            return program
    made = CBackend(program, target)
    _ = made.source
    return made


def _make(
    compiled: Callable[[Target], Program],
    backend: str,
    nests: tuple[NestChoice, ...],
    soon: Callable[[CBackend], None] | None = None,
) -> Executor:
    target = target_of(backend)
    if nests:
        from futad.rewrite.choices import Choices

        target = replace(target, choices=Choices(nests))
    if backend == "interp":
        return Interpreted(compiled(target))
    if backend in DEVICES:
        from futad.backend.cuda import device_backend

        return device_backend(compiled(target), target)
    made = _emitted(compiled, target, soon is not None and backend == "multicore")
    if isinstance(made, Program):
        from futad.backend.quick import QuickThenFull

        assert soon is not None
        return QuickThenFull(made, target, soon)
    _ = made.compiled  # now, so that a missing compiler shows while there is still a choice
    return made
