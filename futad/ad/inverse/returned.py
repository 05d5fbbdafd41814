"""Whether a variable that was carried backwards is what the loop began with: else an error, never a wrong gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from futad.ad.emit import coerce
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import F16, F32, F64, I64, ZERO, ArrayType, Atom, Const, Prim, elem_of, row_type, shape_of
from futad.errors import Span

ALLOWED = {F64: 1e-8, F32: 1e-3, F16: 0.1}  # of 1 plus the greatest element
MISSED = "run backwards, the loop does not come to where it was"
HELP = 'a number as reversible= allows more, reversible="exact" undoes only what comes back bit by bit'


@dataclass(frozen=True, slots=True)
class Returns:
    """That a variable `name` of a loop comes back, as far as round-off allows: max |end - start| <= allowed (1 + max
    |start|), with no NaN; integers and bools are equal.  `allowed`: None for `ALLOWED`."""

    name: str
    allowed: float | None
    place: Span | None

    def tolerance(self, t: Prim) -> float:
        """What is allowed of numbers of type `t`, relative to 1 and the greatest of them."""
        return 0.0 if not t.is_float else ALLOWED[t] if self.allowed is None else self.allowed

    def check(self, b: Builder, start: Atom, end: Atom, iterations: Atom) -> Atom:
        """Emit the check of `end`, so many iterations back, against `start`; the relative deviation, an f64."""
        t = elem_of(start.type)
        x, y = flat(b, start), flat(b, coerce(b, end, start.type))
        if not t.is_float:
            differ = most(b, lambda c, u, v: c.op("to_i64", c.op("ne", u, v)), I64, x, y)
            message = f"{MISSED}: '{self.name}' differs after {{}} iterations"
            self.fail_unless(b, b.op("eq", differ, ZERO), message, (iterations,))
            return b.convert(F64, differ)
        infinite = Const(t, math.inf)

        def deviation(c: Builder, u: Atom, v: Atom) -> Atom:
            d = c.op("abs", c.op("sub", v, u))
            return c.op("select", c.op("isnan", d), infinite, d)

        off = most(b, deviation, t, x, y)
        whole = b.op("add", Const(t, 1), most(b, lambda c, u: c.op("abs", u), t, x))
        limit = b.op("mul", Const(t, self.tolerance(t)), whole)
        ok = b.op("and", b.op("le", off, limit), b.op("lt", off, infinite))
        message = f"{MISSED}: '{self.name}' is off by {{}} after {{}} iterations, where {{}} is allowed"
        self.fail_unless(b, ok, message, (off, iterations, limit))
        return b.convert(F64, b.op("div", off, whole))

    def fail_unless(self, b: Builder, ok: Atom, message: str, values: ir.Atoms) -> None:
        """Emit an assertion; none where everything is allowed."""
        if self.allowed != math.inf:
            b.add(ir.Stm((), ir.Assert(ok, f"{message}; {HELP}", values, self.place)))


def flat(b: Builder, a: Atom) -> Atom:
    """The array with one dimension; a scalar as it is."""
    if not isinstance(a.type, ArrayType) or len(a.type.shape) == 1:
        return a
    return b.let(ir.Reshape(a, (b.size_mul(shape_of(a.type)),)), "flat")


def most(b: Builder, f: Callable[..., Atom], t: Prim, *args: Atom) -> Atom:
    """The greatest f of elements, or of scalars; at least 0."""
    if not isinstance(args[0].type, ArrayType):
        return f(b, *args)
    n = shape_of(args[0].type)[0]
    params = [("x", row_type(a.type)) for a in args]
    each = b.let(ir.Map(n, args, b.lambda_(params, lambda c, *xs: [f(c, *xs)])), "off")
    greatest = b.lambda_([("x", t), ("y", t)], lambda c, x, y: [c.op("max", x, y)])
    return b.emit(ir.Reduce(n, (each,), greatest, (Const(t, 0),), True), "most")[0]
