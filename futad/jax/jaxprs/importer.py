"""From a jaxpr to the core IR: walks the equations, asks the table of rules."""

from __future__ import annotations

import ast
import os
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from futad.core import ir
from futad.core.builder import Builder
from futad.core.scalarops import folded
from futad.core.types import Atom, Const, Var, array_of, i64
from futad.errors import Error, Span, UsageError
from futad.jax.jaxprs import (  # noqa: F401 (they register their rules)
    bounds,
    contractions,
    control,
    derivatives,
    elementwise,
    folds,
    indexing,
    linalg,
    randomness,
    shapes,
    sorting,
    windows,
)
from futad.jax.jaxprs.lifted import Value, everywhere, whole
from futad.jax.jaxprs.table import RULES, Site, Unsupported, elem_of_aval, key_shape


def _folder(path: str) -> str:
    return os.path.abspath(path) + os.sep


# Frames in these are not the user's; those in what else is installed, only where there are others.
_LIBRARIES = (_folder(os.path.dirname(jax.__file__)), _folder(str(Path(__file__).parents[2])), "<frozen")
_INSTALLED = tuple([_folder(sysconfig.get_path(kind)) for kind in ("stdlib", "purelib", "platlib")])
LARGE = 256  # elements of a constant that becomes an argument of its own


