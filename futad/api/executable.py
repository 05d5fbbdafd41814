"""Programs with the code made from them, shared by their functions; and what they were made of, by which they pickle.

A pickled program is the texts of its files, what `load` was told, and the derivatives taken of it: no code, no address.
Where it is unpickled nothing is read but the compiled code in the cache, and nothing runs but the compiler, when a
function is first called and the cache lacks it.  Whatever is unpickled twice in a process is made once, and is the
original where that lives, so that workers which get a function with each piece of work keep its code.
"""

from __future__ import annotations

import hashlib
import re
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from futad import __version__, checks, forks
from futad.api.derive import derive
from futad.backend import aot_cache, backends
from futad.core import ir
from futad.core.budget import Budget, budgeted
from futad.core.measures import Measured
from futad.errors import EXCEEDS, Error, OutOfMemory, UsageError, warn
from futad.runtime.exchange import DeviceArray
from futad.runtime.ffi import CLibrary, copy_into
from futad.target import Target, target_of

if TYPE_CHECKING:
    from futad.api.program import Function
    from futad.pipeline import Trace
    from futad.rewrite.choices import NestChoice
    from futad.rewrite.schedule import Schedule


# NumPy of a shape beyond the address space, also of an array without elements: on the interpreter.
_TOO_LARGE = re.compile("too big|too large|maximum allowed", re.IGNORECASE)
NO_TRACES = "'trace' prints nothing on backend '{}': run on 'c', 'multicore' or 'interp' to see it"


IR = "<core> "  # before the name of a text that is core IR


@dataclass(frozen=True, slots=True)
class Origin:
    """What a program was made of: the texts of its files by their names, of which `main` is the first one's, and the
    derivatives taken of it, each the arguments of `derive` after the program.  Of a program that was made by something
    else (`of_core`), the text is that of its core IR."""

    texts: Mapping[str, str]
    main: str
    steps: tuple[tuple[Any, ...], ...] = ()

    @staticmethod
    def of_core(core: ir.Program) -> Origin:
        """That of a program which has no source: its core IR as text, equal for programs that are equal but for the
        numbers of their variables."""
        from futad.core.text import Printer

        main = IR + core.name
        return Origin({main: Printer(counted=True).program(core)}, main)

    def core(self) -> ir.Program:
        """The program before derivatives were taken."""
        if self.main.startswith(IR):
            from futad.core.parse import parse_program

            return parse_program(self.texts[self.main], self.main)
        from futad.source import compile_texts

        return compile_texts(self.texts, self.main)

    @property
    def derived(self) -> str:
        """The derivatives as text."""
        return "".join([f"{step!r};" for step in self.steps])

    def then(self, *step: Any) -> Origin:
        """That of a derivative of the program."""
        return Origin(self.texts, self.main, (*self.steps, step))


