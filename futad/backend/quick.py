"""Three builds of a program: a quick one that runs at once, and two that replace it while the program runs.

The quick build is C for one thread, without the transformations that make code larger, compiled with little effort: a
tenth of the time.  Meanwhile, and afterwards, the full code is emitted by a thread and compiled by a process of its own
(`runtime/background.py`), which goes on if this one ends: the next process finds what it makes in the cache.  Before
that it compiles the quick code once more, with all the effort: the middle build, which is there much sooner than the
full one and runs loops in vectors, so that a program that calls in a loop from its first second on need not wait
(`benchmarks/everyday.py` prints when its hundredth gradient is there).

A call that is under way in an earlier build when the full one is there does not hold anybody up: the full code starts
on the same arguments, and the earlier code, which looks after each iteration of its loops whether it is to go on
(`Target.stops`), ends.  So no call takes longer than the full build, and the call with it, would have.  A call in the
quick build ends when the middle one is there, and begins again in that.

All builds compute the same program after the same passes; sums of floats are taken in another order, so that last
digits may differ, as they do between `c` and `multicore`.  A program that prints or recurses has the full build alone.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from futad import cache, checks, forks
from futad.backend.c import CBackend
from futad.core import ir
from futad.core.callgraph import recursive
from futad.core.measures import Measured
from futad.errors import Error, warn
from futad.runtime import background, cc
from futad.runtime.ffi import Stopped
from futad.target import C, Target

VARIABLE = "FUTAD_QUICK"
ENOUGH = 4  # processors, that a compiler in the background does not slow the one which somebody waits for
PATIENCE = 2.0  # seconds that the end of a process waits for the full code
PAUSE = 0.02  # seconds until a call that another one has stopped is tried again
TARGET = replace(C, jams=False, outer_lanes=False, tiles=False, packs=False, stops=True)


def wanted(target: Target) -> bool:
    """Whether code for a target is worth two builds: it is to be optimised well, nothing is asked of it that only one
    of them would do, and there is a cache through which the second one comes."""
    if os.environ.get(VARIABLE) == "0" or target.choices is not None or checks.modes() & checks.EXECUTION:
        return False
    given = cc.split("FUTAD_CFLAGS", os.environ.get("FUTAD_CFLAGS", ""))
    levels = [os.environ.get("FUTAD_OPT") or "3", *[f[2:] for f in given if f.startswith("-O")]]
    return levels[-1] not in ("0", "1", "g") and cache.folder() is not None


def differs(program: ir.Program) -> bool:
    """Whether a call can be told from two, by what it prints, or builds from each other, by how deep they recurse."""
    traced = any(isinstance(s.exp, ir.Trace) for f in program.funs.values() for s in ir.statements(f.body.stms))
    return traced or bool(recursive(program))


class QuickThenFull:
    """The builds as one executor; `emitted` is told of the full one as soon as its code is there."""

    fresh = True

    def __init__(
        self, program: ir.Program, target: Target, emitted: Callable[[CBackend], None] = lambda full: None
    ) -> None:
        self._program, self._target, self._emitted = program, target, emitted
        self._middle: CBackend | None = None
        self._full: CBackend | None = None
        self._failed: BaseException | None = None
        self._renew()
        cc.find_compiler()
        self._quick = self._last = CBackend(program, TARGET)
        _ = self._quick.source
        self._start()  # while the quick code is compiled
        try:
            _ = self._quick.compiled
        except BaseException as e:
            self._failed = e  # which who asked for it is told, and nobody calls the full build
            raise
        finally:
            self._at_work.set()
        forks.watch(self)

    def _renew(self) -> None:
        self._lock = threading.Condition()
        self._ended = threading.Event()
        self._handed = threading.Event()  # the full code is where it is compiled even if this process ends
        self._at_work = threading.Event()  # the quick build is, and the compiler has time for others
        self._calls: list[_Call] = []
        self._begun = False

    def forked(self) -> None:
        """See `forks.py`: the thread that waits for the full build is not there; the next call starts another."""
        if self._full is None and self._failed is None:
            atexit.unregister(self._handed_over)
            self._renew()
            self._at_work.set()

    # -- the builds in the background

    def _start(self) -> None:
        with self._lock:
            begun, self._begun = self._begun, True
        if not begun:
            atexit.register(self._handed_over)
            threading.Thread(target=self._build, name="futad-build", daemon=True).start()

    def _handed_over(self) -> None:
        """At the end of the process, which may come before the full code is emitted."""
        self._handed.wait(PATIENCE)

    def _build(self) -> None:
        try:
            full = CBackend(self._program, self._target)
            source = full.source
            self._emitted(full)
            library = cc.library(source, threads=full.multicore)
            builds = background.Builds()
            middle = self._quick.unhurried()
            builds.add(cc.library(middle.source), only_here=True)
            wanted = not library.done
            if wanted:
                builds.add(library, yields=3)  # more, and where all processors are busy nobody would see it end
            if self._target.threads < ENOUGH:
                self._at_work.wait()
            builds.end()
            self._handed.set()
            if wanted:
                builds.wait()
                self._go_over(middle)
                builds.finish()
            _ = full.compiled
            self._full = full
        except BaseException as e:
            told, self._failed = self._failed is not None, e
            if not told and not sys.is_finalizing():
                why = e.message if isinstance(e, Error) else e
                warn(f"the program goes on with code that is not optimised: {why}")
        finally:
            self._handed.set()
            atexit.unregister(self._handed_over)
            with self._lock:
                self._ended.set()
                for call in self._calls:
                    call.over.set()
                if self._full is not None:
                    self._lock.wait_for(lambda: not self._calls)
                    for build in (self._quick, self._middle):
                        if build is not None and build.is_compiled:
                            build.compiled.forget()

    def _go_over(self, middle: CBackend) -> None:
        """From now on calls are by the middle build.  As there is one before and one after it, nobody misses it if it
        could not be made."""
        if not cc.library(middle.source).done:
            return
        with contextlib.suppress(Error):
            _ = middle.compiled
            with self._lock:
                self._middle = middle
                for call in self._calls:
                    call.over.set()
                self._lock.wait_for(lambda: all(call.build is middle for call in self._calls))
                self._quick.compiled.forget()

    def settled(self) -> CBackend:
        """The full build, when it is there.  Raises what kept it from being made."""
        self._start()
        self._ended.wait()
        if self._full is None:
            raise self._failed or RuntimeError("there is no full build")
        return self._full

    # -- calls

    def run(self, name: str, args: Sequence[Any]) -> list[Any]:
        """See `CBackend.run`."""
        while self._full is None:
            try:
                return self._raced(name, args)
            except Stopped:  # the full build is there; or another thread, or program with this code, stops its calls
                self._ended.wait(PAUSE)
        self._last = self._full
        return self._full.run(name, args)

    def _raced(self, name: str, args: Sequence[Any]) -> list[Any]:
        """A call by a build that is there, or by a better one if that is there before it ends."""
        self._start()
        args_of_call = self._private(name, args)
        with self._lock:
            if self._full is not None:
                raise Stopped
            call = _Call(self._middle or self._quick, name, args_of_call)
            self._calls.append(call)
        thread = threading.Thread(target=call.run, name="futad-call", daemon=True)
        thread.start()
        try:
            call.over.wait()
            better = self._full or self._middle
            if not call.done and better in (None, call.build):  # the full build has failed
                thread.join()
            if call.done:
                self._last = call.build
                return call.result()
            assert better is not None
            with self._ending(call, thread):
                if better is self._full:
                    self._last = better
                    return better.run(name, args)
            if not isinstance(call.error, Stopped):  # it has ended by itself
                self._last = call.build
                return call.result()
        except BaseException:  # also an interrupt
            if thread.is_alive():
                with self._ending(call, thread):
                    raise
            raise
        finally:
            with self._lock:
                self._calls.remove(call)
                self._lock.notify_all()
        return self._raced(name, args)

    @contextlib.contextmanager
    def _ending(self, call: _Call, thread: threading.Thread) -> Iterator[None]:
        """A call in the thread ends; it has when the block is over, and the arguments are the caller's again."""
        with call.build.compiled.stopping():
            try:
                yield
            finally:
                thread.join()

    def _private(self, name: str, args: Sequence[Any]) -> Sequence[Any]:
        """Arguments that the call may overwrite, as another one is given them too."""
        entry = self._program.funs[name].entry
        if entry is not None and not any(entry.unique):
            return args
        return [np.copy(a) if isinstance(a, np.ndarray) else a for a in args]

    def measured(self) -> list[Measured]:
        """What the last call told of itself."""
        return self._last.measured()


class _Call:
    """A call of a build in a thread of its own."""

    def __init__(self, build: CBackend, name: str, args: Sequence[Any]) -> None:
        self.build, self.name, self.args = build, name, args
        self.over = threading.Event()  # or there is no need to wait for it
        self.done = False
        self.values: list[Any] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.values = self.build.run(self.name, self.args)
        except BaseException as e:
            self.error = e
        self.done = True
        self.over.set()

    def result(self) -> list[Any]:
        if self.error is not None:
            raise self.error
        return self.values


__all__ = ["QuickThenFull", "differs", "wanted"]
