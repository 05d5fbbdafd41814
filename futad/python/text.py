"""Traced functions as definitions of Futhark text, with those that they call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from futad.errors import Error, Span, TraceError
from futad.python.elementwise import as_value
from futad.python.instead import instead, usage
from futad.python.layout import HARD, LET, SPACE, Doc, Group, Nest, Soft, enclosed, join, show
from futad.python.place import BEGINNINGS, defined_at, raised_at, trace_error
from futad.python.sizes import Size
from futad.python.trees import Tree, flatten
from futad.python.types import Type
from futad.python.values import Scope, Trace, Value, check_scope, name_values, parameter, traces
from futad.python.writer import Uses, Writer


@dataclass(eq=False)
class Definition:
    """A function that has been traced."""

    name: str
    params: list[tuple[str, list[Type], Tree]]  # of each parameter the types of its leaves
    trace: Trace
    tree: Tree  # of the result
    doc: str
    calls: list[Definition] = field(default_factory=list)
    place: Span | None = None

    @property
    def scope(self) -> Scope:
        """The body."""
        return self.trace.scope

    @property
    def sizes(self) -> list[str]:
        """The names of sizes, in the order in which the parameters name them."""
        atoms = [a for _, types, _ in self.params for t in types for d in t.dims for a in d.atoms()]
        return list(dict.fromkeys([a for a in atoms if isinstance(a, str)]))


def trace_function(
    f: Callable[..., Any], name: str, params: list[tuple[str, list[Type], Tree]], statics: dict[str, Any], doc: str
) -> Definition:
    """Call f with traced arguments, and what happens to them."""
    trace = Trace(calls=[])
    made = Definition(name, params, trace, Tree(), doc, trace.calls)
    trace.sizes = set(made.sizes)
    args: dict[str, Any] = dict(statics)
    for param, types, tree in params:
        paths = tree.paths(param)
        leaves = [parameter(trace.scope, t.elem, t.dims, p) for t, p in zip(types, paths, strict=True)]
        args[param] = tree.build(iter(leaves))
    traces().append(trace)
    try:
        result = _begin(f, args)
        if result is None:
            raise trace_error(f"{name} returns nothing", "end it with return, and the value that it makes",
                              defined_at(f.__code__))  # fmt: skip
        leaves_out, made.tree = flatten(result)
        trace.scope.results = [_result(x, f) for x in leaves_out]
        for v in trace.scope.results:
            check_scope(v)
    except RecursionError as e:
        hint = "a function that calls itself is not traced: write fnp.loop or fnp.while_loop"
        raise trace_error(f"tracing {name} does not end", hint, defined_at(f.__code__)) from e
    except AttributeError as e:  # properties of functions must not raise it
        of = isinstance(e.obj, Value) or getattr(e.obj, "__name__", "") == "futad.numpy"
        place = raised_at(e, f.__code__.co_filename)
        raise trace_error(str(e), instead(e.name) if of and e.name else None, place) from e
    except TypeError as e:  # of Python: a call that does not fit its function, an operator of other things
        if isinstance(e, Error):
            raise
        told = usage(str(e))
        if told is None and "<traced" in str(e):
            told = "sizes of traced arrays are for futad.numpy: fnp.zeros(n), not np.zeros(n)"
        raise trace_error(str(e), told, raised_at(e, f.__code__.co_filename)) from e
    finally:
        traces().pop()
    return made


def _result(x: Any, f: Callable[..., Any]) -> Value:
    """A component of what f returns, as a value."""
    try:
        return as_value(x, f"what {f.__name__} returns")
    except TraceError as e:
        raise trace_error(e.message, e.hint, e.span or defined_at(f.__code__)) from None


def _begin(f: Callable[..., Any], args: dict[str, Any]) -> Any:
    result = f(**args)
    name_values()
    return result


BEGINNINGS.add(trace_function.__code__)


def in_order(main: Definition) -> list[Definition]:
    """The definition after those that it calls."""
    out: list[Definition] = []

    def visit(d: Definition) -> None:
        for called in d.calls:
            visit(called)
        if d not in out:
            out.append(d)

    visit(main)
    return out


def text_of(main: Definition) -> tuple[str, dict[int, Span]]:
    """The program, of which `main` is the entry, and the places that its lines come from."""
    docs: list[Doc] = []
    names = [d.name for d in in_order(main)]
    for d in in_order(main):
        docs.append(_definition(d, "entry" if d is main else "def", [n for n in names if n != d.name]))
    text, places = show(join(docs, (HARD, HARD)))
    return text + "\n", {line: p for line, p in places.items() if isinstance(p, Span)}


def _definition(d: Definition, word: str, others: Sequence[str]) -> Doc:
    w = Writer(Uses(d.scope), [*d.sizes, *others])
    heads: list[Doc] = []
    left = iter(d.scope.params)
    for param, types, tree in d.params:
        name = w.fresh(param)
        of = iter(types)
        shown = type_text(tree, of, w)
        for path in tree.paths(name):
            w.names[next(left)] = path
        heads.append(f"({name}: {shown})")
    sizes = "".join([f"[{s}]" for s in d.sizes])
    results = [Type(v.elem, v.dims) for v in d.scope.results]
    body = w.body(d.scope, (lambda: structure(d.tree, iter(d.scope.results), w)) if d.tree.kind != "leaf" else None)
    local = any(not isinstance(a, str) for t in results for s in t.dims for a in s.atoms())
    result = "" if local and word == "def" else ": " + type_text(d.tree, iter([_open(t) for t in results]), w)
    given = Nest(4, tuple([x for h in heads for x in (SPACE, h)]))
    head = Group((f"{word} {d.name}", f" {sizes}" if sizes else "", given, Nest(4, (Soft(), result, " ="))))
    told = d.doc.strip().split("\n") if d.doc.strip() else []
    lines = [x for line in told for x in (f"-- {line.strip()}".rstrip(), HARD)]
    return (*lines, head, Nest(2, (HARD, body)))


def _open(t: Type) -> Type:
    """A type without the sizes that only running the program tells."""
    return Type(t.elem, tuple([d if all(isinstance(a, str) for a in d.atoms()) else Size({("",): 1}) for d in t.dims]))


def type_text(tree: Tree, leaves: Iterator[Type], w: Writer) -> str:
    """A type as text."""
    if tree.kind == "leaf":
        t = next(leaves)
        return w.type(t.elem, t.dims)
    parts = [type_text(p, leaves, w) for p in tree.parts]
    if tree.kind == "tuple":
        return f"({', '.join(parts)})"
    return "{" + ", ".join([f"{n}: {p}" for n, p in zip(tree.names, parts, strict=True)]) + "}"


def structure(tree: Tree, leaves: Iterator[Value], w: Writer) -> Doc:
    """A value of parts as text."""
    if tree.kind == "leaf":
        return w.use(next(leaves), LET)
    parts = [structure(p, leaves, w) for p in tree.parts]
    if tree.kind == "tuple":
        return enclosed(parts)
    return enclosed([(f"{n} = ", p) for n, p in zip(tree.names, parts, strict=True)], "{", "}")


__all__ = ["Definition", "text_of", "trace_function"]