class Executable:
    """A core program with the code made from it on first use; shared by its functions."""

    def __init__(
        self,
        core: ir.Program | Callable[[], ir.Program],
        backend: str,
        check: bool = False,
        texts: Mapping[str, str] | None = None,
        budget: Budget | None = None,
        schedule: Schedule | None = None,
        engine: str = "transform",
        origin: Origin | None = None,
    ) -> None:
        """`core`: the program, or what makes it when it is needed.  `engine`: how derivatives are taken, one of
        `ENGINES`.  `origin`: what the program was made of, if that is known."""
        self.engine = engine
        self.budget = budget
        self._make_core = core if callable(core) else lambda: core
        self._core: ir.Program | None = None if callable(core) else budgeted(core, budget)
        self.schedule, self.origin = schedule, origin
        self.texts = texts or {}
        self.requested = backend
        self.check = check
        self._executor: backends.Executor | None = None
        self._trace: Trace | None = None
        self._backend = backend
        self._lock, self._core_lock = threading.Lock(), threading.Lock()
        self._digest = ""
        self.functions: weakref.WeakValueDictionary[str, Function] = weakref.WeakValueDictionary()  # by symbol
        forks.watch(self)

    def forked(self) -> None:
        """See `futad/forks.py`."""
        if forks.is_held(self._lock):
            self._lock = threading.Lock()
        if forks.is_held(self._core_lock):
            self._core_lock = threading.Lock()

    @property
    def core(self) -> ir.Program:
        """The core IR before any pass."""
        if (made := self._core) is None:
            with self._core_lock:
                if (made := self._core) is None:
                    made = self._core = budgeted(self._make_core(), self.budget)
        return made

    def executor(self) -> backends.Executor:
        """The compiled program, with all optimisations (compiled now if this is the first use)."""
        try:
            made = self._ready(soon=False)
        except Error as e:  # what the program's target does not run
            e.locate(self.texts)
            raise
        return made.settled() if isinstance(made, backends.Soon) else made

    def _ready(self, soon: bool = True) -> backends.Executor:
        """What runs calls; `soon`: perhaps not yet the full build."""
        if (made := self._executor) is not None:
            return made
        with self._lock:
            key = self.key() if self._executor is None else ""
            if key and (found := aot_cache.find(key)) is not None:
                self._executor = found[1]
                threads = hasattr(found[1].lib, "futad_pool_share")
                self._backend = ("multicore" if threads else "c") if self.requested == "auto" else self.requested
            if self._executor is None and self.engine == "dual":
                from futad.dual.engine import DualInterpreter

                core = _without_inverses(self.core)
                self._executor, self._backend = backends.Interpreted(core, DualInterpreter), "interp"
            elif self._executor is None:
                from futad.pipeline import Trace, compile_program

                def compiled(target: Target) -> ir.Program:
                    if target.traces:
                        return compile_program(self.core, target=target, schedule=self.schedule)
                    trace = Trace()
                    program = compile_program(self.core, target=target, trace=trace, schedule=self.schedule)
                    if any(r.changed for r in trace.records if r.name == "without-traces"):
                        warn(NO_TRACES.format(target.name))
                    return program

                def keep(full: Any) -> None:
                    if key:
                        aot_cache.store(key, self.core, full)

                with checks.also(*[checks.IR] if self.check else []):
                    nests = self._nests()
                    made, self._backend = backends.executor(compiled, self.requested, nests, keep if soon else None)
                if not isinstance(made, backends.Soon):
                    keep(made)
                self._executor = made
            return self._executor

    def key(self) -> str:
        """The key of the program in the cache; "" if it is not to be taken from there."""
        if self.origin is None or self.engine != "transform" or self.schedule is not None:
            return ""
        if self.check or checks.modes():
            return ""
        if self.requested not in ("auto", "c", "multicore") or (self.requested == "auto" and backends.gpu_answers()):
            return ""
        if not aot_cache.as_shipped():
            return ""
        return aot_cache.key_of(self.origin.texts, self.requested, self.budget, None, self.origin.derived)

    def _nests(self) -> tuple[NestChoice, ...]:
        return self.schedule.nests if self.schedule is not None else ()

    def trace(self) -> Trace:
        """What the passes did, and how often each rule applied: they run once more for it."""
        if self._trace is None:
            from futad.pipeline import Trace, compile_program
            from futad.rewrite.strategy import Stats

            self.executor()
            made = Trace(rules=Stats())
            compile_program(self.core, target=target_of(self._backend), trace=made, schedule=self.schedule)
            self._trace = made
        return self._trace

    def run(self, name: str, flat: Sequence[Any]) -> list[Any]:
        """Run a core function on its core arguments; errors show the line of the source."""
        try:
            return list(self._takes(self._ready(), flat).run(name, flat))
        except (Error, MemoryError, ValueError) as e:
            if (shown := self.explained(e)) is e:
                raise  # with its cause
            raise shown from None

    def run_into(self, name: str, flat: Sequence[Any], outs: Sequence[np.ndarray[Any, Any] | None]) -> None:
        """As `run`, the results written to `outs`, writeable arrays of their dtypes; None for one that is not wanted.
        Raises Misfit where one is of another shape."""
        try:
            executor = self._takes(self._ready(), flat)
            wanted = [out for out in outs if out is not None]
            theirs = [a for a in flat if isinstance(a, np.ndarray)]
            run_into = getattr(executor, "run_into", None)  # some backends can
            if (
                run_into is not None
                and all(out.flags.c_contiguous and out.flags.aligned for out in wanted)
                and not any(np.may_share_memory(out, a) for out in wanted for a in theirs)
            ):
                run_into(name, flat, outs)
            else:
                copy_into(list(executor.run(name, flat)), outs)
        except (Error, MemoryError, ValueError) as e:
            if (shown := self.explained(e)) is e:
                raise  # with its cause
            raise shown from None

    def at_once(self) -> CLibrary | None:
        """The compiled library that runs calls from now on, if that is what does."""
        made = self._executor
        if made is None or isinstance(made, backends.Soon):
            return None
        library = getattr(made, "compiled", made)
        return library if type(library) is CLibrary else None

    def _takes(self, executor: backends.Executor, flat: Sequence[Any]) -> backends.Executor:
        """The executor, which runs calls with such arguments.  Raises UsageError."""
        if DeviceArray in map(type, flat) and self._backend not in backends.DEVICES:
            path = next(a.path for a in flat if type(a) is DeviceArray)
            raise UsageError(
                f"argument '{path}' is in GPU memory, but the program runs on '{self._backend}'",
                hint="load the program with backend='cuda', or copy the array to the host",
            )
        return executor

    def explained(self, e: Error | MemoryError | ValueError) -> BaseException:
        """What callers see of an exception."""
        if isinstance(e, Error):
            e.locate(self.texts)
            return e
        if isinstance(e, MemoryError):
            return OutOfMemory(f"out of memory: {e}" if str(e) else "out of memory")
        if not _TOO_LARGE.search(str(e)):
            return e
        return OutOfMemory(EXCEEDS)

    def measured(self) -> list[Measured]:
        """What the last call told of itself; nothing before the first one."""
        return self._executor.measured() if self._executor is not None else []

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        recipe = self._recipe()
        _known[self.digest] = self  # also where an equal program was pickled before: what comes back is this one
        return restored, (self.digest, *recipe)

    @property
    def digest(self) -> str:
        """What tells the program from others, the same in every process.  Raises TypeError as pickling it does."""
        if not self._digest:
            self._digest = _digest_of(self._recipe())
        return self._digest

    def of_source(self, steps: tuple[tuple[Any, ...], ...]) -> tuple[Any, ...]:
        """The recipe of the derivatives that `steps` take of this one's source.  Raises TypeError as pickling does."""
        version, main, texts, _, *told = self._recipe()
        return (version, main, texts, steps, *told)

    @property
    def source_digest(self) -> str:
        """As `digest`, of the program without the derivatives taken of it."""
        return _digest_of(self.of_source(()))

    def derived(self, steps: tuple[tuple[Any, ...], ...]) -> Executable:
        """The derivatives that `steps` (`Origin`) take of the source; raises TypeError as pickling does."""
        recipe = self.of_source(steps)
        return restored(_digest_of(recipe), *recipe)

    def _recipe(self) -> tuple[Any, ...]:
        """All that it was made of; see `restored`.  Raises TypeError if that cannot be told as text."""
        if self.origin is None:
            raise TypeError("a program that was not made by load or compile does not pickle: its source is not known")
        schedule = None
        if self.schedule is not None:
            from futad import strategies

            schedule = str(self.schedule)
            try:
                same = strategies.parse_schedule(schedule) == self.schedule
            except Error:
                same = False
            if not same:
                raise TypeError("a program does not pickle whose schedule has rules or strategies written in Python")
        texts = tuple(self.origin.texts.items())
        told = (self.requested, self.check, self.budget, schedule, self.engine)
        return (__version__, self.origin.main, texts, self.origin.steps, *told)

    @property
    def backend(self) -> str:
        """The backend that runs it: 'auto' is settled on first use."""
        return self._backend

    @property
    def fresh(self) -> bool:
        """See `backends.Executor`."""
        return self._ready().fresh


