"""`@futad.function`: a function of Python that is traced, written as Futhark, compiled, and called as an entry."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Unpack, overload

from futad.api.program import Function, compile
from futad.core.budget import Options
from futad.errors import Error, UsageError, Written, outside
from futad.python.calls import Call
from futad.python.elementwise import as_value, is_weak, literal, shape_text
from futad.python.layout import APPLY, Doc, application, enclosed
from futad.python.layout import Written as WrittenDoc
from futad.python.place import defined_at, fail, line_at, misuse
from futad.python.sizes import Size
from futad.python.text import Definition, text_of, trace_function
from futad.python.trees import Tree, flatten
from futad.python.types import Type, hints_of, read
from futad.python.values import Value, bind, current, traces
from futad.python.writer import Writer, identifier, reserved

# What `Function.__init__` makes; here it is made when it is first asked for.
_MADE = ("executable", "signature", "entry", "_symbol", "_derived")


class PythonFunction(Function):
    """A function of Python as an entry: see `futad.function`."""

    def __init__(self, python: Callable[..., Any], static: Sequence[str], options: dict[str, Any]) -> None:
        self.python, self.static, self.options = python, tuple(static), options
        functools.update_wrapper(self, python)
        self.__signature__ = inspect.signature(python)
        self._made: dict[Any, PythonFunction] = {}
        self._statics: dict[str, Any] = {}
        self._definition: Definition | None = None
        parameters = self.__signature__.parameters
        if bad := [s for s in self.static if s not in parameters]:
            misuse(f"{self.__name__} has no parameter {bad[0]!r}, which static= names",
                   f"it has {', '.join(parameters) or 'none'}")  # fmt: skip
        for p in parameters.values():
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                misuse(f"{self.__name__} takes *{p.name}", "each argument has a name and a type; several are a tuple")

    def __getattr__(self, name: str) -> Any:
        if name not in _MADE or "python" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._compile()
        return self.__dict__[name]

    def _compile(self) -> None:
        if left := [s for s in self.static if s not in self._statics]:
            raise UsageError(f"{self.__name__} is compiled for given {', '.join(left)} only",
                             hint=f"write {self.__name__}.at({left[0]}=...)")  # fmt: skip
        definition = self.definition
        text, places = text_of(definition)
        program = compile(text, f"{self.__name__}.fut", **self.options)
        inner = program.entries[definition.name]
        origins = {n: f"written for {p}\n{line_at(p) or ''}".rstrip() for n, p in places.items()}
        inner.executable.texts = Written(inner.executable.texts, origins)
        own = ("__name__", "__qualname__", "__doc__", "__signature__")
        kept: dict[str, Any] = {n: self.__dict__[n] for n in own if n in self.__dict__}
        Function.__init__(self, inner.executable, inner.symbol, inner.signature)
        self.__dict__.update(kept)
        self.__signature__ = _without(kept["__signature__"], self._statics)

    @property
    def definition(self) -> Definition:
        """What tracing made."""
        if self._definition is None:
            params = [p for p in self._parameters() if p[0] not in self._statics]
            name = "anonymous" if self.__name__ == "<lambda>" else identifier(self.__name__)
            name = f"{name}_" if name in reserved() else name
            doc = inspect.getdoc(self.python) or ""
            try:
                made = trace_function(self.python, name, params, self._statics, doc)
                self._check_result(made)
            except Error as e:
                raise outside(e) from e.__cause__
            self._definition = made
        return self._definition

    def _parameters(self) -> list[tuple[str, list[Type], Tree]]:
        hints = hints_of(self.python)
        out = []
        for p in inspect.signature(self.python).parameters.values():
            if p.name in self.static:
                continue
            if p.default is not p.empty:
                misuse(f"{self.__name__}: the argument '{p.name}' is traced and has no default", "name it in static=")
            what = f"the argument '{p.name}' of {self.__name__}"
            out.append((p.name, *read(hints.get(p.name, p.empty), what)))
        sizes = [d for _, types, _ in out for t in types for d in t.dims]
        alone = [d.atom for d in sizes]
        for name in [a for d in sizes for a in d.atoms() if a not in alone]:
            misuse(f"{self.__name__}: no argument has the size {name} by itself, by which it is told",
                   f'an argument of type i64["{name}"] or the like is needed')  # fmt: skip
        return out

    def _check_result(self, d: Definition) -> None:
        """Compare the result with its annotation, if there is one; numbers of Python's take its types."""
        hints = hints_of(self.python)
        if "return" not in hints:
            return
        types, tree = read(hints["return"], f"the result of {self.__name__}")
        made = [Type(v.elem, v.dims) for v in d.scope.results]
        if tree != d.tree or types != made:
            shown = [", ".join(map(str, ts)) for ts in (made, types)]
            raise UsageError(f"{self.__name__} returns {shown[0]}, but its annotation says {shown[1]}",
                             defined_at(self.python.__code__), hint=_mended(types, made),
                             source_line=line_at(defined_at(self.python.__code__)))  # fmt: skip
        d.tree = tree

    def at(self, **statics: Any) -> PythonFunction:
        """The function of the other arguments, for values of those that `static=` names."""
        if bad := [s for s in statics if s not in self.static]:
            misuse(f"{self.__name__}: {bad[0]!r} is not one of the static arguments",
                   f"these are {', '.join(self.static) or 'none'}")  # fmt: skip
        given = {**self._defaults(), **self._statics, **statics}
        try:
            key = tuple(sorted(given.items()))
            hash(key)
        except TypeError:
            key = tuple([(n, repr(v)) for n, v in sorted(given.items(), key=lambda x: x[0])])
        if key not in self._made:
            made = PythonFunction(self.python, self.static, self.options)
            made._statics = given
            made.__signature__ = _without(made.__signature__, given)
            self._made[key] = made
        return self._made[key]

    def _defaults(self) -> dict[str, Any]:
        parameters = inspect.signature(self.python).parameters
        return {n: parameters[n].default for n in self.static if parameters[n].default is not inspect.Parameter.empty}

    def source(self) -> str:
        """The program as Futhark's text, which `futad.compile` makes the same program of."""
        return text_of(self.definition)[0]

    @property
    def fut(self) -> str:
        """The same."""
        return self.source()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None) if "out" not in self.__signature__.parameters else None
        if self.static and not self._statics:
            try:
                bound = inspect.signature(self.python).bind(*args, **kwargs)
            except TypeError as e:
                raise UsageError(f"{self.__name__}: {e}") from None
            statics = {n: v for n, v in bound.arguments.items() if n in self.static}
            rest = {n: v for n, v in bound.arguments.items() if n not in self.static}
            return self.at(**statics)(**rest, **({"out": out} if out is not None else {}))
        if traces():
            return self._called(self.positional(args, kwargs))
        if out is not None:
            return super().__call__(*args, **kwargs, out=out)
        return self._structured(self.definition.tree, super().__call__(*args, **kwargs))

    def _structured(self, tree: Tree, value: Any) -> Any:
        """A result in the structures that the function returned."""
        if tree.kind == "leaf":
            return value
        assert tree.make is not None
        parts = value if tree.kind == "tuple" else [value[n] for n in tree.names]
        return tree.make([self._structured(t, v) for t, v in zip(tree.parts, parts, strict=True)])

    def _called(self, args: Sequence[Any]) -> Any:
        """A call inside of a function that is being traced: of a definition of the same text."""
        d = self.definition
        leaves: list[Value] = []
        sizes: dict[Any, Size] = {}
        for (name, types, tree), arg in zip(d.params, args, strict=True):
            given, structure = flatten(arg)
            if structure != tree:
                fail(f"{self.__name__}: the argument '{name}' has another structure than its type says")
            for x, t in zip(given, types, strict=True):
                v: Value = literal(x, t.elem) if is_weak(x) and not t.dims else as_value(x)
                if v.elem != t.elem or len(v.dims) != len(t.dims):
                    fail(f"{self.__name__}: the argument '{name}' is {v.elem}{shape_text(v.dims) if v.dims else ''}, "
                         f"expected {t}", "x.astype(f64) converts it")  # fmt: skip
                for d_given, d_wanted in zip(v.dims, t.dims, strict=True):
                    if isinstance(d_wanted.atom, str):
                        sizes.setdefault(d_wanted.atom, d_given)
                leaves.append(v)
        for leaf, t in zip(leaves, [t for _, types, _ in d.params for t in types], strict=True):
            wanted = tuple([s.replaced(sizes) for s in t.dims])
            if wanted != leaf.dims:
                fail(f"{self.__name__}: shape {shape_text(leaf.dims)} where {shape_text(wanted)} is expected",
                     "where the sizes are equal, say so: x.sized(...)")  # fmt: skip
        results = [Type(v.elem, v.dims) for v in d.scope.results]
        if any(not isinstance(a, str) for t in results for s in t.dims for a in s.atoms()):
            return self.python(*args, **self._statics)  # of sizes that only its body has
        calls = current().trace.calls
        if d not in calls:
            if any(c.name == d.name for c in calls):
                d.name = f"{d.name}{len(calls)}"
            calls.append(d)
        made = bind(Application(d, leaves), [(t.elem, [s.replaced(sizes) for s in t.dims]) for t in results])
        return d.tree.build(iter(made))


