"""Building IR: a `Builder` collects statements; an `Ex` is an atom with arithmetic.

    b = Builder()
    y = b.op("mul", x, x)
    (s,) = b.emit(Reduce(n, (ys,), lam, (zero,)))
    lam = b.lambda_([("x", F64)], lambda inner, x: [inner.op("add", x, c)])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from futad.core import ir
from futad.core.type_rules import exp_types
from futad.core.types import (
    BOOL,
    I32,
    I64,
    ArrayType,
    Atom,
    Const,
    Prim,
    Type,
    Var,
    array_of,
    elem_of,
    i64,
    one,
    row_type,
    shape_of,
    zero,
)
from futad.errors import Span


class Builder:
    """A growing list of statements."""

    def __init__(self) -> None:
        self.stms: list[ir.Stm] = []

    # -- statements

    def add(self, stm: ir.Stm) -> None:
        self.stms.append(stm)

    def extend(self, stms: Iterable[ir.Stm]) -> None:
        self.stms.extend(stms)

    def locate(self, first: int, at: Span | None) -> None:
        """The statements from number `first` on come from that place in the source, where nothing else is known."""
        if at is not None:
            for s in self.stms[first:]:
                for v in s.pat:
                    v.at = v.at or at

    def emit(
        self, exp: ir.Exp, *names: str, types: Sequence[Type] | None = None, attrs: tuple[Any, ...] = ()
    ) -> tuple[Var, ...]:
        """Bind the results of `exp`; `names` are hints (the last one is repeated), `types` override."""
        ts = exp_types(exp) if types is None else types
        pat = tuple([Var(names[min(i, len(names) - 1)] if names else "t", t) for i, t in enumerate(ts)])
        self.stms.append(ir.Stm(pat, exp, attrs))
        return pat

    def let(self, exp: ir.Exp, name: str = "t") -> Var:
        """Bind the single result of `exp`."""
        (v,) = self.emit(exp, name)
        return v

    def op(self, name: str, *args: Atom, hint: str = "t", place: Any = None) -> Var:
        """A scalar operation; `place` is where the source has one that can fail."""
        return self.let(ir.Op(name, args, place), hint)

    def convert(self, to: Prim, a: Atom) -> Atom:
        return a if a.type is to else self.op(f"to_{to.name}", a)

    def at(self, array: Atom, *index: Any, check: Any = None, hint: str = "e") -> Var:
        return self.let(ir.At(array, tuple(index), check), hint)

    def size_mul(self, sizes: Sequence[Atom]) -> Atom:
        """The product of i64 sizes, constants folded."""
        out: Atom = i64(1)
        for s in sizes:
            if isinstance(out, Const) and isinstance(s, Const):
                out = i64(out.value * s.value)
            elif isinstance(out, Const) and out.value == 1:
                out = s
            elif not (isinstance(s, Const) and s.value == 1):
                out = self.op("mul", out, s, hint="size")
        return out

    def zeros(self, t: Type, hint: str = "zeros") -> Atom:
        """A fresh zero of a scalar or array type."""
        if isinstance(t, Prim):
            return zero(t)
        return self.let(ir.Replicate(shape_of(t), zero(elem_of(t))), hint)

    def plus(self, x: Atom, y: Atom, hint: str = "sum") -> Var:
        """x + y: elementwise (nested maps) on arrays; `or` on bools."""
        t = x.type
        if isinstance(t, Prim):
            return self.op("or" if t is BOOL else "add", x, y, hint=hint)
        assert isinstance(t, ArrayType)
        return self.zip_with(lambda b, u, v: b.plus(u, v), x, y, hint=hint)

    def zip_with(self, f: Callable[..., Atom], *arrays: Atom, hint: str = "m") -> Var:
        """map over the outer dimension of equally wide arrays; f(builder, *rows) -> one atom."""
        (v,) = self.map_(lambda b, *rows: [f(b, *rows)], *arrays, hint=hint)
        return v

    def map_(self, f: Callable[..., Sequence[Atom]], *arrays: Atom, hint: str = "m") -> tuple[Var, ...]:
        width = shape_of(arrays[0].type)[0]
        params = [("x", row_type(a.type)) for a in arrays]
        return self.emit(ir.Map(width, tuple(arrays), self.lambda_(params, f)), hint)

    def sum_outer(self, n: Atom, array: Atom, hint: str = "sum") -> Var:
        """The sum over dimension 0, which is of size `n`."""
        t = row_type(array.type)
        zeros = self.zeros(t)
        return self.emit(ir.Reduce(n, (array,), self.plus_lambda(t), (zeros,), True), hint)[0]

    # -- scopes

    def plus_lambda(self, t: Type) -> ir.Lambda:
        """The addition of two values of type `t`."""
        return self.lambda_([("x", t), ("y", t)], lambda b, x, y: [b.plus(x, y)])

    def lambda_(self, params: Sequence[tuple[str, Type]], f: Callable[..., Sequence[Atom]]) -> ir.Lambda:
        """A lambda: `f(builder, *params)` emits into a builder of its own and returns the results."""
        vs = tuple([Var(n, t) for n, t in params])
        inner = Builder()
        result = tuple(f(inner, *vs))
        return ir.Lambda(vs, tuple(inner.stms), result)

    def body(self, f: Callable[[Builder], Sequence[Atom]]) -> ir.Lambda:
        """A scope without parameters (a branch)."""
        return self.lambda_((), f)

    def inline(self, lam: ir.Lambda, args: Sequence[Atom]) -> ir.Atoms:
        """Emit a renamed copy of the lambda's statements applied to `args`; its results."""
        copy = ir.Renamer(dict(zip(lam.params, args, strict=True)))
        self.extend(copy.stms(lam.stms))
        return tuple([copy.atom(a) for a in lam.result])

    def ex(self, a: Atom) -> Ex:
        return Ex(self, a)


