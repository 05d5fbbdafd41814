"""Programs and their entries as Python objects.

    prog = futad.load("gmm.fut")
    y = prog.objective(alphas, means, icf, x, gamma, m)

See `futad.runtime.values` for what may be passed and what comes back.
"""

from __future__ import annotations

import difflib
import inspect
import keyword
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from futad import checks, forks
from futad.api.options import takes_budget
from futad.backend import aot_cache, backends
from futad.core import ir
from futad.core.budget import Budget, Options, budgeted, chosen
from futad.core.measures import Measured
from futad.errors import Error, FutadWarning, OutOfMemory, UsageError
from futad.runtime.exchange import DeviceArray
from futad.runtime.values import Signature, entry_text, signature_of
from futad.target import Target, target_of

if TYPE_CHECKING:
    from futad.pipeline import Trace
    from futad.rewrite.choices import NestChoice
    from futad.rewrite.schedule import Schedule

# NumPy of a shape beyond the address space, also of an array without elements: on the interpreter.
_TOO_LARGE = re.compile("too big|too large|maximum allowed", re.IGNORECASE)
WHOLE = "loops, for all derivatives in the program and of its entries that say nothing else,"
NO_TRACES = "'trace' prints nothing on backend '{}': run on 'c', 'multicore' or 'interp' to see it"


@dataclass(frozen=True, slots=True)
class Origin:
    """What a program was made of: the texts of its files by their names, and the derivatives taken of it, as text."""

    texts: Mapping[str, str]
    derived: str = ""

    def then(self, *step: Any) -> Origin:
        """That of a derivative of the program."""
        return Origin(self.texts, f"{self.derived}{step!r};")


class Executable:
    """A core program with the code made from it on first use; shared by its functions."""

    def __init__(
        self,
        core: ir.Program,
        backend: str,
        check: bool = False,
        texts: Mapping[str, str] | None = None,
        budget: Budget | None = None,
        schedule: Schedule | None = None,
        engine: str = "transform",
        origin: Origin | None = None,
    ) -> None:
        """`engine`: how derivatives are taken, one of `ENGINES`.  `origin`: what the program was made of, if that is
        known."""
        self.engine = engine
        self.core, self.budget = budgeted(core, budget), budget
        self.schedule, self.origin = schedule, origin
        self.texts = texts or {}
        self.requested = backend
        self.check = check
        self._executor: backends.Executor | None = None
        self._trace: Trace | None = None
        self._backend = backend
        self._lock = threading.Lock()
        forks.watch(self)

    def forked(self) -> None:
        """See `futad/forks.py`."""
        if forks.is_held(self._lock):
            self._lock = threading.Lock()

    def executor(self) -> backends.Executor:
        """The compiled program, with all optimisations (compiled now if this is the first use)."""
        made = self._ready(soon=False)
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
                        warnings.warn(NO_TRACES.format(target.name), FutadWarning, stacklevel=5)
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
            executor = self._ready()
            for a in flat:
                if type(a) is DeviceArray and self._backend not in backends.DEVICES:
                    raise UsageError(
                        f"argument '{a.path}' is in GPU memory, but the program runs on '{self._backend}'",
                        hint="load the program with backend='cuda', or copy the array to the host",
                    )
            return list(executor.run(name, flat))
        except Error as e:
            e.locate(self.texts)
            raise
        except MemoryError as e:
            raise OutOfMemory(f"out of memory: {e}" if str(e) else "out of memory") from None
        except ValueError as e:
            if not _TOO_LARGE.search(str(e)):
                raise
            raise OutOfMemory("an array is needed whose size exceeds the address space") from None

    def measured(self) -> list[Measured]:
        """What the last call told of itself; nothing before the first one."""
        return self._executor.measured() if self._executor is not None else []

    def __reduce__(self) -> str:
        raise TypeError("a program does not pickle: load it in each process (its compiled code is cached on disk)")

    @property
    def backend(self) -> str:
        """The backend that runs it: 'auto' is settled on first use."""
        return self._backend

    @property
    def fresh(self) -> bool:
        """See `backends.Executor`."""
        return self._ready().fresh