class Application(Call):
    """A definition applied; its arguments are structures of values."""

    def __init__(self, definition: Definition, leaves: Sequence[Value]) -> None:
        super().__init__(definition.name, *leaves, hint=definition.name)
        self.definition, self.leaves = definition, leaves
        kinds = [p.kind for p in (definition.tree, *definition.tree.parts)]
        self.flat = kinds[1:].count("leaf") == len(kinds) - 1 and kinds[0] != "record"

    def pattern(self, names: Sequence[str]) -> str:
        left = iter(names)

        def of(tree: Tree) -> str:
            if tree.kind == "leaf":
                return next(left)
            parts = [of(p) for p in tree.parts]
            if tree.kind == "tuple":
                return f"({', '.join(parts)})"
            return "{" + ", ".join([f"{n} = {p}" for n, p in zip(tree.names, parts, strict=True)]) + "}"

        return of(self.definition.tree)

    def doc(self, w: Writer) -> WrittenDoc:
        left = iter(self.leaves)

        def of(tree: Tree) -> Doc:
            if tree.kind == "leaf":
                return w.use(next(left))
            parts = [of(p) for p in tree.parts]
            if tree.kind == "tuple":
                return enclosed(parts)
            return enclosed([(f"{n} = ", p) for n, p in zip(tree.names, parts, strict=True)], "{", "}")

        return application(self.definition.name, [of(tree) for _, _, tree in self.definition.params]), APPLY


