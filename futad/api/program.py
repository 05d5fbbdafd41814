"""Programs and their entries as Python objects.

    prog = futad.load("gmm.fut")
    y = prog.objective(alphas, means, icf, x, gamma, m)

See `futad.runtime.values` for what may be passed and what comes back.
"""

from __future__ import annotations

import difflib
import inspect
import json
import keyword
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from futad import __version__
from futad.api.argnums import Argnums, is_single, numbers, with_floats
from futad.api.derive import KINDS, derive
from futad.api.executable import Executable, Origin
from futad.api.options import takes_budget
from futad.api.sizes import evaluated, params_of, size_formulas
from futad.backend import aot_cache, backends
from futad.core import ir
from futad.core.budget import Budget, Options, chosen
from futad.errors import DtypeError, Error, ShapeError, UsageError, outside
from futad.runtime.exchange import DeviceArray
from futad.runtime.ffi import CLibrary, Misfit
from futad.runtime.native import NativeEntry
from futad.runtime.shapes import Computed, Spec, result_specs, specs_of
from futad.runtime.structure import build_value, count_text, flatten_value
from futad.runtime.values import Leaf, Signature, entry_text, leaf_text, signature_of

if TYPE_CHECKING:
    from futad.pipeline import Trace
    from futad.rewrite.schedule import Schedule