class Function:
    """An entry of a program: call it with NumPy arrays, numbers, lists, tuples and dicts; on `cuda` also with arrays
    in GPU memory (CuPy, torch, JAX), which are not copied unless they are of bools; the results are CuPy arrays then.

    `entry` describes its types, `signature` how it is called; `__doc__` holds the comment that stands before
    it in the source.  Raises DtypeError and ShapeError (naming the argument), BoundsError, ...  Several threads may
    call it at once.  The arguments are never changed, consumed ones are copied.  An interrupt (Ctrl-C) takes effect
    when compiled code returns.
    """

    def __init__(self, executable: Executable, name: str, signature: Signature | None = None) -> None:
        self.executable = executable
        self.signature = signature or signature_of(executable.core.funs[name])
        self.entry = self.signature.entry
        self._symbol = name
        self._derived: dict[Any, Any] = {}
        self.__name__ = self.__qualname__ = self.entry.name
        text = entry_text(self.entry)
        self.__doc__ = f"{text}\n\n{self.entry.doc}" if self.entry.doc else text
        self.__signature__ = _python_signature(self.entry)

    @property
    def symbol(self) -> str:
        """The name of its function in `executable.core`."""
        return self._symbol

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            args = self.positional(args, kwargs)
        flat = self.signature.flatten(args)
        results = self.executable.run(self._symbol, flat)
        return self.signature.unflatten(results, flat, self.executable.fresh)

    def call_leaves(self, leaves: Sequence[Any]) -> list[Any]:
        """The components of the result from the components of the arguments: exact NumPy scalars and arrays.

        Raises ShapeError if sizes disagree, and what the program raises.  Arguments of unique type may be
        overwritten.
        """
        flat = self.signature.bind(list(leaves))
        return self.signature.visible(self.executable.run(self._symbol, flat))

    def positional(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Arguments given by name put in their places.  Raises UsageError."""
        try:
            return self.__signature__.bind(*args, **kwargs).args
        except TypeError as e:
            raise UsageError(f"{self.__name__}: {e}", hint=entry_text(self.entry)) from None

    def explain_memory(self) -> str:
        """What loops kept in the last call, and in the last calls of derivatives of this entry: see
        `Program.explain_memory`."""
        return _explained(self.executable, self.derivatives())

    def derivatives(self) -> Iterator[Function]:
        """The derivatives that were taken of it, and of these."""
        for f in [f for f in self._derived.values() if isinstance(f, Function)]:
            yield f
            yield from f.derivatives()

    def derived(self, key: Any, make: Callable[[], Any]) -> Any:
        """The derived function of that key (a derivative), made once."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    # Former names.
    unit = property(lambda self: self.executable)
    core_name = property(lambda self: self._symbol)
    call_flat = call_leaves

    def __repr__(self) -> str:
        return f"<futad entry {entry_text(self.entry)}>"


class Program:
    """A compiled program; its entries are attributes (and items, where a name is taken by something else)."""

    def __init__(
        self,
        core: ir.Program,
        *,
        backend: str = "auto",
        check: bool = False,
        texts: Mapping[str, str] | None = None,
        name: str = "",
        budget: Budget | None = None,
        schedule: Schedule | str | None = None,
        engine: str = "transform",
        origin: Origin | None = None,
    ) -> None:
        """`budget`: what the reverse-mode derivatives of the program may keep.  `schedule`: as of `load`.  `engine`:
        how derivatives are taken, as `method` of `load`.  `origin`: what it was made of."""
        backends.check_name(backend)
        self._executable = Executable(core, backend, check, texts, budget, _schedule_of(schedule), engine, origin)
        self.name = name or core.name
        self.entries: dict[str, Function] = {
            f.entry.name: Function(self._executable, name) for name, f in self.core.funs.items() if f.entry is not None
        }

    @property
    def core(self) -> ir.Program:
        """The core IR before any pass."""
        return self._executable.core

    @property
    def backend(self) -> str:
        """The backend: as asked for, and once code has run, the one 'auto' settled on."""
        return self._executable.backend

    def explain_memory(self) -> str:
        """What loops whose derivative has a budget kept in the last call of an entry, and in the last calls of
        derivatives of entries: how each was reversed, how many states fit, how often iterations ran beside the least
        possible, and the memory that was predicted and held.  A text of a few lines a loop (docs/memory.md)."""
        return _explained(self._executable, [d for f in self.entries.values() for d in f.derivatives()])

    @property
    def trace(self) -> Trace:
        """What compiling it did: `trace.hits` is how often each rule applied, and 1 for each pass that changed it;
        `trace.records` the passes in order, with their times.  The passes run once more for it."""
        return self._executable.trace()

    @property
    def schedule(self) -> Schedule | None:
        """The schedule that it was loaded with."""
        return self._executable.schedule

    def executor(self) -> backends.Executor:
        """The compiled program; compiles it if no entry has been called yet."""
        return self._executable.executor()

    def __getitem__(self, name: str) -> Function:
        try:
            return self.entries[name]
        except (KeyError, TypeError):
            if not isinstance(name, str):
                raise UsageError(f"an entry's name is a str, not {name!r}") from None
            raise UsageError(unknown_entry(self.name, name, self.entries)) from None

    def __getattr__(self, name: str) -> Function:
        if name.startswith("__") or "entries" not in self.__dict__:
            raise AttributeError(name)
        if name not in self.entries:
            raise AttributeError(unknown_entry(self.name, name, self.entries))
        return self.entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.entries]

    def __repr__(self) -> str:
        lines = [f"<futad program {self.name} on {self.backend}>"]
        return "\n".join(lines + [f"  {entry_text(f.entry)}" for f in self.entries.values()])