class JaxprImporter:
    """What one program's import knows.

    `top`: statements that come before all others, for what every scope may use: sizes computed from sizes, constants.
    """

    def __init__(self, sizes: Mapping[str, Atom]) -> None:
        """`sizes`: the symbols, and expressions of them, that are arguments."""
        self.top = Builder()
        self.known: dict[str, Atom] = dict(sizes)
        self.hidden: list[tuple[Var, Any]] = []  # large constants: parameters, and their values
        self.jaxpr: Any = None  # that of the equation being imported
        self.within_derivative = False  # in code that is a derivative somebody wrote
        self._constants: dict[int, tuple[Any, Value]] = {}

    # -- sizes

    def size(self, dim: Any) -> Atom:
        """A size of JAX, a number or an expression of symbols."""
        if isinstance(dim, int | np.integer):
            return i64(int(dim))
        text = str(dim)
        if text not in self.known:
            tree = ast.parse(text.replace("^", "**"), mode="eval").body
            self.known[text] = self._computed(tree)
        return self.known[text]

    def _computed(self, e: ast.expr) -> Atom:
        """An expression as JAX writes it: sums and products of symbols, floordiv, mod, max, min."""
        match e:
            case ast.Constant(int(value)):
                return i64(value)
            case ast.Name(name):
                if name not in self.known:
                    raise UsageError(f"futad.jax.compile: no argument has the size {name!r}")
                return self.known[name]
            case ast.UnaryOp(ast.USub(), x):
                return self._number("neg", x)
            case ast.BinOp(x, ast.Pow(), ast.Constant(int(k))):
                base = self._computed(x)
                out = base
                for _ in range(k - 1):
                    out = self._made("mul", out, base)
                return out
            case ast.BinOp(x, op, y):
                return self._number({ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}[type(op)], x, y)
            case ast.Call(ast.Name(name), [x, y]):
                return self._number({"floordiv": "div", "mod": "mod", "max": "max", "min": "min"}[name], x, y)
        raise UsageError(f"futad.jax.compile: the size {ast.unparse(e)} is not understood")

    def _number(self, op: str, *parts: ast.expr) -> Atom:
        return self._made(op, *[self._computed(p) for p in parts])

    def _made(self, op: str, *atoms: Atom) -> Atom:
        return folded(op, atoms) or self.top.op(op, *atoms, hint="size")

    # -- constants

    def constant(self, value: Any) -> Value:
        """A constant of a program.  Large ones are parameters that the entry is bound to."""
        if isinstance(value, jax.core.Tracer):  # of the code of a derivative, which is traced later
            raise Unsupported("has a derivative that closes over a value that the function computes; pass it to both")
        found = self._constants.get(id(value))
        if found is None:
            found = self._constants[id(value)] = (value, self._constant(value))
        return found[1]

    def _constant(self, value: Any) -> Value:
        if key_shape_of(value):
            value = jax.random.key_data(value)
        return replace(self._of_array(value), bounds=bounds.of_array(np.asarray(value)))

    def _of_array(self, value: Any) -> Value:
        a = np.asarray(value)
        aval = jax.typeof(value) if hasattr(value, "dtype") else jax.core.get_aval(value)
        elem = elem_of_aval(aval, "a constant that the function closes over")
        shape = tuple([i64(n) for n in a.shape])
        if not a.size or bool((a == a.flat[0]).all()):
            return everywhere(Const(elem, a.flat[0].item() if a.size else 0), shape)
        if elem.is_integral and a.ndim == 1:
            step = int(a[1]) - int(a[0])
            if (np.diff(a.astype(object)) == step).all():
                return whole(self.top.let(ir.Iota(shape[0], Const(elem, a[0]), Const(elem, step))))
        if a.size > LARGE:
            v = Var(f"constant{len(self.hidden)}", array_of(elem, *shape))
            self.hidden.append((v, a))
            return whole(v)
        flat = self.top.let(ir.ArrayLit(tuple([Const(elem, e.item()) for e in a.ravel()]), elem))
        return whole(flat if a.ndim == 1 else self.top.let(ir.Reshape(flat, shape)))

    # -- equations

    @contextmanager
    def derivative(self) -> Iterator[None]:
        """While the code of a derivative is imported."""
        self.within_derivative, before = True, self.within_derivative
        try:
            yield
        finally:
            self.within_derivative = before

    def run(self, b: Builder, closed: Any, args: Sequence[Value]) -> list[Value]:
        """The results of a jaxpr (closed, or without constants) at operands."""
        jaxpr, consts = (closed.jaxpr, closed.consts) if hasattr(closed, "jaxpr") else (closed, ())
        env: dict[Any, Value] = dict(zip(jaxpr.constvars, map(self.constant, consts), strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))

        def read(v: Any) -> Value:
            if isinstance(v, Literal):
                return self.literal(v)
            return env[v]

        for eqn in jaxpr.eqns:
            self.jaxpr = jaxpr
            place = place_of(eqn)
            with located(place):
                made = self.equation(b, eqn, [read(v) for v in eqn.invars], place)
            env.update(zip(eqn.outvars, made, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def literal(self, v: Any) -> Value:
        elem = elem_of_aval(v.aval)
        made = everywhere(Const(elem, np.asarray(v.val).item()), [i64(n) for n in v.aval.shape])
        return replace(made, bounds=bounds.of_array(np.asarray(v.val)))

    def equation(self, b: Builder, eqn: Any, args: list[Value], place: Span | None) -> list[Value]:
        name = eqn.primitive.name
        first = len(b.stms)
        try:
            rule = RULES.get(name)
            if rule is None:
                entry = name in ("futad", "futad_linear")
                raise Unsupported("is an entry, which cannot be compiled again" if entry else "has no rule in futad")
            rule.check(eqn.params)
            made = rule.make(Site(self, b, eqn, place), *args)
        except Unsupported as e:
            raise UsageError(f"futad.jax.compile: primitive '{name}' {e}", place, hint=_hint(eqn)) from None
        b.locate(first, place)
        every = [made] if isinstance(made, Value) else list(made)
        if (within := bounds.of_equation(eqn, [v.bounds for v in args])) is not None:
            every = [replace(every[0], bounds=within)]
        return every

    def traced(self, b: Builder, f: Callable[..., Any], avals: Sequence[Any], args: Sequence[Value]) -> list[Value]:
        """What a function in JAX makes of operands of these shapes: for primitives that JAX itself is made of."""
        return self.run(b, jax.make_jaxpr(f)(*avals), args)


@contextmanager
def located(place: Span | None) -> Iterator[None]:
    """Errors that come from here have a place, and show its line."""
    try:
        yield
    except Error as e:
        if e.span is None:
            e.span = place
            e.args = (e.message,)
        e.locate({})
        raise


def key_shape_of(value: Any) -> tuple[int, ...]:
    return key_shape(value) if hasattr(value, "dtype") else ()


def _hint(eqn: Any) -> str:
    operands = ", ".join([str(v.aval.str_short()) for v in eqn.invars])
    return f"its operands: {operands}"


def place_of(eqn: Any) -> Span | None:
    """The line of the user's program that an equation comes from."""
    traceback = eqn.source_info.traceback
    frames = [f for f in (traceback.frames if traceback is not None else ()) if not f.file_name.startswith(_LIBRARIES)]
    frames = [f for f in frames if not f.file_name.startswith(_INSTALLED)] or frames
    return span_of(frames[0].file_name, frames[0].line_num) if frames else None


def span_of(file: str, line: int) -> Span:
    return Span(file, line, 1, line, 1)