WHOLE = "loops, for all derivatives in the program and of its entries that say nothing else,"


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
        if type(self) is Function:
            executable.functions.setdefault(name, self)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """By source and the way it was derived; see `futad/api/executable.py`."""
        described = json.dumps(aot_cache.to_json(self.signature))
        return _function, (self.executable, self._symbol, __version__, described)

    @property
    def symbol(self) -> str:
        """The name of its function in `executable.core`."""
        return self._symbol

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if kwargs:
                if "out" in kwargs and "out" not in self.__signature__.parameters:
                    return self._into(kwargs.pop("out"), self.positional(args, kwargs))
                args = self.positional(args, kwargs)
            return self.on_flat(self.signature.flatten(args))
        except Error as e:
            raise outside(e) from e.__cause__

    def on_flat(self, flat: list[Any]) -> Any:
        """The result from the arguments of the core function."""
        results = self.executable.run(self._symbol, flat)
        return self.signature.unflatten(results, flat, self.executable.fresh)

    def call_leaves(self, leaves: Sequence[Any]) -> list[Any]:
        """The components of the result from the components of the arguments: exact NumPy scalars and arrays.

        Raises ShapeError if sizes disagree, and what the program raises.  Arguments of unique type may be
        overwritten.
        """
        flat = self.signature.bind(list(leaves))
        return self.signature.visible(self.executable.run(self._symbol, flat))

    def call_into(self, leaves: Sequence[Any], outs: Sequence[np.ndarray[Any, Any]]) -> None:
        """As `call_leaves`, the components of the result written to `outs`: writeable NumPy arrays of the components'
        dtypes and shapes, of rank 0 for numbers, that share no memory with each other; with arguments they may.

        Dense ones are written to without any other array being made.  Raises ShapeError, DtypeError and UsageError, and
        writes nothing then.
        """
        self._run_into(self.signature.bind(list(leaves)), outs)

    def _into(self, out: Any, args: tuple[Any, ...]) -> Any:
        """A call whose results are written to the arrays in `out`, which has the structure of the result."""
        self._run_into(self.signature.flatten(args), flatten_value(self.entry.result, out, "out", self.entry.name))
        return out

    def _run_into(self, flat: list[Any], outs: Sequence[np.ndarray[Any, Any]]) -> None:
        places = [i for i in range(len(outs) + len(self.signature.witnesses)) if i not in self.signature.witnesses]
        if len(outs) != len(self.signature.results):
            count = count_text(len(self.signature.results), "component")
            raise UsageError(f"the result of {self.__name__} has {count}, but memory is given for {len(outs)}")
        for leaf, out in zip(self.signature.results, outs, strict=True):
            check_out(leaf, out)
        if any(np.may_share_memory(x, y) for i, x in enumerate(outs) for y in outs[:i]):
            raise UsageError(f"{self.__name__}: two parts of out share memory")
        if any(type(a) is DeviceArray for a in flat):
            raise UsageError(f"{self.__name__}: out is for results in CPU memory, but an argument is in GPU memory")
        core: list[Any] = [None] * (len(outs) + len(self.signature.witnesses))
        for place, out in zip(places, outs, strict=True):
            core[place] = out
        try:
            self.executable.run_into(self._symbol, flat, core)
        except Misfit as e:
            leaf = self.signature.results[places.index(e.place)]
            message = f"'{_out_path(leaf)}' of {self.__name__}: the result has shape {e.shape}, the memory for it"
            raise ShapeError(f"{message} {core[e.place].shape}") from None

    def shapes(self, *args: Any, **kwargs: Any) -> Any:
        """Shape and dtype of the result, without running the entry: its structure with a `futad.Spec` for each
        component, a pair `(shape, dtype)`.

        An argument is what a call takes, or for each of its components a tuple of sizes (`()` is a number that is not
        told) or an object with a `shape`, such as a Spec.  Sizes may be symbols of another system.  Raises ShapeError
        if ranks or sizes disagree, UsageError if a size of the result is found by running only, or depends on a number
        that is not told.
        """
        if kwargs:
            args = self.positional(args, kwargs)
        made = self.shapes_of_leaves(specs_of(self.signature, args))
        return build_value(self.entry.result, iter(made))

    def shapes_of_leaves(self, leaves: Sequence[Any]) -> list[Spec]:
        """As `shapes`, for the components of the result from those of the arguments."""
        return result_specs(self.signature, leaves, self.computed_sizes)

    def computed_sizes(self) -> Computed:
        """See `result_specs`."""

        def make() -> Computed:
            made = size_formulas(self.executable.core, self._symbol)
            return {i: (frozenset(params_of(f)), partial(evaluated, f)) for i, f in made.items()}

        found: Computed = self.derived("sizes", make)
        return found

    def size_numbers(self) -> frozenset[int]:
        """The components of the arguments that are numbers on whose value the shape of a result depends."""
        s, first = self.signature, len(self.signature.size_names)
        dims = [d for leaf in (*s.params, *s.results) for d in leaf.dims if not isinstance(d, int)]
        places = {i for where, i in dims if where == "arg"}
        if any(where == "res" for where, _ in dims):
            places |= {i for params, _ in self.computed_sizes().values() for i in params}
        return frozenset({i - first for i in places if i >= first})

    def native(self) -> NativeEntry:
        """The entry's compiled C, for callers that are no Python: its address, and a context of its own with the lock
        that belongs to it (`NativeEntry`).  Compiles in full.  Raises UsageError on other backends than `c` and
        `multicore`, and for arguments that are bound."""
        library = getattr(made := self.executable.executor(), "compiled", made)
        if type(library) is not CLibrary:
            raise UsageError(f"{self.__name__} runs on backend '{self.backend}', which has no code that can be called",
                             hint="load the program with backend='c'")  # fmt: skip
        try:
            key = f"{self.executable.digest} {self._symbol}"
        except TypeError:  # no source
            key = ""
        return NativeEntry(library, self._symbol, self.signature, key)

    def derivative(self, kind: str, argnums: Argnums | None = None, **options: Unpack[Options]) -> Function:
        """The entry that computes a derivative, for those who call derivatives by components (`call_leaves`).

        Of f with arguments x, a those of `argnums` (by default all that hold floating-point numbers), in this order,
        y its value; components are in the order of the type, outer dimensions first:

        - "jvp": x, then a tangent for each of a -> (y, tangent of y);
        - "vjp": x, then a cotangent of y -> adjoints of a, a tuple, also of one, unless `argnums` is a number;
        - "jmp", "mjp": the same with many directions, tangents, cotangents and what is made of them with one more
          dimension in front;
        - "grad", "value_and_grad", "jacfwd", "jacrev": as `futad.grad` and its like.

        It is made once for each of these.  `options`: as of `futad.grad`.  Raises UsageError, also if there is nothing
        to differentiate with respect to.
        """
        if kind not in KINDS:
            raise UsageError(f"there is no derivative {kind!r}; there are: {', '.join(KINDS)}")
        active = with_floats(self.entry) if argnums is None else numbers(self.entry, argnums)
        return self._derive(kind, active, argnums is not None and is_single(argnums), *chosen(**options))

    def _derive(
        self, kind: str, active: tuple[Any, ...], single: bool, engine: str = "", budget: Budget | None = None
    ) -> Function:
        """The entry of a new program; a budget of its own is for the derivative that is taken here.  `engine`: how
        derivatives are taken in it, by default as in this entry's program."""
        of = self.executable
        engine = engine or of.engine

        def make() -> Function:
            core, name = derive(of.core, self._symbol, kind, active, single, budget)
            origin = of.origin and of.origin.then(self._symbol, kind, active, single, budget)
            made = Executable(core, of.requested, of.check, of.texts, of.budget, of.schedule, engine, origin)
            return Function(made, name)

        made = self.derived((kind, active, single, engine, budget), make)
        assert isinstance(made, Function)
        return made

    def positional(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Arguments given by name put in their places.  Raises UsageError."""
        try:
            return self.__signature__.bind(*args, **kwargs).args
        except TypeError as e:
            raise UsageError(f"{self.__name__}: {e}", hint=entry_text(self.entry)) from None

    @property
    def backend(self) -> str:
        """The backend: as asked for, and once code has run, the one 'auto' settled on."""
        return self.executable.backend

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
        made = Executable(core, backend, check, texts, budget, _schedule_of(schedule), engine, origin)
        self._open(made, name or core.name, [Function(made, n) for n, f in core.funs.items() if f.entry is not None])

    def _open(self, executable: Executable, name: str, functions: Iterable[Function]) -> None:
        self._executable, self.name = executable, name
        self.entries: dict[str, Function] = {f.entry.name: f for f in functions}

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _program, (self._executable, self.name, list(self.entries.values()))

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


def check_out(leaf: Leaf, out: Any) -> None:
    """Raises DtypeError, ShapeError or UsageError unless a component of a result can be written to `out`."""
    path = _out_path(leaf)
    if not isinstance(out, np.ndarray):
        raise DtypeError(f"'{path}': expected a NumPy array of {leaf.elem.dtype.name}, got {type(out).__name__}")
    if out.dtype != leaf.elem.dtype:
        raise DtypeError(f"'{path}': expected {leaf_text(leaf)} ({leaf.elem.dtype.name}), got an array of {out.dtype}")
    if out.ndim != len(leaf.dims):
        raise ShapeError(f"'{path}': expected {leaf_text(leaf)}, of rank {len(leaf.dims)}, got one of rank {out.ndim}")
    if not out.flags.writeable:
        raise UsageError(f"'{path}' is read-only")


def _out_path(leaf: Leaf) -> str:
    return "out" + leaf.path.removeprefix("result")


def _function(executable: Executable, symbol: str, version: str, described: str) -> Function:
    """A pickled function of an executable; `described`: its signature, as futad of that version writes it."""
    if (there := executable.functions.get(symbol)) is not None:
        return there
    made = Function(executable, symbol, aot_cache.from_json(json.loads(described)) if version == __version__ else None)
    return executable.functions.setdefault(symbol, made)


def _program(executable: Executable, name: str, functions: list[Function]) -> Program:
    """A pickled program."""
    made = Program.__new__(Program)
    made._open(executable, name, functions)
    return made


def _explained(executable: Executable, derived: Iterable[Function]) -> str:
    """What a program's last call told, and those of derivatives."""
    from futad.runtime.explain import explained

    return explained([m for u in (executable, *[f.executable for f in derived]) for m in u.measured()])


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


class TypeText(str):
    """A type in Futhark's notation as an annotation, which help and editors show without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _python_signature(entry: ir.Entry) -> inspect.Signature:
    """Parameter names made Python identifiers, and different from each other; annotations are types of the language."""
    seen: set[str] = set()
    params = []
    for i, (name, t) in enumerate(entry.params):
        plain = re.sub(r"\W", "_", name)
        if not plain.isidentifier() or keyword.iskeyword(plain):
            plain = f"{plain}_" if plain and not plain[0].isdigit() else f"arg{i}"
        while plain in seen:
            plain += "_"
        seen.add(plain)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        params.append(inspect.Parameter(plain, kind, annotation=TypeText(t.text)))
    return inspect.Signature(params, return_annotation=TypeText(entry.result.text))


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
    if re.search(r"^\s*(entry|def|let)\s", file, re.MULTILINE) and not os.path.exists(file):
        raise UsageError("path is a program's text, not the name of a file", hint="futad.compile(text) takes a text")
    read: dict[str, str] = {}
    return Program(load_program(file, texts=read), backend=backend, check=check, name=file, budget=budget,
                   schedule=schedule, engine=engine or "transform", origin=Origin(read, file))


@takes_budget(WHOLE)
def compile(
    source: str, name: str = "main", *, backend: str = "auto", check: bool = False,
    schedule: Schedule | str | None = None, **options: Unpack[Options],
) -> Program:
    """The program whose text is `source`; `name` stands for the file in messages.  Options and errors as in `load`."""
    if not isinstance(source, str):
        raise UsageError(f"source must be a str with a program's text, not {type(source).__name__}")
    if re.fullmatch(r"\S+\.fut", source):
        raise UsageError(f"source is the name of a file, '{source}', not a program's text",
                         hint="futad.load(path) takes a file")  # fmt: skip
    if not isinstance(name, str):
        raise UsageError(f"name must be a str, not {type(name).__name__}")
    backends.check_name(backend)
    engine, budget = chosen(**options)
    from futad.source import compile_text

    read: dict[str, str] = {}
    return Program(compile_text(source, name, read), backend=backend, check=check, texts={name: source}, name=name,
                   budget=budget, schedule=schedule, engine=engine or "transform", origin=Origin(read, name))


__all__ = ["Executable", "Function", "Program", "compile", "load"]