def _explained(executable: Executable, derived: Iterable[Function]) -> str:
    """What a program's last call told, and those of derivatives."""
    from futad.runtime.explain import explained

    return explained([m for u in (executable, *[f.executable for f in derived]) for m in u.measured()])


def _without_inverses(core: ir.Program) -> ir.Program:
    """The program with the code of each `invert` in its place: what runs a program without passes has none for it."""
    if not any(f.body.has(ir.Invert) for f in core.funs.values()):
        return core
    from futad.ad.inverse.function import expand_inverses
    from futad.optimise.inline import inline

    return expand_inverses(inline(core))


def _schedule_of(schedule: Schedule | str | None) -> Schedule | None:
    """The schedule that a caller names, checked.  Raises UsageError."""
    if schedule is None:
        return None
    from futad import strategies

    made = strategies.parse_schedule(schedule) if isinstance(schedule, str) else schedule
    strategies.check(made)
    return made


def unknown_entry(program: str, name: str, entries: Mapping[str, Any]) -> str:
    """The message for an entry that is not there: near names first."""
    if not entries:
        return f"{program} has no entry '{name}', nor any other (declare one with `entry`)"
    near = difflib.get_close_matches(name, entries, n=3)
    if near:
        return f"{program} has no entry '{name}'; did you mean {' or '.join(repr(n) for n in near)}?"
    return f"{program} has no entry '{name}'; there are: {', '.join(entries)}"


def _python_signature(entry: ir.Entry) -> inspect.Signature:
    """Parameter names made Python identifiers, and different from each other."""
    seen: set[str] = set()
    params = []
    for i, (name, _) in enumerate(entry.params):
        plain = re.sub(r"\W", "_", name)
        if not plain.isidentifier() or keyword.iskeyword(plain):
            plain = f"{plain}_" if plain and not plain[0].isdigit() else f"arg{i}"
        while plain in seen:
            plain += "_"
        seen.add(plain)
        params.append(inspect.Parameter(plain, inspect.Parameter.POSITIONAL_OR_KEYWORD))
    return inspect.Signature(params)


@takes_budget(WHOLE)
def load(
    path: str | os.PathLike[str], *, backend: str = "auto", check: bool = False,
    schedule: Schedule | str | None = None,
    **options: Unpack[Options],
) -> Program:
    """The program in a `.fut` file.

    `backend`: 'auto' (the fastest that works here), 'interp', 'c' (sequential, deterministic), 'multicore'
    (OMP_NUM_THREADS threads, else as many as processors), 'cuda' (an NVIDIA GPU, through CuPy) or 'emulated' (the
    kernels of 'cuda' on the CPU, to check them).  `check` type-checks the IR after every pass, for finding
    defects of the compiler.  `schedule`: which passes and rules are applied, and what is done to nests of loops: one of
    `futad.strategies`, or its text (docs/strategies.md).  Raises FileError, SourceError (with the place in the file),
    UsageError.

    Compiled code is kept in a cache folder on disk (FUTAD_CACHE_DIR, else ~/.cache/futad).
    """
    backends.check_name(backend)
    engine, budget = chosen(**options)
    from futad.source import load_program

    file = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(file, str):
        raise UsageError(f"path must be a str or an os.PathLike of one, not {type(path).__name__}")
    read: dict[str, str] = {}
    return Program(load_program(file, texts=read), backend=backend, check=check, name=file, budget=budget,
                   schedule=schedule, engine=engine or "transform", origin=Origin(read))


@takes_budget(WHOLE)
def compile(
    source: str, name: str = "main", *, backend: str = "auto", check: bool = False,
    schedule: Schedule | str | None = None, **options: Unpack[Options],
) -> Program:
    """The program whose text is `source`; `name` stands for the file in messages.  Options and errors as in `load`."""
    if not isinstance(source, str):
        raise UsageError(f"source must be a str with a program's text, not {type(source).__name__}")
    if not isinstance(name, str):
        raise UsageError(f"name must be a str, not {type(name).__name__}")
    backends.check_name(backend)
    engine, budget = chosen(**options)
    from futad.source import compile_text

    read: dict[str, str] = {}
    return Program(compile_text(source, name, read), backend=backend, check=check, texts={name: source}, name=name,
                   budget=budget, schedule=schedule, engine=engine or "transform", origin=Origin(read))


__all__ = ["Executable", "Function", "Program", "compile", "load"]