def _digest_of(recipe: tuple[Any, ...]) -> str:
    return hashlib.sha256(repr(recipe).encode()).hexdigest()


_known: weakref.WeakValueDictionary[str, Executable] = weakref.WeakValueDictionary()  # by the digest of the recipe


def restored(
    digest: str,
    version: str,
    main: str,
    texts: tuple[tuple[str, str], ...],
    steps: tuple[tuple[Any, ...], ...],
    backend: str,
    check: bool,
    budget: Budget | None,
    schedule: str | None,
    engine: str,
) -> Executable:
    """A pickled program: the one in this process that was pickled or restored under this digest, if there is one.

    `version`: futad's where it was pickled; another one compiles the same source.
    """
    if (there := _known.get(digest)) is not None:
        return there
    origin = Origin(dict(texts), main, steps)

    def core() -> ir.Program:
        made = budgeted(origin.core(), budget)
        for step in steps:
            made = budgeted(derive(made, *step)[0], budget)
        return made

    followed = None
    if schedule is not None:
        from futad import strategies

        followed = strategies.parse_schedule(schedule)
    made = Executable(core, backend, check, origin.texts, budget, followed, engine, origin)
    made._digest = digest
    return _known.setdefault(digest, made)


def _without_inverses(core: ir.Program) -> ir.Program:
    """The program with the code of each `invert` in its place: what runs a program without passes has none for it."""
    if not any(f.body.has(ir.Invert) for f in core.funs.values()):
        return core
    from futad.ad.inverse.function import expand_inverses
    from futad.optimise.inline import inline

    return expand_inverses(inline(core))


__all__ = ["Executable", "Origin", "restored"]
