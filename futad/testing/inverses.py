"""Checking inverses: `g (f x)` against x for each `with_inverse f g` that a call comes to, `f (invert f y)` against y.

The program measures itself (`core/measures.py`): beside each of the two stands the other way round, and the largest
deviation there.  The interpreter runs it, at the arguments that a call really has there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from futad.ad.inverse.returned import ALLOWED, Returns
from futad.api.program import Function
from futad.core import ir
from futad.core.budget import PLACE
from futad.core.builder import Builder
from futad.core.interp import Interpreter
from futad.core.measures import bits_of, real_of
from futad.core.types import I64, ONE, ArrayType, Atom, elem_of, i64
from futad.errors import Span
from futad.optimise.inline import inline
from futad.pipeline import compile_program

WHAT = "inverse"  # the fact of measures that says which of the two it is of


@dataclass(frozen=True, slots=True)
class Inverse:
    """What was found at one place: how often a call came there, and the largest relative deviation."""

    what: str
    place: Span | None
    times: int
    error: float
    tolerance: float

    @property
    def fails(self) -> bool:
        return not self.error <= self.tolerance

    def __str__(self) -> str:
        at = "" if self.place is None else f" at {self.place.file}:{self.place.line}:{self.place.col}"
        times = "once" if self.times == 1 else f"{self.times:,} times"
        return f"{self.what}{at} (error {self.error:.2g}, tolerance {self.tolerance:.2g}, compared {times})"


def compare_inverses(core: ir.Program, f: Function, leaves: Sequence[Any]) -> list[Inverse]:
    """The inverses that a call of `f`, an entry of `core`, comes to, in the order of their places.  `leaves`: the
    components of the arguments.

    Raises UnsupportedError for an `invert` of a function that cannot be inverted, and what the call raises.
    """
    core = inline(core)
    if not any(fun.body.has(ir.WithInverse, ir.Invert) for fun in core.funs.values()):
        return []
    interpreter = Interpreter(compile_program(ir.map_bodies(core, _measuring)))
    interpreter.run(f.symbol, f.signature.bind([np.copy(x)[()] for x in leaves]))
    out = []
    for m in interpreter.measured():
        facts = dict(m.facts)
        if WHAT in facts:
            error, tolerance = (real_of(m.most[name]) for name in ("deviation", "allowed"))
            out.append(Inverse(facts[WHAT], facts["place"], m.times, error, tolerance))
    return sorted(out, key=lambda i: (str(i.place), i.what))


def _measuring(lam: ir.Lambda) -> ir.Lambda:
    """The scope in which each of the two is compared."""
    out: list[ir.Stm] = []
    for s in lam.stms:
        e = s.exp
        out.append(ir.map_scopes(s, _measuring))
        if isinstance(e, ir.WithInverse):
            out += _compared(e.back, s.pat, e.args, (WHAT, "with_inverse f g: g (f x) against x"), s)
        elif isinstance(e, ir.Invert):
            out += _compared(e.lam, s.pat, e.args, (WHAT, "invert f: f (invert f y) against y"), s)
    return ir.Lambda(lam.params, tuple(out), lam.result)


def _compared(way: ir.Lambda, given: ir.Atoms, want: ir.Atoms, what: tuple[str, str], s: ir.Stm) -> list[ir.Stm]:
    b = Builder()
    place = dict(a for a in s.attrs if a[0] == PLACE).get(PLACE)
    own = [b.let(ir.Copy(x), "x") if isinstance(x.type, ArrayType) else x for x in given]
    pairs = zip(want, b.inline(way, own), strict=True)
    off: list[Atom] = [Returns("x", float("inf"), place).check(b, x, now, ONE) for x, now in pairs]
    if not off:
        return []
    most = reduce(lambda x, y: b.op("max", x, y), off)
    allowed = max([ALLOWED.get(elem_of(x.type), 0.0) for x in want])
    numbers = b.convert(I64, b.op("bits_f64", most)), i64(bits_of(allowed))
    b.add(ir.Stm((), ir.Measure((what, ("place", place)), ("deviation", "allowed"), numbers)))
    return b.stms