class Ex:
    """A scalar atom with operators that emit `Op`s into a builder; Python numbers take its type.

    Constants fold at +0, *1, *0 so that derivative code is born small.
    """

    __slots__ = ("b", "atom")

    def __init__(self, b: Builder, atom: Atom) -> None:
        self.b = b
        self.atom = atom

    @property
    def type(self) -> Prim:
        assert isinstance(self.atom.type, Prim)
        return self.atom.type

    def lift(self, x: Any) -> Ex:
        """`x` as a handle of this one's type."""
        return x if isinstance(x, Ex) else Ex(self.b, Const(self.type, x))

    def i32(self, k: int) -> Ex:
        """An i32 constant."""
        return Ex(self.b, Const(I32, k))

    def op(self, name: str, *args: Any) -> Ex:
        """The named operation with this handle as first argument."""
        return Ex(self.b, self.b.op(name, self.atom, *[self.lift(a).atom for a in args]))

    def _bin(self, name: str, x: Any, y: Any) -> Ex:
        left, right = self.lift(x), self.lift(y)
        a, c = left.atom, right.atom
        if name == "add" and a is zero(self.type):
            return right
        if name in ("add", "sub") and c is zero(self.type):
            return left
        if name == "mul" and a is one(self.type):
            return right
        if name in ("mul", "div") and c is one(self.type):
            return left
        if name == "mul" and a is Const(self.type, -1):
            return -right
        if name == "mul" and c is Const(self.type, -1):
            return -left
        return Ex(self.b, self.b.op(name, a, c))

    def __add__(self, o: Any) -> Ex:
        return self._bin("add", self, o)

    def __radd__(self, o: Any) -> Ex:
        return self._bin("add", o, self)

    def __sub__(self, o: Any) -> Ex:
        return self._bin("sub", self, o)

    def __rsub__(self, o: Any) -> Ex:
        return self._bin("sub", o, self)

    def __mul__(self, o: Any) -> Ex:
        return self._bin("mul", self, o)

    def __rmul__(self, o: Any) -> Ex:
        return self._bin("mul", o, self)

    def __truediv__(self, o: Any) -> Ex:
        return self._bin("div", self, o)

    def __rtruediv__(self, o: Any) -> Ex:
        return self._bin("div", o, self)

    def __neg__(self) -> Ex:
        return self.op("neg")

    def __invert__(self) -> Ex:
        return self.op("not")

    def __and__(self, o: Any) -> Ex:
        return self.op("and", o)

    def eq(self, o: Any) -> Ex:
        return self.op("eq", o)

    def select(self, x: Ex, y: Any) -> Ex:
        """`x` where this bool holds, else `y`."""
        return Ex(self.b, self.b.op("select", self.atom, x.atom, x.lift(y).atom))

    def to(self, other: Ex) -> Ex:
        """Converted to the type of `other`."""
        return Ex(self.b, self.b.convert(other.type, self.atom))

    def exp(self) -> Ex:
        return self.op("exp")

    def log(self) -> Ex:
        return self.op("log")

    def sin(self) -> Ex:
        return self.op("sin")

    def cos(self) -> Ex:
        return self.op("cos")

    def sqrt(self) -> Ex:
        return self.op("sqrt")


__all__ = ["Builder", "Ex", "I64", "array_of"]