def _mended(said: Sequence[Type], made: Sequence[Type]) -> str:
    """What to write where results are not of the types that their annotation says."""
    if len(said) == len(made) and any(a.elem != b.elem for a, b in zip(said, made, strict=True)):
        elem = next(a.elem for a, b in zip(said, made, strict=True) if a.elem != b.elem)
        return f"convert it: x.astype({elem})"
    if len(said) != len(made) or any(len(a.dims) != len(b.dims) for a, b in zip(said, made, strict=True)):
        return f"annotate it: -> {', '.join(map(str, made))}"
    return "sizes are the same where their names are; x.sized('n') says so of one"


def _without(signature: inspect.Signature, names: dict[str, Any]) -> inspect.Signature:
    return signature.replace(parameters=[p for n, p in signature.parameters.items() if n not in names])


@overload
def function(python: Callable[..., Any], /) -> PythonFunction: ...
@overload
def function(
    *, backend: str = ..., static: str | Sequence[str] = ..., **options: Unpack[Options]
) -> Callable[[Callable[..., Any]], PythonFunction]: ...
def function(
    python: Callable[..., Any] | None = None, /, *, backend: str = "auto", static: str | Sequence[str] = (),
    **options: Unpack[Options],
) -> PythonFunction | Callable[[Callable[..., Any]], PythonFunction]:  # fmt: skip
    """Make a function of Python an entry, that is called, differentiated and compiled as one of a program.

    Its parameters are annotated with types: `f64`, `f64["n", "d"]`, or tuples, dataclasses, named tuples and dicts of
    these; those that `static` names are Python's, and the function is compiled for each of their values.  When it is
    first called, it is run once with traced values, on which the functions of `futad.numpy` work, and what they do
    becomes a program for arrays of all sizes.  `backend` and the other options are those of `futad.compile`.

        @futad.function
        def loss(w: f64["d"], x: f64["n", "d"], y: f64["n"]) -> f64:
            return fnp.sum((x @ w - y) ** 2)

        futad.grad(loss)(w, x, y);  print(loss.source())

    Raises TraceError, with the place in the user's file, for what cannot be traced.
    """
    names = (static,) if isinstance(static, str) else tuple(static)

    def made(f: Callable[..., Any]) -> PythonFunction:
        if isinstance(f, PythonFunction) or not callable(f):
            misuse(f"futad.function decorates functions of Python, not {type(f).__name__}")
        return PythonFunction(f, names, {"backend": backend, **options})

    return made if python is None else made(python)


__all__ = ["PythonFunction", "function"]
